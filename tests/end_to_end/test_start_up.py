"""The start-up paths import nothing heavy."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.running import ECHO, record, run

PACKAGE = Path(__file__).parents[2] / "mcp_tape"
FORBIDDEN = {"sqlite_utils", "deepdiff", "asyncio", "httpx2", "uvicorn", "mcp", "pydantic"}


def test_recording_imports_nothing_heavy_in_the_relay(tmp_path: Path) -> None:
    command = record(tmp_path / "tape.db", ECHO)
    done = run([sys.executable, "-X", "importtime", *command[1:]])
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines() if "|" in line}
    assert "click" in imported  # it does list imports
    assert not FORBIDDEN & imported
    # the writer needs these; the relay must not wait for them
    assert not {"sqlite3", "orjson", "mcp_tape.record.tape"} & imported


def test_replaying_imports_nothing_heavy() -> None:
    demo = PACKAGE.parent / "cassettes" / "demo.db"
    done = run([sys.executable, "-X", "importtime", "-m", "mcp_tape", "replay", str(demo)])
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines() if "|" in line}
    assert "mcp_tape.replay.deck" in imported  # it does list imports, and it did play
    assert not FORBIDDEN & imported
    # only the odd case needs these
    assert (
        not {"decimal", "hashlib", "pathlib", "tempfile", "mcp_tape.replay.misses", "mcp_tape.redaction.redactor"}
        & imported
    )
