"""mcp-tape ls: the sessions on one cassette, or on all cassettes in a directory."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mcp_tape.cassette import reader
from mcp_tape.cassette.query.exchanges import Counts
from tests.support.reading import GOLDEN, Frames, Recording, call, invoke, lines, make, message, objects, said

TALK = Frames().client(call(1, "add")).server(said(1, "3"), at=1_234_000)


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """A directory with cassettes and other files."""
    make(tmp_path / "b.db", TALK, TALK)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    make(tmp_path / "deep" / "er" / "c.tape", TALK)
    (tmp_path / ".git").mkdir()
    make(tmp_path / ".git" / "hidden.db", TALK)
    (tmp_path / "notes.db").write_text("Dear diary")
    (tmp_path / "empty.db").write_bytes(b"")
    with closing(sqlite3.connect(tmp_path / "other.db")) as db:
        db.execute("CREATE TABLE sessions (id)")
    os.mkfifo(tmp_path / "pipe.db")
    (tmp_path / "dangling.db").symlink_to("nowhere")
    return tmp_path


def test_a_session_shows_time_server_size_duration_and_state(tmp_path: Path) -> None:
    (line,) = lines("ls", make(tmp_path / "tape.db", TALK, protocol_version="2025-11-25", server_name="adder"))
    expected = r"  1  2026-01-01 00:00:00  adder {19}  2025-11-25  stdio  2 frames  1 exchange  1\.23 s  complete"
    assert re.fullmatch(expected, line)


def test_a_session_that_is_not_whole_says_why(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "tape.db")
    recording.write(TALK)
    (line,) = lines("ls", tmp_path / "tape.db")
    assert "INCOMPLETE: never closed: still being recorded" in line
    recording.end(incomplete="the disk was full")
    (line,) = lines("ls", tmp_path / "tape.db")
    assert "INCOMPLETE: the disk was full" in line
    assert "  complete" not in line


def test_errors_and_open_calls_are_counted(tmp_path: Path) -> None:
    frames = Frames().client(call(1, "add")).server(message(id=1, error={})).client(call(2, "add"))
    (line,) = lines("ls", make(tmp_path / "tape.db", frames))
    assert "1 exchange  1 open  1 error" in line


def test_very_many_sessions_are_counted_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path / "tape.db", TALK, Frames(), Frames().client(call(1, "add")), TALK, TALK)
    listed = objects("ls", path)
    counted = [tuple(row[name] for name in Counts._fields) for row in listed]
    whole = (2, 1, 0, 0, 1_234_000)
    assert counted == [whole, (0, 0, 0, 0, None), (1, 0, 1, 0, counted[2][4]), whole, whole]
    monkeypatch.setattr(reader, "_PAGE_SESSIONS", 2)
    assert objects("ls", path) == listed


def test_a_directory_lists_the_cassettes_in_it_and_below(shelf: Path) -> None:
    shown = lines("ls", shelf)
    assert [line for line in shown if not line.startswith(" ")] == [str(shelf / "b.db"), str(shelf / "deep/er/c.tape")]
    assert len(shown) == 5


def test_without_an_argument_it_is_the_current_directory(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shelf)
    assert [line for line in lines("ls") if not line.startswith(" ")] == ["b.db", "deep/er/c.tape"]


def test_as_json_every_session_names_its_file(shelf: Path) -> None:
    rows = objects("ls", shelf)
    assert [(Path(row["file"]).name, row["id"]) for row in rows] == [("b.db", 1), ("b.db", 2), ("c.tape", 1)]
    assert {row["microseconds"] for row in rows} == {1_234_000}


def test_an_unreadable_cassette_is_reported_and_the_others_are_listed(shelf: Path) -> None:
    whole = (shelf / "b.db").read_bytes()
    (shelf / "a.db").write_bytes(whole[: len(whole) // 2])
    result = invoke("ls", shelf)
    assert result.exit_code == 3
    assert f"cannot read {shelf / 'a.db'}" in result.stderr
    assert str(shelf / "b.db") in result.stdout


def test_a_directory_without_cassettes_says_so(tmp_path: Path) -> None:
    result = invoke("ls", tmp_path)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "there are no cassettes in" in result.stderr


def test_a_cassette_without_a_session_is_named(tmp_path: Path) -> None:
    make(tmp_path / "tape.db", TALK)
    with closing(sqlite3.connect(tmp_path / "tape.db")) as db:
        db.execute("DELETE FROM sessions")
        db.commit()
    result = invoke("ls", tmp_path)
    assert result.exit_code == 0
    assert "holds no session yet" in result.stderr


def test_names_and_notes_of_strangers_are_harmless(tmp_path: Path) -> None:
    evil = "\x1b]0;x\x07\u202e日本語"
    make(tmp_path / f"{evil}.db", TALK, note=evil, server_name=evil, protocol_version=evil)
    text = invoke("ls", tmp_path).stdout
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert text.count("日本語") == 4


def test_the_golden_cassettes_are_listed(tmp_path: Path) -> None:
    for path in GOLDEN:
        shutil.copy(path, tmp_path)
    shown = lines("ls", tmp_path)
    assert [line for line in shown if not line.startswith(" ")] == [str(tmp_path / path.name) for path in GOLDEN]
    assert all("  complete" in line for line in shown if line.startswith(" "))


def test_several_places_are_listed_with_their_names(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shelf)
    shown = lines("ls", "b.db", "deep")
    assert [line for line in shown if not line.startswith(" ")] == ["b.db", "deep/er/c.tape"]
    assert [line for line in lines("ls", "b*.db") if not line.startswith(" ")] == ["b.db"]
