"""Usual lines take a short way to the cassette, and leave there what the long way leaves."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcp_tape.cassette.batch import Batch
from mcp_tape.record.tape import Tape
from mcp_tape.redaction.redactor import Redactor
from mcp_tape.wire.frames import Side, UsualLines

SESSION = 3
NUMBERS = st.integers(0, 3)  # few, so that ids are reused and answered
LINES = st.sampled_from(
    [
        b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}',
        b'{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}',
        b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"isError":true}}',
        b'{"jsonrpc":"2.0","id":%d,"result":{"resultType":"input_required"}}',
        b'{"jsonrpc":"2.0","id":%d,"result":{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"}}}}',
        b'{"jsonrpc":"2.0","id":%d,"result":{"protocolVersion":"2025-06-18","serverInfo":{"name":"s","version":"1"}}}',
        b'{"jsonrpc":"2.0","id":%d,"result":1}',
        b'{"jsonrpc":"2.0","id":"%d","result":{}}',
        b'{"jsonrpc":"2.0","id":%d.0,"result":{}}',
        b'{"jsonrpc":"2.0","id":%d,"result":{},"error":{"code":1,"message":"no"}}',
        b'{"jsonrpc":"2.0","id":%d,"result":{},"method":"sampling/createMessage"}',
        b'{"jsonrpc":"2.0","id":%d,"result":{},"params":{}}',
        b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"e","arguments":{"n":1.0}}}',
        b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"e","arguments":{"token":["a"]}}}',
        b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"e","_meta":{"progressToken":1}}}',
        b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"caf\xc3\xa9"}}',
        b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"e","arguments":{"text":"\xff"}}}',
        b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":""}}',
        b'{"jsonrpc":"2.0","id":%d,"method":"resources/read","params":{"uri":"file:///a"}}',
        b'{"jsonrpc":"2.0","id":%d,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}',
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
PING = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}'
NOTE = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"data":%d}}'
LISTEN = b'{"jsonrpc":"2.0","id":%d,"method":"subscriptions/listen","params":{}}'
HEARD = b'{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%d}}}'
HELLO = b'{"jsonrpc":"2.0","id":%d,"method":"initialize","params":{}}'
WELCOME = b'{"jsonrpc":"2.0","id":%d,"result":{"serverInfo":{"name":"s","version":"1"}}}'


def recorded(pieces: list[tuple[Side, list[tuple[bytes, int]]]], short_way: bool) -> tuple[object, ...]:
    batch, ways = Batch(), []

    def usual(lines: UsualLines) -> None:
        ways.append(len(lines.texts))
        batch.add_usual(SESSION, lines)

    tape = Tape(lambda *kept: batch.add(SESSION, *kept), Redactor({}), usual=usual if short_way else None)
    for at, (side, lines) in enumerate(pieces):
        tape.feed(side, "stdio", b"".join([line % number + b"\n" for line, number in lines]), at)
    counts = tape.frames, tape.ledger.exchanges, tape.ledger.still_open, tape.ledger.facts
    assert short_way or not ways
    return list(batch.frames), list(batch.messages), batch.first, batch.size, counts


@example(
    [("client", [(CALL, 1)] * 2), ("server", [(PING, 1)]), ("client", [(RESULT, 1)]), ("server", [(RESULT, 1)] * 2)]
)
@example([("client", [(CALL, 1), (CALL, 2)]), ("server", [(RESULT, 1), (RESULT, 2), (NOTE, 1), (NOTE, 2)])])
@example(
    [("client", [(LISTEN, 1)] * 2), ("server", [(HEARD, 1)]), ("client", [(PING, 2)]), ("server", [(RESULT, 1)] * 2)]
)
@example([("client", [(HELLO, 1)]), ("server", [(WELCOME, 1)] * 2)])
@settings(max_examples=300, deadline=None)
@given(PIECES)
def test_the_short_way_gives_the_rows_of_the_long_one(pieces: list[tuple[Side, list[tuple[bytes, int]]]]) -> None:
    assert recorded(pieces, short_way=True) == recorded(pieces, short_way=False)


def test_calls_and_their_results_take_the_short_way() -> None:
    blocks: list[int] = []
    tape = Tape(lambda *_: blocks.append(-1), Redactor({}), usual=lambda lines: blocks.append(len(lines.texts)))
    call = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}\n'
    tape.feed("client", "stdio", b"".join([call % number for number in range(4)]), 0)
    tape.feed("server", "stdio", b'{"jsonrpc":"2.0","id":0,"result":{}}\n{"jsonrpc":"2.0","id":3,"result":{}}\n', 1)
    tape.feed("server", "stderr", b"started\n", 2)
    assert (blocks, tape.frames, tape.ledger.exchanges) == ([4, 2, -1], 7, 2)
