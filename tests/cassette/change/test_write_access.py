"""A command that changes a cassette locks it, unless a recording is in progress, even one that begins at the last
moment."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mcp_tape.cassette.change.remove import remove
from mcp_tape.cassette.change.write_access import InUseError, hold
from mcp_tape.cassette.file import connect
from tests.cassette.test_writer import FACTS, write, written
from tests.support.decks import OneSession
from tests.support.running import frames, sessions


def test_a_cassette_that_a_recorder_opens_just_before_it_is_locked_is_in_use(tmp_path: Path) -> None:
    path = written(tmp_path / "tape.db")
    recorders: list[OneSession] = []

    def record(statement: str) -> None:
        if statement == "BEGIN IMMEDIATE" and not recorders:  # the statement has not locked anything yet
            recorders.append(OneSession(path, FACTS))

    with closing(connect(str(path))) as db:
        db.set_trace_callback(record)
        with pytest.raises(InUseError, match="is in use, so it was not changed"):
            hold(db, str(path))
    (recorder,) = recorders
    write(recorder, b"recorded meanwhile\n")
    recorder.finish({"ended_at": "later"})
    recorder.close()
    assert [frame.text for frame in frames(path)] == [b"recorded meanwhile"]


def test_no_other_process_writes_to_a_held_cassette(tmp_path: Path) -> None:
    path = written(tmp_path / "tape.db")
    with closing(connect(str(path))) as db, closing(sqlite3.connect(path, timeout=0)) as other:
        hold(db, str(path))
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")


@pytest.mark.slow
def test_a_reader_that_ends_in_time_does_not_keep_old_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "tape.db")
    recorder = OneSession(path, FACTS)  # the change is made in place
    write(recorder, b"recorded\n")
    waits: list[float] = []
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:

        def end_reader(seconds: float) -> None:
            waits.append(seconds)
            if reader.in_transaction:
                reader.execute("COMMIT")

        monkeypatch.setattr("mcp_tape.cassette.change.write_access.sleep", end_reader)
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM facts").fetchone()
        assert remove(str(path), [1]) == [1]
    assert waits and [session.id for session in sessions(path)] == [2]
    recorder.close()
