"""The default path of a cassette."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.start.cassette_names import cassette_name, default_path, path_for

NAMES = {
    "npx -y @scope/server-x": "server-x",
    "npx -y @scope/server-x@1.2.3 --port 3": "server-x",
    "npx --yes server-x@latest": "server-x",
    "npx -p @scope/pkg some-bin": "some-bin",
    "npm exec -- @scope/server-x": "server-x",
    "bunx @scope/server-x": "server-x",
    "deno run -A jsr:@scope/server-x": "server-x",
    "deno run --allow-net npm:@scope/server-x@2": "server-x",
    "python -m pkg.srv": "pkg.srv",
    "python3.12 -u -m pkg.srv --verbose": "pkg.srv",
    "python -u weather.py": "weather",
    "python -W ignore -X dev weather.py": "weather",
    "/usr/bin/python3.11 /srv/weather/server.py": "weather",
    "uvx mcp-server-time": "mcp-server-time",
    "uvx mcp-server-time==2026.1": "mcp-server-time",
    "uvx mcp-server-time[extra]@latest --local-timezone Europe/Berlin": "mcp-server-time",
    "uvx --from pkg name": "name",
    "uvx --from git+https://example.org/a/b name": "name",
    "uv run weather.py": "weather",
    "uv run --directory /srv/app python -m weather": "weather",
    "uv tool run name": "name",
    "pipx run mcp-server-git": "mcp-server-git",
    "node /srv/weather/build/index.js": "weather",
    "node --enable-source-maps ./weather.mjs": "weather",
    "tsx src/weather.ts": "weather",
    "java -jar /opt/weather.jar": "weather",
    "docker run -i --rm -e K mcp/fetch:latest": "fetch",
    "docker run -i --rm -e K=V -m 512m --pull always ghcr.io/org/some-server@sha256:0a": "some-server",
    "podman run -i localhost:5000/mcp/fetch": "fetch",
    "env KEY=value npx -y @scope/server-x": "server-x",
    "KEY=value mcp-server-git": "mcp-server-git",
    "bash -c 'npx -y @scope/server-x --port 1'": "server-x",
    "mcp-server-git --repository /srv/repo": "mcp-server-git",
    "../bin/weather.sh": "weather",
    r"'C:\servers\weather\main.exe'": "weather",
    "'my server (new)'": "my-server-new",
    "../../../etc/passwd": "passwd",
    "'---...'": "project",
    "-- --": "project",
    # A command without a name uses its directory's.
    "": "project",
    "uv run server.py": "project",
    "node build/index.js": "project",
    "node -e 'console.log(1)'": "project",
    "python -c 'import weather'": "project",
    "./main": "project",
    "npm start": "project",
}


@pytest.mark.parametrize("command", NAMES)
def test_a_cassette_is_named_after_the_program_of_the_command(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    assert cassette_name(shlex.split(command)) == NAMES[command]


def test_at_the_root_a_general_command_is_called_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert cassette_name(["node", "build/index.js"]) == "server"


def test_a_directory_that_is_gone_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert cassette_name(["./main"]) == "server"


@given(st.lists(st.text(), max_size=6))
def test_any_command_gives_a_name_that_is_safe_as_a_file(command: list[str]) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,79}", cassette_name(command))


def test_a_long_name_is_cut() -> None:
    assert cassette_name(["x" * 300]) == "x" * 80


@pytest.mark.parametrize("mark", ["pyproject.toml", "package.json", ".git", "cassettes"])
def test_in_a_project_the_cassette_goes_into_its_cassettes_directory(
    mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / mark).mkdir()
    monkeypatch.chdir(tmp_path)
    assert default_path(["uvx", "mcp-server-time"]) == "cassettes/mcp-server-time.db"


@pytest.mark.skipif(os.uname().sysname == "Darwin", reason="macOS has a place of its own")
@pytest.mark.parametrize("data_home", ["/data", "", "relative"])
def test_elsewhere_it_goes_into_the_users_data_directory(
    data_home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_DATA_HOME", data_home)
    base = "/data" if data_home == "/data" else "/home/me/.local/share"
    assert default_path(["uvx", "mcp-server-time"]) == f"{base}/mcp-tape/cassettes/mcp-server-time.db"


@pytest.mark.parametrize(
    "command",
    ["python3 weather.py", "python3 ./weather.py", "python3 -m weather", "uv run weather.py", "node build/index.js"],
)
def test_the_same_command_in_two_directories_has_two_cassettes(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    found = []
    for place in ("here/same", "there/same"):
        (tmp_path / place / "build").mkdir(parents=True)
        (tmp_path / place / "weather.py").touch()
        (tmp_path / place / "build/index.js").touch()
        monkeypatch.chdir(tmp_path / place)
        found.append(default_path(shlex.split(command)))
        assert found[-1] == default_path(shlex.split(command))
    assert found[0] != found[1]
    assert all(re.search(r"/cassettes/(weather|same)-[a-p]{8}\.db$", path) for path in found), found


def test_one_file_has_one_cassette_wherever_its_command_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weather.py").touch()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    here = default_path(["python3", "weather.py"])
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert default_path(["python", "../weather.py"]) == default_path(["python", f"{tmp_path}/weather.py"]) == here


def test_no_servers_cassette_is_one_of_the_row_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    numbered = re.compile(r"-[0-9]+\.db")
    names = ["time", "time-2", "time-33", *(f"time/{number}" for number in range(300))]
    paths = [path_for(f"cursor/{name}") for name in names]
    assert len(set(paths)) == len(names) and not any(map(numbered.search, paths))
    assert paths[0].endswith("/cassettes/cursor/time.db")
