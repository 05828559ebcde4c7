"""A pytest suite on Windows that records, and replays from then on."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

pytest.importorskip("msvcrt", reason="for Windows: python -m tests.windows.wine")

from tests.windows import support

SUITE = """
import sys
import pytest
from mcp import ClientSession, stdio_client
from mcp.client.streamable_http import streamable_http_client

SERVER = [sys.executable, "-m", "mcp_tape.demo.server"]

async def names(streams):
    async with ClientSession(*streams[:2]) as client:
        await client.initialize()
        return [tool.name for tool in (await client.list_tools()).tools]

@pytest.mark.mcp_tape(server=SERVER)
async def test_by_command(mcp_tape):
    async with stdio_client(mcp_tape.server_params) as streams:
        assert await names(streams) == ["forecast"]

@pytest.mark.mcp_tape(server=SERVER)
async def test_by_streams(mcp_tape):
    async with mcp_tape.streams() as streams:
        assert await names(streams) == ["forecast"]
"""


def test_a_suite_records_and_then_replays(tmp_path: Path) -> None:
    place = tmp_path / "my suite é"
    place.mkdir()
    (place / "test_weather.py").write_text(SUITE, "utf-8")
    shutil.copy(Path(__file__).parent / "pytest.ini", place)
    words = [sys.executable, "-m", "pytest", "-q", str(place)]
    first = support.run([*words, "--mcp-record", "once"], cwd=place)
    assert first.returncode == 0, first.stdout.decode(errors="replace")
    made = {path: path.read_bytes() for path in place.rglob("*.db")}
    assert len(made) == 2, first.stdout.decode(errors="replace")
    again = support.run([*words, "--mcp-record", "none"], cwd=place)
    assert again.returncode == 0, again.stdout.decode(errors="replace")
    assert {path: path.read_bytes() for path in place.rglob("*.db")} == made
