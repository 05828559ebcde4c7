"""Replay on Windows: the bytes that Linux gives, over stdio and HTTP, to the official SDK."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

pytest.importorskip("msvcrt", reason="for Windows: python -m tests.windows.wine")

from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

import mcp_tape
from mcp_tape.cassette.reader import Cassette
from tests.windows import support
from tests.windows.wine import PLACE, SPOKEN

NAMES = sorted(path.stem for path in support.CASSETTES.glob("*.db"))


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_cassette_replays_with_the_bytes_of_linux(name: str, tmp_path: Path) -> None:
    shutil.copy(support.CASSETTES / f"{name}.db", tmp_path / "tape.db")
    done = support.run(
        support.mcp_tape("replay", tmp_path / "tape.db", "-q"), (PLACE / SPOKEN / f"{name}.in").read_bytes()
    )
    assert done.stdout == (PLACE / SPOKEN / f"{name}.out").read_bytes()


async def ask_everything(client: ClientSession) -> list[str]:
    """Ask for what is recorded without arguments; return the answers as JSON."""
    return [(await client.list_tools()).model_dump_json()]


async def test_the_sdk_client_gets_the_same_over_stdio_and_http(tmp_path: Path) -> None:
    tape = tmp_path / "two words é.db"
    shutil.copy(support.CASSETTES / "time.db", tape)
    with Cassette(str(tape)) as cassette:
        assert cassette.sessions()
    words = support.mcp_tape("replay", tape, "-q")
    parameters = StdioServerParameters(command=words[0], args=words[1:])
    async with stdio_client(parameters) as streams, ClientSession(*streams) as client:
        await client.initialize()
        over_stdio = await ask_everything(client)
    with support.start(support.mcp_tape("replay", tape, "-q", "--listen", "127.0.0.1:0")) as process:
        assert process.stdout
        url = process.stdout.readline().decode().strip()
        async with streamable_http_client(url) as streams, ClientSession(*streams[:2]) as client:
            await client.initialize()
            over_http = await ask_everything(client)
        process.kill()
    assert over_http == over_stdio


async def test_use_cassette_plays_by_command_url_and_streams(tmp_path: Path) -> None:
    shutil.copy(support.CASSETTES / "time.db", tmp_path / "tape.db")
    found = []
    with mcp_tape.use_cassette(tmp_path / "tape.db", mode="none") as tape:
        async with stdio_client(tape.server_params) as streams, ClientSession(*streams) as client:
            await client.initialize()
            found.append(await ask_everything(client))
        async with streamable_http_client(tape.url) as streams, ClientSession(*streams[:2]) as client:
            await client.initialize()
            found.append(await ask_everything(client))
        async with tape.streams() as streams, ClientSession(*streams) as client:
            await client.initialize()
            found.append(await ask_everything(client))
    assert found[0] == found[1] == found[2]


def test_options_for_posix_only_are_refused(tmp_path: Path) -> None:
    shutil.copy(support.CASSETTES / "time.db", tmp_path / "tape.db")
    done = support.run(support.mcp_tape("replay", tmp_path / "tape.db", "--listen", "127.0.0.1:0", "--workers", "2"))
    assert done.returncode == 2
    assert b"--workers needs processes that share a socket, which Windows lacks" in done.stderr


def test_output_is_utf_8_with_plain_line_ends(tmp_path: Path) -> None:
    shutil.copy(support.CASSETTES / "demo.db", tmp_path / "tape.db")
    done = support.run(support.mcp_tape("show", tmp_path / "tape.db"))
    assert done.returncode == 0
    assert "→" in done.stdout.decode("utf-8")
    assert b"\r" not in done.stdout
    assert sys.platform == "win32"
