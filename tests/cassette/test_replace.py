"""Replacing a file: private, complete, through links, and clean after a kill."""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from mcp_tape.cassette import file, replace
from mcp_tape.cassette.query.inventory import cassettes_in
from mcp_tape.errors import CassetteError
from mcp_tape.verify.update import keep
from tests.end_to_end.use.test_use import lines
from tests.support.decks import make_cassette
from tests.support.messages import call, result
from tests.support.reading import invoke
from tests.support.running import ECHO, MCP_TAPE, python, receive_line, run, sessions, started
from tests.support.vcr import HELLO, Vcr

OLD = [("client", call(1, "old")), ("server", result(1))]
# Makes a file beside another, prints a line, and waits to be killed.
MAKING = """
import sys
from mcp_tape.cassette import file, replace
with replace.beside(sys.argv[1]) as part:
    open(part.file, "w").write("half of it")
    print(part.file, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return make_cassette(tmp_path / "tape.db", OLD)


def mode_of(path: str | Path) -> int:
    return os.stat(path).st_mode & 0o777


def test_a_draft_is_private_and_removed_unless_it_is_put(tape: Path) -> None:
    before = tape.read_bytes()
    with replace.beside(str(tape)) as part:
        make_cassette(Path(part.file), OLD)
        Path(f"{part.file}-wal").write_text("its journal")
        assert mode_of(os.path.dirname(part.file)) == 0o700
        assert [*cassettes_in(str(tape.parent))] == [str(tape)]
    assert os.listdir(tape.parent) == ["tape.db"] and tape.read_bytes() == before


def test_the_mode_stays(tape: Path) -> None:
    tape.chmod(0o640)
    with replace.beside(str(tape)) as part:
        Path(part.file).write_text("new")
        part.put()
    assert (tape.read_text(), mode_of(tape)) == ("new", 0o640)
    assert os.listdir(tape.parent) == ["tape.db"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_stays_even_if_root_replaces_the_file(tape: Path) -> None:
    os.chown(tape, 65_534, 65_533)
    with replace.beside(str(tape)) as part:
        Path(part.file).write_text("new")
        part.put()
    about = tape.stat()
    assert (tape.read_text(), about.st_uid, about.st_gid) == ("new", 65_534, 65_533)


def test_leftovers_of_killed_processes_go_and_drafts_of_live_ones_stay(tape: Path) -> None:
    with started([*python(MAKING), str(tape)]) as killed, started([*python(MAKING), str(tape)]) as alive:
        left, kept = (Path(receive_line(process.stdout).decode().strip()) for process in (killed, alive))
        killed.kill()
        killed.wait()
        others = [
            tape.with_name(name) for name in (".tape.db.part", ".tape.db.0123abcd.parts", ".tap.db.0123abcd.part")
        ]
        for other in others:
            other.mkdir()
        link = tape.with_name(".tape.db.89abcdef.part")
        link.symlink_to(others[0])
        with replace.beside(str(tape)):
            pass
        assert not left.parent.exists()
        assert kept.read_text() == "half of it"
        assert all(other.is_dir() for other in [*others, link])


def test_a_draft_that_is_handed_over_stays_for_the_other_process(tape: Path) -> None:
    with replace.beside(str(tape)) as part:
        Path(part.file).write_text("new")
        left = part.hand_over()
    assert tape.read_text("latin-1") != "new"
    taken = replace.DraftFile(left, str(tape))
    taken.put()
    taken.drop()
    assert (tape.read_text(), os.listdir(tape.parent)) == ("new", ["tape.db"])


def test_a_draft_that_is_handed_over_and_never_taken_is_a_leftover(tape: Path) -> None:
    with replace.beside(str(tape)) as part:
        Path(part.file).write_text("new")
        part.hand_over()
    with replace.beside(str(tape)):
        assert not os.path.exists(part.file)
    assert os.listdir(tape.parent) == ["tape.db"]


def test_only_drafts_are_dropped(tape: Path) -> None:
    replace.DraftFile(str(tape), str(tape)).drop()
    assert tape.exists()


def test_a_lock_is_held_by_one_and_gone_with_its_file(tmp_path: Path) -> None:
    path = str(tmp_path / "tape.db.lock")
    lock = replace.lock(path)
    assert lock is not None and mode_of(path) == 0o600
    assert replace.lock(path) is None
    replace.unlock(path, lock)
    assert os.listdir(tmp_path) == []


def test_a_lock_whose_file_is_removed_by_its_last_owner_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, flock, removed = str(tmp_path / "tape.db.lock"), fcntl.flock, []

    def late(descriptor: int, how: int) -> None:
        if not removed:
            os.unlink(path)
            removed.append(path)
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    lock = replace.lock(path)
    assert lock is not None and file.identity(lock) == file.identity(path)
    replace.unlock(path, lock)


def test_a_lock_follows_no_link(tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    (tmp_path / "tape.db.lock").symlink_to(mine)
    with pytest.raises(OSError, match="symbolic links"):
        replace.lock(str(tmp_path / "tape.db.lock"))
    assert not mine.exists()


def expect_in_use(path: Path) -> None:
    with replace.beside(str(path)) as part:
        make_cassette(Path(part.file), OLD)
        with pytest.raises(CassetteError, match="is in use, so it was not replaced"):
            part.put()


@pytest.mark.parametrize("ending", ["-wal", "-journal"])
def test_a_journal_of_the_old_file_is_not_left_to_the_new_one(
    tape: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr(file, "_PATIENCE", 0)
    with closing(sqlite3.connect(tape, isolation_level=None)) as db:
        db.execute(f"PRAGMA journal_mode = {'WAL' if ending == '-wal' else 'DELETE'}")
        db.execute("PRAGMA cache_size = 1")
        db.execute("BEGIN IMMEDIATE")
        db.executemany(
            "INSERT INTO sessions (started_at, transport, target, recorder, key_version) VALUES (?, 1, 1, 1, 1)",
            [("x" * 4000,)] * 100,
        )
        expect_in_use(tape)
    assert len(sessions(tape)) == 1


def test_a_journal_of_a_file_that_is_gone_is_not_left_to_a_new_one(tmp_path: Path) -> None:
    Path(f"{tmp_path}/new.db-wal").write_text("of one that was deleted")
    expect_in_use(tmp_path / "new.db")
    assert os.listdir(tmp_path) == ["new.db-wal"]


@pytest.mark.slow
def test_rewrite_keeps_a_link_and_the_mode_of_the_cassette(vcr: Vcr) -> None:
    real = make_cassette(vcr.tape.with_name("real.db"), OLD)
    real.chmod(0o600)
    vcr.tape.symlink_to(real)
    assert vcr.run("rewrite", HELLO + lines(call(1, "a"))).returncode == 0
    assert vcr.tape.is_symlink() and mode_of(real) == 0o600
    assert [session.started_at > "2026-01-01T00:00:00Z" for session in sessions(real)] == [True]
    assert sorted(os.listdir(real.parent)) == ["real.db", "server.log", "tape.db"]


@pytest.fixture
def vcr(tmp_path: Path) -> Vcr:
    return Vcr(tmp_path)


def rewritten(tape: Path) -> None:
    assert run([*MCP_TAPE, "use", str(tape), "--mode", "rewrite", "--", *ECHO], lines(call(1, "a"))).returncode == 0


def loaded(tape: Path) -> None:
    text = tape.with_name("tape.jsonl")
    text.write_text(invoke("convert", tape).stdout)
    assert invoke("convert", text, tape, "--force").exit_code == 0


def merged(tape: Path) -> None:
    other = make_cassette(tape.with_name("other.db"), OLD)
    assert invoke("merge", other, "-o", tape, "--force").exit_code == 0


def redacted(tape: Path) -> None:
    assert invoke("redact", tape, "--redact-value", "old-and-longer").exit_code == 0


@pytest.mark.parametrize("act", [loaded, merged, redacted, rewritten])
def test_every_command_removes_the_leftovers_of_a_killed_one(tape: Path, act: Callable[[Path], None]) -> None:
    left = tape.with_name(".tape.db.0123abcd.part")
    left.mkdir()
    make_cassette(left / "tape.db", OLD)
    (left / "tape.db.1.report").touch()
    act(tape)
    assert not left.exists()


def test_a_link_in_the_place_of_a_new_recording_is_not_followed(tape: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("my work")
    tape.with_name("tape.db.new").symlink_to(mine)
    tape.chmod(0o600)
    keep(str(tape), [])
    assert mine.read_text() == "my work"
    assert not tape.with_name("tape.db.new").is_symlink() and mode_of(tape.with_name("tape.db.new")) == 0o600


@pytest.mark.parametrize("act", [merged, redacted])
def test_a_journal_that_was_never_needed_goes_with_the_next_change(tape: Path, act: Callable[[Path], None]) -> None:
    Path(f"{tape}-journal").write_bytes(bytes(512))
    act(tape)
    assert not Path(f"{tape}-journal").exists()


def test_an_occupied_path_is_not_taken(tmp_path: Path) -> None:
    target, made = tmp_path / "there", []
    for text in ("first", "second"):
        with replace.beside(str(target)) as part:
            Path(part.file).write_text(text)
            made.append(part.put_first())
    assert (made, target.read_text(), os.listdir(tmp_path)) == ([True, False], "first", ["there"])


def test_a_journal_of_a_database_that_is_gone_is_not_left_to_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "tape.db-journal").write_bytes(b"of the one before")
    with replace.beside(str(tmp_path / "tape.db")) as part:
        make_cassette(Path(part.file), OLD)
        with pytest.raises(CassetteError, match="is in use"):
            part.put_first()


def test_a_place_is_taken_also_where_files_have_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", link)
    test_an_occupied_path_is_not_taken(tmp_path)


def test_a_place_that_cannot_be_taken_is_an_error(tmp_path: Path) -> None:
    with replace.beside(str(tmp_path / "there")) as part:
        Path(part.file).write_text("text")
        elsewhere = replace.DraftFile(part.file, str(tmp_path / "no" / "there"))
        with pytest.raises(CassetteError, match="was not made: No such file"):
            elsewhere.put_first()
