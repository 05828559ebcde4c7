"""Start-up imports nothing heavy. test_promises.py lists the modules allowed until the first reply."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.running import ECHO, run

DEMO = Path(__file__).parents[2] / "cassettes" / "demo.db"
MAIN = "from mcp_tape.__main__ import main; main()"  # like the installed command
HEAVY = """
    sqlite_utils deepdiff asyncio httpx2 httptools mcp pydantic click orjson typing dataclasses inspect subprocess
    ctypes tempfile pathlib logging decimal hashlib re enum contextlib socket
""".split()


def imported(*words: str, place: Path) -> set[str]:
    """The modules that a whole run of a command loads, beyond those that Python always loads."""
    command, nothing = ([sys.executable, "-X", "importtime", "-c", source] for source in (MAIN, "pass"))
    done, bare = run([*command, *words], cwd=place), run(nothing)
    listed, before = (set(re.findall(r"^import time:.*\| +(\S+)$", one.stderr.decode(), re.M)) for one in (done, bare))
    assert done.returncode == 0 and "mcp_tape.start" in listed  # the command ran, and imports were listed
    return listed - before


@pytest.mark.slow
def test_recording_imports_nothing_heavy_in_the_relay(tmp_path: Path) -> None:
    found = imported("record", "-q", "-o", "tape.db", "--", *ECHO, place=tmp_path)
    assert "mcp_tape.record.recorder" in found
    assert not set(HEAVY) & found
    # the writer needs these; the relay must not wait for them
    assert not {"sqlite3", "mcp_tape.record.tape", "mcp_tape.cassette.reader"} & found


@pytest.mark.parametrize("words", ["replay tape.db", "use tape.db --mode none", "use tape.db -- server"])
def test_replaying_imports_nothing_heavy(tmp_path: Path, words: str) -> None:
    shutil.copy(DEMO, tmp_path / "tape.db")
    found = imported(*words.split(), place=tmp_path)
    assert "mcp_tape.replay.deck" in found
    assert not set(HEAVY) & found
    # only the odd case needs these
    assert (
        not {"json", "mcp_tape.replay.misses", "mcp_tape.redaction.redactor", "mcp_tape.record.recording_process"}
        & found
    )


@pytest.mark.slow
def test_help_errors_and_other_commands_are_clicks(tmp_path: Path) -> None:
    shutil.copy(DEMO, tmp_path / "tape.db")
    for words in (["replay", "--help"], ["--version"], ["ls", "tape.db"]):
        assert "click" in imported(*words, place=tmp_path)
    refused = run([sys.executable, "-c", MAIN, "replay", "tape.db", "--sped", "2"], cwd=tmp_path)
    assert refused.returncode == 2 and b"Usage: mcp-tape replay [OPTIONS] FILE\n" in refused.stderr
