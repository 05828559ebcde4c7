"""Derived rows can be rebuilt from frames, exactly as recorded."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from mcp_tape.cassette.reader import Cassette
from mcp_tape.errors import CassetteError
from mcp_tape.wire.ledger import Ledger
from tests.support.derived import rebuild_cassette
from tests.support.golden import GOLDEN
from tests.support.texts import everything, hidden, odd, over_http, several, table

MAKERS = [odd, hidden, over_http, several]


def execute(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(sql)


@pytest.mark.parametrize("make", MAKERS)
def test_rebuilt_rows_equal_the_recorded_ones(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    path = make(tmp_path / "tape.db")
    before = everything(path)
    rebuild_cassette(str(path))
    assert everything(path) == before


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_golden_cassettes_are_made_anew_from_nothing(tmp_path: Path, golden: Path) -> None:
    path = tmp_path / "tape.db"
    path.write_bytes(golden.read_bytes())
    before = everything(path)
    execute(path, "DELETE FROM derived")
    execute(path, "UPDATE sessions SET key_version = 0, server_name = server_name || '?'")
    rebuild_cassette(str(path))
    assert everything(path) == before


def test_only_the_sessions_asked_for_are_made_anew(tmp_path: Path) -> None:
    path = several(tmp_path / "tape.db")
    before = everything(path)["messages"]
    execute(path, "DELETE FROM derived")
    rebuild_cassette(str(path), [1])
    assert everything(path)["messages"] == [row for row in before if row[3] == 1]


def test_keys_of_redacted_requests_can_be_rebuilt_too(tmp_path: Path) -> None:
    path = hidden(tmp_path / "tape.db")
    before = table(path, "messages")
    execute(path, "UPDATE sessions SET key_version = 0")
    rebuild_cassette(str(path))
    changed = [new[4] for old, new in zip(before, table(path, "messages"), strict=True) if old != new]
    assert changed == [2]  # the second call, without the value that was hidden in it


def test_a_cassette_that_cannot_be_read_stays_as_it_was(tmp_path: Path) -> None:
    path = several(tmp_path / "tape.db")
    execute(path, "UPDATE facts SET sender = x'ff' WHERE id >> 32 = 4")
    before = everything(path)
    with pytest.raises(CassetteError):
        rebuild_cassette(str(path))
    assert everything(path) == before


def test_entries_come_with_their_frames_in_order(tmp_path: Path) -> None:
    with Cassette(over_http(tmp_path / "tape.db")) as cassette:
        ledger = Ledger()
        made = [(frame, ledger.derive(frame)) for frame in cassette.frames(1)]
        assert [frame for frame, _ in made] == list(cassette.frames(1))
    assert "retry" in {entry.message.status for _, entries in made for entry in entries}
