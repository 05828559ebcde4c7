"""kill -9 at every step of a change or replacement: the cassette is the old or the new one, and the next run tidies up.

A step is any file operation by Python, and every writing statement of SQLite. SQLite's own steps within a statement
look the same to other processes, or are rolled back.
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.cassette.change import hide_secrets, merge_sessions, remove, replace_sessions
from mcp_tape.cassette.reader import Cassette
from mcp_tape.formats import sheet
from mcp_tape.redaction.redactor import Redactor
from mcp_tape.wire.frames import Frame
from mcp_tape.wire.ledger import Ledger
from tests.support.decks import FACTS, OneSession, make_cassette
from tests.support.kills import FORKS, WAIT, Act, fork_with, until_it_lives
from tests.support.messages import call, result

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9" * 2
fork_with(__name__)


def talk(word: str) -> list[Any]:
    return [("client", call(1, "tool", note=word)), ("server", result(1, word))]


def hide(path: str) -> None:
    hide_secrets.hide(path, Redactor({}))


def rm(path: str) -> None:
    remove.remove(path, [2])


def edited(path: str) -> None:
    text = io.StringIO()
    written = sheet.write(path, 2, text)
    sheet.put_back(path, written, text.getvalue().replace(SECRET, "edited").splitlines(keepends=True))


def replaced(path: str) -> None:
    replace_sessions.replace_sessions(path, {2: (other(path), 1)}, "it stays")


def proposed(path: str) -> None:
    replace_sessions.propose(path, {2: (other(path), 1)}, "it was not kept", f"{path}.new")


def merged(path: str) -> None:
    merge_sessions.merge([other(path)], path, overwrite=True)


def other(path: str) -> str:
    return os.path.join(os.path.dirname(path), "other.db")


@pytest.fixture(scope="module")
def like(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("like")
    make_cassette(directory / "tape.db", talk("first"), talk(SECRET))
    make_cassette(directory / "other.db", talk("other"))
    return directory


def texts(path: str) -> list[list[bytes]]:
    with Cassette(path) as cassette:
        return [[frame.text for frame in cassette.frames(session.id)] for session in cassette.sessions()]


@contextmanager
def recorded(path: str) -> Iterator[None]:
    """Meanwhile another process records a complete third session."""
    ours, theirs = FORKS.Pipe()
    process = FORKS.Process(target=record, args=(path, theirs))
    process.start()
    theirs.close()  # otherwise the test would wait for a dying recorder
    with ours:
        assert ours.poll(WAIT) and ours.recv_bytes() == b"begun"
        try:
            yield
        finally:
            ours.send_bytes(b"end")
            process.join(WAIT)
    assert process.exitcode == 0


def record(path: str, asked: Connection) -> None:
    session, ledger = OneSession(path, {"started_at": "2026-01-02T00:00:00Z"} | FACTS), Ledger()
    for seq, (side, text) in enumerate(talk("meanwhile"), 1):
        frame = Frame(seq, seq, side, "stdio", "message", text.encode(), b"\n")
        session.append([(frame, ledger.derive(frame))], {})
        if seq == 1:
            asked.send_bytes(b"begun")
            asked.recv_bytes()
    session.finish({"ended_at": "2026-01-02T00:00:01Z"})
    session.close()


# Leftovers ----------------------------------------------------------------------------------------------


def expect_whole_after_each_kill(act: Act, like: Path, directory: Path, *, in_use: bool) -> None:
    path = str(directory / "tape.db")
    shutil.copytree(like, directory)
    old = texts(path)
    act(path)
    new = texts(path)
    shutil.rmtree(directory)
    meanwhile = [[text.encode() for _, text in talk("meanwhile")]] if in_use else []
    killed, steps = 0, until_it_lives(act, path)
    while True:
        shutil.copytree(like, directory)
        with recorded(path) if in_use else nullcontext():
            was_killed = next(steps)
        expected = [old + meanwhile, new + meanwhile] if was_killed else [new + meanwhile]
        assert texts(path) in expected, killed
        if os.path.exists(f"{path}.new"):
            assert act is proposed and texts(f"{path}.new") == [old[0], texts(other(path))[0]]
            os.unlink(f"{path}.new")
        hide(path)  # the next command
        assert sorted(os.listdir(directory)) == ["other.db", "tape.db"], killed
        assert SECRET.encode() not in Path(path).read_bytes(), killed
        if not was_killed:
            break
        killed += 1
        shutil.rmtree(directory)
    assert killed > 10


@pytest.mark.slow
@pytest.mark.parametrize("act", [hide, rm, edited, replaced, proposed, merged])
def test_a_kill_leaves_the_old_cassette_or_the_new_one(act: Act, like: Path, tmp_path: Path) -> None:
    expect_whole_after_each_kill(act, like, tmp_path / "here", in_use=False)


@pytest.mark.slow
@pytest.mark.parametrize("act", [hide, rm, edited])
def test_a_kill_does_not_disturb_a_recorder(act: Act, like: Path, tmp_path: Path) -> None:
    expect_whole_after_each_kill(act, like, tmp_path / "here", in_use=True)
