"""Rows made from frames and their messages: values that are left out come back when the rows are read."""

from __future__ import annotations

from contextlib import closing

from hypothesis import example, given
from hypothesis import strategies as st

from mcp_tape.cassette.batch import Batch, EnteredFrame
from mcp_tape.cassette.reader import FRAME_COLUMNS, frame_of
from mcp_tape.cassette.writer import Writer
from mcp_tape.record.tape import Tape
from mcp_tape.redaction.redactor import Redactor
from mcp_tape.wire.frames import Side
from tests.support.http_facts import Http
from tests.support.messages import call, request, result

FACTS = {"started_at": "2026-01-01T00:00:00Z", "transport": "stdio", "target": {"command": ["x"]}, "recorder": "test"}
NUMBERS = st.integers(0, 3)  # few, so that ids are reused and answered
LINES = st.sampled_from(
    [
        b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}',
        b'{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}',
        b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"isError":true}}',
        b'{"jsonrpc":"2.0","id":"%d","result":{}}',
        b'{"jsonrpc":"2.0","id":%d,"error":{"code":1,"message":"no"}}',
        b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"e","_meta":{"progressToken":1}}}',
        b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"caf\xc3\xa9","arguments":{"token":"s3cr3t"}}}',
        b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"e","arguments":{"text":"\xff"}}}',
        b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":""}}',
        b'{"jsonrpc":"2.0","id":%d,"method":"subscriptions/listen","params":{}}',
        b'{"jsonrpc":"2.0","id":%d,"method":"ping"}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}',
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":1}}',
        b'[{"jsonrpc":"2.0","id":%d,"method":"ping"},{"jsonrpc":"2.0","id":9,"result":{}}]',
        b'[{"jsonrpc":"2.0","id":%d,"result":{}},{"jsonrpc":"2.0","id":1,"result":{}}]',
        b'{"jsonrpc":"2.0","id":%d,"result":{}}\r',
        b"noise %d",
        b'{"jsonrpc":"2.0","id":%d,"result":{}',
    ]
)
SIDES: st.SearchStrategy[Side] = st.sampled_from(("client", "server"))
PIECES = st.lists(st.tuples(SIDES, st.lists(st.tuples(LINES, NUMBERS), min_size=1, max_size=6)), max_size=12)
CALL = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo"}}'
RESULT = b'{"jsonrpc":"2.0","id":%d,"result":{}}'


def entered(pieces: list[tuple[Side, list[tuple[bytes, int]]]], session: int) -> list[EnteredFrame]:
    found: list[EnteredFrame] = []
    tape = Tape(lambda frame, entries: found.append((session, frame, entries)), Redactor({}))
    for at, (side, lines) in enumerate(pieces):
        tape.feed(side, "stdio", b"".join([line % number + b"\n" for line, number in lines]), at)
        tape.feed(side, "stderr", b"a line\n", at)
    tape.control("server", "stdio", {"event": "exit", "code": 0}, 99)
    return found


@example([("client", [(CALL, n) for n in range(100)]), ("server", [(RESULT, n) for n in range(100)])])
@given(PIECES)
def test_stored_rows_equal_the_entered_ones(pieces: list[tuple[Side, list[tuple[bytes, int]]]]) -> None:
    with closing(Writer(None)) as made:
        session = made.begin(FACTS)
        given = entered(pieces, session)
        made.append(given, {})
        assert list(map(frame_of, made.connection.execute(f"SELECT {FRAME_COLUMNS} FROM frames"))) == [
            frame for _, frame, _ in given
        ]
        columns = "seq, part, sender, kind, method, rpc_id, name, status, answers, key, exchange, cue"
        assert made.connection.execute(f"SELECT {columns} FROM messages ORDER BY id").fetchall() == [
            (frame.seq, part, frame.sender, *entry.message[:5], *entry[1:])
            for _, frame, entries in given
            for part, entry in enumerate(entries)
        ]


def test_a_batch_knows_where_each_session_begins_and_can_leave_one_out() -> None:
    one, other = ([("client", [(CALL, n)]), ("server", [(RESULT, n)])] for n in (1, 2))
    first, second = entered(one, 1), entered(other, 2)  # type: ignore[arg-type]
    both = Batch([*first, *second])
    assert both.first == {1: 1, 2: 1}
    rest = both.without(1)
    assert rest.first == {2: 1} and list(rest.frames) == list(Batch(second).frames)
    assert list(rest.messages) == list(Batch(second).messages)
    assert len(both.frames) == len(first) + len(second) and len(both.messages) == 4


def test_a_repeated_request_is_kept_but_is_not_a_message() -> None:
    found: list[EnteredFrame] = []
    http = Http(Tape(lambda frame, entries: found.append((1, frame, entries)), None))
    http.post("post-1", request(1, "tools/list"))
    http.answer("post-1", "{}", 401)
    http.post("post-2", request(1, "tools/list"))
    http.answer("post-2", result(1))
    assert [*Batch(found).again] == [(1, 2)]


def test_a_key_that_a_redacted_frame_no_longer_gives_is_kept_with_it() -> None:
    found: list[EnteredFrame] = []
    tape = Tape(lambda frame, entries: found.append((1, frame, entries)), Redactor({}))
    for number, name in enumerate(("password", "word")):  # a secret of one call, which the next repeats
        tape.feed("client", "stdio", call(number, "in", **{name: "kJ8mN2pQ4xR7"}).encode() + b"\n", 0)
    assert [frame.redactions for _, frame, _ in found] == [1, 1]
    assert [Batch([one]).loses_keys for one in found] == [False, True]
