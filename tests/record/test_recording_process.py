"""The recording process: sessions that end while others go on."""

from __future__ import annotations

import gc
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mcp_tape.cassette.change.remove import remove
from mcp_tape.record.rotation import CassetteSeries
from mcp_tape.record.tape import OpenSession, Tape
from mcp_tape.wire.channels import HTTP, STDIO
from tests.support.messages import call, result
from tests.support.rows import Said, answered, posted, record_into
from tests.support.running import frames, sessions, until

MANY = 250
STOP: Said = ("server", STDIO, {"event": "stop"})
KEPT = 100  # ended sessions, for requests that come late


def session(number: int) -> Iterator[Said]:
    """A whole session, with its end."""
    name, channel = f"session-{number}", f"delete-{number}"
    yield from posted(f"post-{number}", call(number), name)
    yield from answered(f"post-{number}", 200, result(number), name)
    yield "client", channel, {"event": "request", "verb": "DELETE", "path": "/mcp", "headers": {"mcp-session-id": name}}
    yield "server", channel, {"event": "response", "status": 204, "headers": {}}
    yield "server", channel, ""


def ended(tape: Path) -> list[int]:
    with closing(sqlite3.connect(f"file:{tape}?mode=ro", uri=True)) as db:
        found = db.execute("SELECT id FROM sessions WHERE ended_at IS NOT NULL AND incomplete IS NULL ORDER BY id")
        return [number for (number,) in found]


def alive() -> int:
    """The sessions and tapes in memory."""
    return sum(type(one) in (Tape, OpenSession) for one in gc.get_objects())


@pytest.mark.slow
def test_sessions_that_have_ended_are_closed_and_forgotten_while_others_go_on(tmp_path: Path) -> None:
    tape = tmp_path / "t.db"
    before = alive()

    def said() -> Iterator[Said]:
        for number in range(MANY):
            yield from session(number)
        until(lambda: ended(tape) == [*range(1, MANY - KEPT + 1)], "the first sessions are closed")
        until(lambda: alive() - before <= 2 * KEPT, "the first sessions are forgotten")
        late = f"session-{MANY - 1}"
        yield from posted("post-late", call("late"), late)
        yield from answered("post-late", 404, session=late)
        yield STOP

    gc.disable()  # the recorder hardly ever looks for cycles
    try:
        *_, done = record_into(CassetteSeries(str(tape), 1 << 30), said(), transport=HTTP)
    finally:
        gc.enable()
    assert ended(tape) == [*range(1, MANY + 1)]
    assert call("late").encode() in [frame.text for frame in frames(tape, MANY)]
    first, last = sessions(tape)[0], sessions(tape)[-1]
    assert first.started_at < (first.ended_at or "") < last.started_at
    everything = sum(len(frames(tape, number)) for number in ended(tape))
    assert done == f"done {everything} {MANY} 0 0 "  # the late call was refused


def test_a_gap_in_one_session_does_not_affect_the_others(tmp_path: Path) -> None:
    def said() -> Iterator[Said]:
        for name in "ab":
            yield from posted(f"post-{name}", call(1), name)
            headers = {"content-type": "application/json"} | ({"content-encoding": "gzip"} if name == "a" else {})
            yield "server", f"post-{name}", {"event": "response", "status": 200, "headers": headers}
            yield "server", f"post-{name}", result(1)
            yield "server", f"post-{name}", ""
        yield STOP

    tape = tmp_path / "t.db"
    *_, done = record_into(CassetteSeries(str(tape), 1 << 30), said(), transport=HTTP)
    odd, whole = (one.incomplete for one in sessions(tape))
    assert odd is not None and "cannot be read" in odd and whole is None
    assert done.endswith(odd)


@pytest.mark.slow
def test_a_session_that_was_removed_before_it_is_closed_is_reported_and_not_counted(tmp_path: Path) -> None:
    tape = tmp_path / "t.db"

    def said() -> Iterator[Said]:
        yield from session(0)
        until(lambda: any(b'"close"' in one.text and one.channel == "delete-0" for one in frames(tape)), "its end")
        remove(str(tape), [1], force=True)
        for number in range(1, KEPT + 2):
            yield from session(number)
        yield STOP

    *told, done = record_into(CassetteSeries(str(tape), 1 << 30), said(), transport=HTTP)
    assert [line for line in told if line.startswith("warning")] == [
        "warning session 1 was removed while it was being recorded: it is no longer recorded"
    ]
    assert done.split()[2:4] == [str(KEPT + 1), "0"]
