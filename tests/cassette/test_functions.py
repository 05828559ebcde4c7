"""Messages of batches: each with its own text, request, answer and cancel, and none in quadratic time."""

from __future__ import annotations

import gc
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.cassette import functions
from mcp_tape.cassette.lookup.messages import START, Messages
from mcp_tape.cassette.query import filters, totals
from mcp_tape.cassette.query.timeline import exchange_rows, session_rows, whole_text
from mcp_tape.cassette.reader import Cassette, Session
from mcp_tape.compare.transcript import Transcript as Compared
from mcp_tape.formats import dump, markdown
from mcp_tape.wire import frames as wire
from mcp_tape.wire import jsontext, match
from tests.support.decks import alter
from tests.support.reading import Frames, Recording, call, invoke, make, message, said


def batch(*parts: bytes) -> bytes:
    return b"[" + b",".join(parts) + b"]"


def cancel(number: Any) -> bytes:
    return message(method="notifications/cancelled", params={"requestId": number})


def ask(number: Any, method: str = "ping") -> bytes:
    return message(id=number, method=method)


def reply(number: Any) -> bytes:
    return message(id=number, result={})


# Ids that repeat, look alike, or are used by both sides; cancels before and after; answers in any form.
ODD = (
    Frames()
    .client(batch(call(1, "a"), call(1, "b"), call("1", "c"), cancel(2), call(2, "d"), call(3, "e")), kind="batch")
    .server(batch(said("1", "x"), ask(1), ask(3, "roots/list"), said(1, "y"), said(1, "z")), kind="batch")
    .client(batch(reply(3), cancel(3)), kind="batch")
    .client(call(4, "f"))
    .client(batch(cancel(4)), kind="batch")
    .server(batch(ask(5), cancel(5), ask(6)), kind="batch")
    .server(cancel(6))
    .server(said(2, "late"))
)
EXPECTED = [
    (1, 0, "tools/call", "a", "unanswered", None, call(1, "a")),
    (1, 1, "tools/call", "b", "ok", 1000, call(1, "b")),
    (1, 2, "tools/call", "c", "ok", 1000, call("1", "c")),
    (1, 3, "notifications/cancelled", None, None, None, cancel(2)),
    (1, 4, "tools/call", "d", "ok", 7000, call(2, "d")),
    (1, 5, "tools/call", "e", "cancelled", None, call(3, "e")),
    (7, 0, "tools/call", "c", "ok", 1000, said("1", "x")),
    (7, 1, "ping", None, "unanswered", None, ask(1)),
    (7, 2, "roots/list", None, "ok", 1000, ask(3, "roots/list")),
    (7, 3, "tools/call", "b", "ok", 1000, said(1, "y")),
    (7, 4, None, None, "ok", None, said(1, "z")),
    (12, 0, "roots/list", None, "ok", 1000, reply(3)),
    (12, 1, "notifications/cancelled", None, None, None, cancel(3)),
    (14, 0, "tools/call", "f", "cancelled", None, call(4, "f")),
    (15, 0, "notifications/cancelled", None, None, None, cancel(4)),
    (16, 0, "ping", None, "cancelled", None, ask(5)),
    (16, 1, "notifications/cancelled", None, None, None, cancel(5)),
    (16, 2, "ping", None, "cancelled", None, ask(6)),
    (19, 0, "notifications/cancelled", None, None, None, cancel(6)),
    (20, 0, "tools/call", "d", "ok", 7000, said(2, "late")),
]


def told(cassette: Cassette, text: str = "") -> list[tuple[Any, ...]]:
    rows = session_rows(cassette, 1, filters.parse(text))
    return [
        (row.seq, row.part, row.method, row.name, row.status, row.microseconds, whole_text(cassette, row).encode())
        for row in rows
    ]


def test_each_message_of_a_batch_has_its_own_text_request_answer_and_cancel(tmp_path: Path) -> None:
    with Cassette(make(tmp_path / "tape.db", ODD)) as cassette:
        assert told(cassette) == EXPECTED


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("tool:b", [(1, 1), (7, 3)]),  # if two requests share an id, the answer belongs to the newer one
        ("tool:d", [(1, 4), (20, 0)]),
        ("status:cancelled", [(1, 5), (14, 0), (16, 0), (16, 2)]),
        ("status:unanswered", [(1, 0), (7, 1)]),
        ("dur:>=7", [(1, 4), (20, 0)]),
        ('"late"', [(20, 0)]),
        ("method:roots/list", [(7, 2), (12, 0)]),
    ],
)
def test_a_filter_keeps_single_messages_of_a_batch(tmp_path: Path, text: str, places: list[tuple[int, int]]) -> None:
    with Cassette(make(tmp_path / "tape.db", ODD)) as cassette:
        assert [row[:2] for row in told(cassette, text)] == places


def test_a_request_that_was_answered_twice_counts_by_its_first_answer(tmp_path: Path) -> None:
    frames = Frames().client(batch(call(1, "a"), call(2, "b")), kind="batch")
    tape = make(tmp_path / "tape.db", frames.server(batch(said(1, "x"), said(2, "y"), said(2, "z")), kind="batch"))
    with closing(sqlite3.connect(tape)) as db, db:
        db.execute("UPDATE derived SET answers = 2, status = 'error' WHERE id & 4294967295 = 5")
    with Cassette(tape) as cassette:
        assert [row.status for row in session_rows(cassette, 1)] == ["ok", "ok", "ok", "ok", "error"]
        assert [row[:2] for row in told(cassette, "status:error")] == [(3, 2)]
        assert [row[:2] for row in told(cassette, "tool:b")] == [(1, 1), (3, 1), (3, 2)]
        assert sum(tally.calls for tally in totals.tallies(cassette, [1]).values()) == 2


def test_refusals_of_a_batch_are_those_of_its_requests(tmp_path: Path) -> None:
    frames = Frames().client(batch(call(1, "a"), call(2, "b")), channel="post-1", kind="batch")
    frames.happened("server", "post-1", event="response", status=400, headers={})
    frames.server(message(id=None, error={"code": -1, "message": "no batches"}), channel="post-1")
    with Cassette(make(tmp_path / "tape.db", frames)) as cassette:
        assert [(row[3], row[4]) for row in told(cassette, "tool:*")] == [("a", "refused"), ("b", "refused")] * 2


STRANGE = (
    (b"[{\xff", b"[{\xff"), ("[{", b"[{"), ("[1]", b"[1]"), ('[{"a": 1}, {"b":2}]', b'{"b":2}'),
    (b'[{"a":"\xff\xe9"}, "\xff"]', b'"\xff"'),
)  # fmt: skip


@pytest.mark.parametrize(("text", "part"), STRANGE)
def test_the_text_of_a_batch_may_be_anything(tmp_path: Path, text: Any, part: bytes) -> None:
    tape = make(tmp_path / "tape.db", Frames().client(batch(ask(1), ask(2)), kind="batch"))
    with closing(sqlite3.connect(tape)) as db, db:
        db.execute("UPDATE facts SET text = ?", (text,))
    with Cassette(tape) as cassette:
        _, second = session_rows(cassette, 1)
        assert (second.size, whole_text(cassette, second)) == (len(part), part.decode("utf-8", "replace"))


@pytest.mark.parametrize("data", [None, 5])
def test_a_batch_that_is_no_text_is_refused_in_a_line(tmp_path: Path, data: Any) -> None:
    tape = make(tmp_path / "tape.db", Frames().client(batch(ask(1), ask(2)), kind="batch"))
    with closing(sqlite3.connect(tape)) as db, db:
        db.execute("UPDATE facts SET text = NULL, data = ?", (data,))
    result = invoke("show", tape)
    assert (result.exit_code, result.stderr.count("\n")) == (3, 1)


def test_answers_that_come_while_a_reader_is_there_are_found(tmp_path: Path) -> None:
    frames = Frames().client(batch(call(1, "a"), call(2, "b"), call(3, "c")), kind="batch")
    recording = Recording(tmp_path / "tape.db")
    recording.write(frames)
    with Cassette(tmp_path / "tape.db") as cassette:
        assert [row[4] for row in told(cassette)] == ["unanswered"] * 3
        recording.write(frames.server(said(2, "x")).client(cancel(3))[1:])
        assert [row[4] for row in told(cassette)] == ["unanswered", "ok", "cancelled", "ok", None]
    recording.end()


@pytest.mark.slow
def test_nothing_of_a_cassette_is_kept_when_it_is_closed(tmp_path: Path) -> None:
    def kept() -> set[int]:
        return {id(found) for found in gc.get_objects() if isinstance(found, functions.Batches)}

    gc.disable()  # objects of earlier tests stay, so their ids are not reused
    try:
        before = kept()
        with Cassette(make(tmp_path / "tape.db", ODD)) as cassette:
            assert told(cassette)
            assert kept() - before
        assert not kept() - before
    finally:
        gc.enable()


# -- growth


def asked_together(number: int, **more: Any) -> Frames:
    return Frames().client(batch(*(call(n, "add") for n in range(number))), kind="batch", **more)


def together(number: int) -> Frames:
    return asked_together(number).server(batch(*(said(n, "sum") for n in range(number))), kind="batch")


def one_by_one(number: int) -> Frames:
    frames = asked_together(number)
    for n in range(number):
        frames.server(said(n, "sum"))
    return frames


def given_up(number: int) -> Frames:
    return asked_together(number).client(batch(*map(cancel, range(number))), kind="batch")


def of_the_server(number: int) -> Frames:
    frames = Frames().server(batch(*map(ask, range(number))), kind="batch")
    return frames.client(batch(*map(reply, range(0, number, 2))), kind="batch").server(
        batch(*map(cancel, range(number))), kind="batch"
    )


def turned_away(number: int) -> Frames:
    frames = asked_together(number, channel="post-1")
    frames.happened("server", "post-1", event="response", status=400, headers={})
    return frames.server(b"no batches", channel="post-1", kind="noise")


def _compare(cassette: Cassette, session: Session) -> None:
    recording = Compared(cassette, [session.id])
    for asked in recording.requests():
        assert recording.params(asked)
        recording.answer(asked)


READ: tuple[Callable[[Cassette, Session], object], ...] = (
    lambda cassette, session: list(session_rows(cassette, session.id)),
    lambda cassette, session: list(session_rows(cassette, session.id, filters.parse("sum -status:cancelled size:>5"))),
    lambda cassette, session: list(exchange_rows(cassette, session.id, 1)),
    lambda cassette, session: totals.tallies(cassette, [session.id]),
    lambda cassette, session: cassette.exchanges(session.id),
    lambda cassette, session: list(dump.dump(cassette, [session])),
    lambda cassette, session: list(markdown.dump(cassette, session, cassette.frames(session.id))),
    _compare,
)


def steps(tape: Path, read: Callable[[Cassette, Session], object]) -> int:
    """The number of steps that SQLite takes."""
    taken = 0

    def count() -> None:
        nonlocal taken
        taken += 1

    with Cassette(tape) as cassette:
        cassette.connection.set_progress_handler(count, 20)
        read(cassette, cassette.session())
        cassette.connection.set_progress_handler(None, 20)
    return taken


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize("talk", [together, one_by_one, given_up, of_the_server, turned_away])
def test_reading_a_batch_takes_as_many_steps_as_it_has_messages(tmp_path: Path, talk: Callable[[int], Frames]) -> None:
    small, large = (make(tmp_path / f"{number}.db", talk(number)) for number in (150, 300))
    for read in READ:
        assert steps(large, read) < 2.5 * steps(small, read) + 100


def test_the_text_of_a_batch_is_taken_apart_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    spans = jsontext.element_spans
    monkeypatch.setattr(jsontext, "element_spans", lambda text: looked_at.append(len(text)) or spans(text))
    tape = make(tmp_path / "tape.db", together(50))
    for read in READ[:5]:
        looked_at.clear()
        steps(tape, read)
        assert 0 < len(looked_at) <= 2


def test_the_exact_numbers_of_a_batch_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []
    loads = jsontext.loads_exact
    monkeypatch.setattr(jsontext, "loads_exact", lambda text: looked_at.append(text) or loads(text))
    text = batch(*(call(n, "add", exact=10**30 + n, half=0.5) for n in range(20)))
    keys = {match.message_key(message, text, n) for n, message in enumerate(wire.parse(text)[1])}
    assert (len(keys), looked_at) == (20, [text.decode()])


def test_wide_ids_of_a_large_batch_are_read_in_linear_time() -> None:
    ids = [str(10**25 + number) for number in range(3_000)]
    text = "[" + ",".join(f'{{"jsonrpc":"2.0","id":{one},"method":"x"}}' for one in ids) + "]"
    kind, messages = wire.parse(text.encode())
    assert (kind, [message.rpc_id for message in messages]) == ("batch", ids)


def test_requests_are_found_by_the_index_of_their_keys_and_those_that_begin_alike_are_kept_apart(
    tmp_path: Path,
) -> None:
    tape = make(tmp_path / "tape.db", Frames().client(call(1, "a")).client(call(2, "b")).client(call(3, "a")))
    alike = [b"same" + bytes(12), b"same" + bytes([*range(12)])]
    a, b = (f"UPDATE derived SET key = x'{key.hex()}' WHERE name = " for key in alike)
    alter(tape, f"{a}'a'", f"{b}'b'")
    with Cassette(tape) as cassette:
        messages = Messages(cassette)
        asked = messages.message(messages.at((1, 1, 0)))
        found = [messages.next_of_key(1, key, START, asked) for key in (*alike, b"same")]
        assert [one and one.recorded.seq for one in found] == [1, 2, None]
        behind = messages.next_of_key(1, alike[0], (1, 1, 0), asked)
        assert behind and behind.recorded.seq == 3
        sql = f"EXPLAIN QUERY PLAN SELECT 1 FROM messages WHERE {functions.of_key('key')}"
        assert "INDEX derived_key" in cassette.rows(sql, (alike[0], alike[0]))[0][3]
