"""Clients on Windows: their files are found, wrapped and unwrapped."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("msvcrt", reason="for Windows: python -m tests.windows.wine")

from click.testing import CliRunner, Result

from mcp_tape.cli import cli
from mcp_tape.clients.table import CLIENTS, TOML, YAML, path_of
from tests.windows.wine import PLACE

SERVER = "C:\\Program Files\\nodejs\\npx.cmd"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home directory of a user with a space and letters beyond ASCII in their name."""
    home = tmp_path / "Zoë Müller"
    bin_directory = home / "bin"
    bin_directory.mkdir(parents=True)
    shutil.copy(PLACE / "echo.exe", bin_directory / "mcp-tape.exe")
    for name, value in (("USERPROFILE", home), ("APPDATA", home / "AppData" / "Roaming"), ("PATH", bin_directory),
                        ("LOCALAPPDATA", home / "AppData" / "Local")):  # fmt: skip
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.chdir(home)
    return home


def tape(*words: str) -> Result:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, (done.output, done.exception)
    return done


@pytest.mark.parametrize("client", [one for one in CLIENTS if one.kind != YAML], ids=lambda one: one.name)
def test_a_client_is_wrapped_and_unwrapped(client, home: Path) -> None:  # type: ignore[no-untyped-def]
    file = Path(path_of(client.user[0], os.environ))
    assert file.is_relative_to(home)
    file.parent.mkdir(parents=True, exist_ok=True)
    keys = client.keys[0]
    if client.kind == TOML:
        before = f'[{keys[0]}.time]\r\ncommand = \'{SERVER}\'\r\nargs = ["-y", "x"]\r\n'
    else:
        value: object = {"time": {client.words[0]: SERVER, client.words[1]: ["-y", "x"]}}
        for key in reversed(keys):
            value = {key: value}
        before = json.dumps(value, indent=2).replace("\n", "\r\n")
    file.write_bytes(before.encode())
    tape("wrap", "--client", client.name, "--all")
    wrapped = file.read_bytes().decode()
    program = str(home / "bin" / "mcp-tape.exe")
    assert (
        program in wrapped or json.dumps(program, ensure_ascii=False)[1:-1] in wrapped or json.dumps(program) in wrapped
    )
    assert "npx.cmd" in wrapped and "\r\n" in wrapped
    assert tape("wrap", "--list").output.rstrip().endswith("wrapped")
    tape("wrap", "--client", client.name, "--undo", "--all")
    assert file.read_bytes().decode() == before


def test_files_of_desktop_programs_are_in_the_roaming_directory(home: Path) -> None:
    found = {client.name: path_of(client.user[0], os.environ) for client in CLIENTS}
    roaming = home / "AppData" / "Roaming"
    assert found["claude-desktop"] == str(roaming / "Claude" / "claude_desktop_config.json")
    assert found["vscode"] == str(roaming / "Code" / "User" / "mcp.json")
    assert found["zed"] == str(roaming / "Zed" / "settings.json")
    assert found["cursor"] == str(home / ".cursor" / "mcp.json")


def test_doctor_finds_our_program_and_the_clients(home: Path) -> None:
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"mcpServers": {"time": {"command": SERVER, "args": []}}}), "utf-8")
    done = CliRunner().invoke(cli, ["doctor"])
    assert done.exit_code == 1
    assert f"mcp-tape: is {home / 'bin' / 'mcp-tape.exe'}".lower() in done.output.lower()
    assert f"time: {SERVER} is not there" in done.output
