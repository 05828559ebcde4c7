"""Golden cassettes of schema 1 are read, played and compared as those of today, also in git's history."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from mcp_tape.cassette import schema
from tests.support.reading import invoke
from tests.support.running import MCP_TAPE, run, stream

CASSETTES = Path(__file__).parents[2] / "cassettes"
OLDER = sorted((CASSETTES / "schemas" / "1").glob("*.db"))
COMMANDS = (["show"], ["show", "--json"], ["stats", "--json"], ["dump"], ["export"], ["export", "--format", "md"])


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize("older", OLDER, ids=lambda path: path.stem)
def test_every_command_says_the_same(older: Path) -> None:
    today = CASSETTES / older.name
    assert (schema.version_of(str(older)), schema.version_of(str(today))) == (1, schema.VERSION)
    for command, *words in COMMANDS:
        said = [invoke(command, path, *words).output.replace(str(path.parent), "") for path in (older, today)]
        assert said[0] == said[1] != ""


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize("older", OLDER, ids=lambda path: path.stem)
def test_the_recorded_client_is_answered_the_same(older: Path) -> None:
    today = CASSETTES / older.name
    asked = stream(today, "client")
    said = [run([*MCP_TAPE, "replay", str(path)], asked).stdout for path in (older, today)]
    assert said[0] == said[1] != b""


def test_one_in_gits_history_is_compared_with_what_it_has_become(tmp_path: Path) -> None:
    tape = Path(shutil.copy(OLDER[0], tmp_path / "tape.db"))
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "old"]):
        assert run([*git, *words]).returncode == 0
    assert invoke("migrate", tape).exit_code == 0
    done = run([*MCP_TAPE, "diff", "git:HEAD:tape.db", "tape.db"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_one_that_may_not_be_written_is_read_and_stays_as_it_is(tmp_path: Path) -> None:
    tape = Path(shutil.copy(OLDER[0], tmp_path / "tape.db"))
    before = tape.read_bytes()
    tape.chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        assert invoke("show", tape).exit_code == 0
        assert (os.listdir(tmp_path), tape.read_bytes()) == (["tape.db"], before)
    finally:
        tmp_path.chmod(0o700)
