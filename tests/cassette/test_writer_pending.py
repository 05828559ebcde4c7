"""Messages that are derived later than their frames: by the recorder, or by the next process after a kill."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from mcp_tape.cassette import file, writer
from mcp_tape.cassette.batch import EnteredFrame
from mcp_tape.cassette.change import derive
from mcp_tape.cassette.query import integrity
from mcp_tape.cassette.reader import Cassette
from mcp_tape.cassette.writer import RemovedError, Writer
from mcp_tape.record.tape import Tape
from mcp_tape.redaction.redactor import Redactor

FACTS = {"started_at": "2026-01-01T00:00:00Z", "transport": "stdio", "target": {"command": ["x"]}, "recorder": "test"}
CALL = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%s"}}}\n'
LOGIN = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"in","arguments":{"%s":"kJ8mN2pQ4xR7"}}}\n'
ANSWER = '{"jsonrpc":"2.0","id":%d,"result":{}}\n'
ALONE = '[{"jsonrpc":"2.0","id":"a","method":"ping"},{"jsonrpc":"2.0","id":"b","method":"tools/list"}]\nnoise\n'


def batches(session: int, rounds: int = 6, hidden: bool = False) -> list[list[EnteredFrame]]:
    """Batches that arrive together, and are stored together."""
    found: list[list[EnteredFrame]] = []
    tape = Tape(lambda frame, entries: found[-1].append((session, frame, entries)), Redactor({}))
    for number in range(1, rounds + 1):
        found.append([])
        asked = LOGIN % (number, "password" if number == 1 else "word") if hidden else CALL % (number, number)
        tape.feed("client", "stdio", (asked + ALONE).encode(), number)
        tape.feed("server", "stdio", (ANSWER % number + "noise\n").encode(), number)
        tape.feed("server", "stderr", b"a line\n", number)
    return found


def recording(path: Path) -> tuple[Writer, int]:
    made = Writer(str(path))
    return made, made.begin(FACTS)


def abandoned(path: Path, **how: bool) -> Path:
    """A cassette whose recorder was killed before all messages were derived."""
    made, session = recording(path)
    for n, batch in enumerate(batches(session, **how)):
        made.append(batch, {}, later=n > 0)
    made._db.close()  # like the end of its process
    return path


def derived(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT * FROM derived ORDER BY id").fetchall()


def pending(path: Path) -> list[int | None]:
    with closing(sqlite3.connect(path)) as db:
        return [number for (number,) in db.execute("SELECT pending FROM sessions ORDER BY id")]


@pytest.fixture
def at_once(tmp_path: Path) -> list[tuple[object, ...]]:
    """All messages, each stored with its frame."""
    made, session = recording(tmp_path / "at-once.db")
    for batch in batches(session):
        made.append(batch, {})
    made.close()
    return derived(tmp_path / "at-once.db")


def test_messages_that_were_put_off_are_those_that_are_stored_at_once(
    tmp_path: Path, at_once: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_PAID_AT_ONCE", 3)
    made, session = recording(tmp_path / "tape.db")
    for batch in batches(session):
        made.append(batch, {}, later=True)
    assert (
        made.owed_messages == len(at_once)
        and derived(tmp_path / "tape.db") == []
        and pending(tmp_path / "tape.db") == [1]
    )
    while made.owed_messages:
        made.catch_up()
        with closing(sqlite3.connect(tmp_path / "tape.db")) as db:  # messages before `pending` are derived
            (first,) = db.execute("SELECT coalesce(pending, 1 << 31) FROM sessions").fetchone()
        assert derived(tmp_path / "tape.db") == [row for row in at_once if int(str(row[0])) & 0xFFFFFFFF < first]
    made.close()
    assert derived(tmp_path / "tape.db") == at_once and pending(tmp_path / "tape.db") == [None]


def test_the_number_of_owed_messages_is_limited(
    tmp_path: Path, at_once: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_MOST_OWED", 10)
    made, session = recording(tmp_path / "tape.db")
    for batch in batches(session):
        made.append(batch, {}, later=True)
        assert made.owed_messages <= 10
    made.append([], {})
    made.close()
    assert derived(tmp_path / "tape.db") == at_once


def test_frames_without_messages_leave_nothing_owed(tmp_path: Path) -> None:
    tape = Tape(lambda frame, entries: found.append((session, frame, entries)), None)
    made, session = recording(tmp_path / "tape.db")
    for feed in (lambda: tape.feed("server", "stderr", b"a line\n", 1), lambda: None):
        for is_behind in (False, True):
            found: list[EnteredFrame] = []
            if is_behind:
                tape.feed("client", "stdio", (CALL % (1, 1)).encode(), 1)
                made.append(found, {}, later=True)
                found = []
            tape.control("server", "stdio", {"event": "exit"}, 2)
            feed()
            made.append(found, {}, later=True)
            while made.owed_messages:
                made.catch_up()
            assert pending(tmp_path / "tape.db") == [None]
    made.close()


@pytest.mark.parametrize("how", ["read", "twice", "check"])
def test_messages_owed_by_a_killed_recorder_are_derived_by_the_next_process(
    tmp_path: Path, at_once: list[tuple[object, ...]], how: str
) -> None:
    path = abandoned(tmp_path / "tape.db")
    assert len(derived(path)) < len(at_once)
    with Cassette(path) as cassette:
        if how == "twice":
            with Cassette(path) as other:
                assert other.counts(1) == cassette.counts(1)
        if how == "check":
            found = [finding.what for finding in integrity.check(cassette, Redactor({}))]
            assert found == ["session"]  # it was never closed
        assert cassette.counts(1)["exchanges"] == 6
    assert derived(path) == at_once and pending(path) == [None]


def test_where_it_may_not_be_written_it_is_derived_in_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = abandoned(tmp_path / "tape.db")
    before = path.read_bytes()
    monkeypatch.setattr(file, "may_write", lambda _: False)
    with Cassette(path) as cassette:
        assert cassette.counts(1)["exchanges"] == 6
    assert path.read_bytes() == before


def test_during_a_recording_derived_messages_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, session = recording(tmp_path / "tape.db")
    *some, last = batches(session)
    for n, batch in enumerate(some):
        made.append(batch, {}, later=n > 0)
    # Frames that arrive while a reader waits for them.
    monkeypatch.setattr(file, "sleep", lambda seconds: made.append(last, {}, later=True))
    with Cassette(tmp_path / "tape.db") as cassette:
        assert cassette.counts(1)["exchanges"] == 1
    assert made.owed_messages
    made.append([], {})
    with Cassette(tmp_path / "tape.db") as cassette:
        assert cassette.counts(1)["exchanges"] == 6
    made.close()


def test_a_recorder_that_is_stopped_while_others_read_finds_its_messages_derived(
    tmp_path: Path, at_once: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "_QUIET", -1.0)
    made, session = recording(tmp_path / "tape.db")
    *some, last = batches(session)
    for batch in some:
        made.append(batch, {}, later=True)
    with Cassette(tmp_path / "tape.db") as cassette:
        assert cassette.counts(1)["exchanges"] == 5
    made.append(last, {}, later=True)
    while made.owed_messages:
        made.catch_up()
    made.close()
    assert derived(tmp_path / "tape.db") == at_once and pending(tmp_path / "tape.db") == [None]


def test_a_session_rebuilt_by_another_process_is_not_stored_twice(
    tmp_path: Path, at_once: list[tuple[object, ...]]
) -> None:
    made, session = recording(tmp_path / "tape.db")
    for n, batch in enumerate(batches(session)):
        made.append(batch, {}, later=True)
        if n == 3:
            with closing(sqlite3.connect(tmp_path / "tape.db", isolation_level=None)) as db:
                db.execute("BEGIN IMMEDIATE")
                derive.rebuild_session(db, session)
                db.execute("COMMIT")
    made.append([], {})
    made.close()
    assert derived(tmp_path / "tape.db") == at_once


@pytest.mark.parametrize("then", [Writer.catch_up, lambda made: made.append([], {})])
def test_nothing_is_stored_of_a_removed_session(tmp_path: Path, then: Callable[[Writer], None]) -> None:
    made, gone = recording(tmp_path / "tape.db")
    kept = made.begin(FACTS)
    for one, other in zip(batches(gone), batches(kept), strict=True):
        made.append([*one, *other], {}, later=True)
    with closing(sqlite3.connect(tmp_path / "tape.db")) as db, db:
        db.execute("DELETE FROM sessions WHERE id = ?", (gone,))
        db.execute("DELETE FROM facts WHERE id >> 32 = ?", (gone,))
    with pytest.raises(RemovedError):
        then(made)
    then(made)
    assert made.owed_messages == 0
    made.close()
    assert {int(str(row[0])) >> 32 for row in derived(tmp_path / "tape.db")} == {kept}


def test_a_key_that_its_frame_no_longer_gives_is_stored_with_the_frame(tmp_path: Path) -> None:
    for name, later in (("now.db", False), ("later.db", True)):
        made, session = recording(tmp_path / name)
        for batch in batches(session, hidden=True):
            made.append(batch, {}, later=later)
        made._db.close()
        with Cassette(tmp_path / name):
            pass
    assert derived(tmp_path / "later.db") == derived(tmp_path / "now.db")


@pytest.mark.slow
def test_after_a_kill_at_any_time_messages_are_derived_as_without_it(tmp_path: Path) -> None:
    chance = Random(7)
    for case in range(20):
        path = tmp_path / f"{case}.db"
        made, session = recording(path)
        stored = chance.randrange(1, 9)
        for batch in batches(session, stored):
            made.append(batch, {}, later=chance.random() < 0.7)
            if made.owed_messages and chance.random() < 0.2:
                made.catch_up()
        made._db.close()
        with Cassette(path):
            pass
        found = derived(path)
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            derive.rebuild_session(db, session)
        assert found == derived(path)


@pytest.mark.parametrize("number", [-5, 1 << 40, (1 << 63) - 1, "'soon'", "x'00'", 0.5])
def test_a_number_that_no_recorder_wrote_has_all_of_it_derived(
    tmp_path: Path, at_once: list[tuple[object, ...]], number: object
) -> None:
    path = abandoned(tmp_path / "tape.db")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"UPDATE sessions SET pending = {number}")
    with Cassette(path) as cassette:
        assert len(cassette.exchanges(1)) > 5
    assert (derived(path), pending(path)) == (at_once, [None])
