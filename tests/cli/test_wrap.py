"""mcp-tape wrap, --undo and --list: the selected servers, the output, and a server that is then recorded."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from mcp_tape.cassette.reader import Cassette
from tests.support.configs import FILES
from tests.support.forked import MCP_TAPE
from tests.support.live import modern, serving
from tests.support.messages import call
from tests.support.running import ECHO, NOBODY, on_terminal, run, without_roots_powers

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9" * 2
Tape = Callable[..., CompletedProcess[bytes]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    for path, client in ((".cursor/mcp.json", "cursor.json"), (".codex/config.toml", "codex.toml"),
                         (".config/goose/config.yaml", "goose.yaml"), ("project/.vscode/mcp.json", "vscode.json"),
                         (".claude.json", "claude-code.json")):  # fmt: skip
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes((FILES / client).read_bytes())
    return tmp_path


@pytest.fixture
def tape(home: Path) -> Tape:
    bin_directory = home / "bin"
    bin_directory.mkdir()
    (bin_directory / "mcp-tape").write_text(f'#!/bin/sh\nexec {sys.executable} -m mcp_tape "$@"\n')
    (bin_directory / "mcp-tape").chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "CODEX_"))}
    environ = kept | {"HOME": str(home), "PATH": f"{bin_directory}:/usr/bin:/bin"}

    def tape(*words: str, code: int = 0) -> CompletedProcess[bytes]:
        done = run([*MCP_TAPE, *words], cwd=home / "project", env=environ)
        assert done.returncode == code, done
        return done

    return tape


def contents(home: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in home.rglob("*.*") if path.suffix in (".json", ".toml", ".yaml")}


def test_servers_of_claude_code_are_wrapped_in_its_file_without_its_command(home: Path, tape: Tape) -> None:
    """The command removes an entry before it adds the new one, and its command line is visible to every process."""
    said = home / "claude was started"
    (home / "bin" / "claude").write_text(f"#!/bin/sh\necho \"$@\" >> '{said}'\n")
    (home / "bin" / "claude").chmod(0o755)
    entry = {"type": "stdio", "command": "cat", "args": ["--token", SECRET], "env": {"TOKEN": SECRET}}
    servers = {"mcpServers": {"-h": entry, "time": entry}}
    before = json.dumps(servers | {"projects": {str(home / "project"): servers}}, indent=2)
    (home / ".claude.json").write_text(before)
    tape("wrap", "--all", "--client", "claude-code")
    written = json.loads((home / ".claude.json").read_text())
    for scope in (written, written["projects"][str(home / "project")]):
        for name, made in scope["mcpServers"].items():
            assert made["args"][-2:] == ["--token", SECRET] and made["env"] == entry["env"], name
            assert made["args"][0] == "record"
    tape("wrap", "--undo", "--all", "--client", "claude-code")
    assert (home / ".claude.json").read_text() == before
    assert not said.exists() and not (home / ".claude.json.mcp-tape-backup").exists()


def test_clients_lists_files_and_servers(home: Path, tape: Tape) -> None:
    found = [json.loads(line) for line in tape("wrap", "--list", "--json").stdout.splitlines()]
    assert [(one["client"], one["scope"]) for one in found] == [
        ("claude-code", "user"), ("cursor", "user"), ("vscode", "project"), ("codex", "user"), ("goose", "user"),
    ]  # fmt: skip
    by_name = {server["name"]: server for one in found for server in one["servers"]}
    assert by_name["perplexity"]["command"] == ["npx", "-y", "server-perplexity-ask"]
    assert by_name["web"]["url"] == "https://example.com/mcp" and by_name["web"]["problem"] is None
    assert by_name["GitHub" if "GitHub" in by_name else "github"]["wrapped"] is False
    text = tape("wrap", "--list").stdout.decode()
    assert "VS Code (project)" in text and "context7" in text


def test_clients_shows_no_secrets(home: Path, tape: Tape) -> None:
    entry = {"command": "srv", "args": ["--api-key", SECRET]}
    (home / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": {"a": entry}}))
    for words in (["wrap", "--list"], ["wrap", "--list", "--json"], ["wrap", "a", "--dry-run"]):
        assert SECRET.encode() not in tape(*words).stdout


@pytest.mark.slow
def test_all_is_wrapped_and_unwrapped_to_the_byte(home: Path, tape: Tape) -> None:
    before = contents(home)
    tape("wrap", "--all", code=1)  # Goose's built-in server is refused
    wrapped = contents(home)
    assert {path for path in before if before[path] != wrapped[path]} == {
        path for path in before if not path.endswith("yaml")
    }
    found = [json.loads(line) for line in tape("wrap", "--list", "--json").stdout.splitlines()]
    for one in found:
        for server in one["servers"]:
            assert server["wrapped"] == (not server["problem"] and one["format"] != "yaml"), server
            if server["wrapped"]:
                assert server["command"][0] == ("mcp-tape" if one["scope"] == "project" else f"{home}/bin/mcp-tape")
    tape("wrap", "--undo", "--all")
    assert contents(home) == before


def test_the_edit_of_yaml_is_printed(home: Path, tape: Tape) -> None:
    done = tape("wrap", "github", "--client", "goose")
    assert b"cmd: " in done.stdout and b"- 'record'\n      - '--for'\n      - 'goose/github'" in done.stdout
    assert b"does not change" in done.stderr
    assert b"it has a URL, in a YAML file" in tape("wrap", "far", code=1).stderr


CLAUDE = """
import json, os, sys
path = os.path.expanduser("~/.claude.json")
settings = json.load(open(path))
verb, name, *entry = [word for word in sys.argv[2:] if word not in ("--scope", "user", "local")]
servers = settings["mcpServers"]
servers.update({name: json.loads(entry[0])}) if entry else servers.pop(name)
json.dump(settings, open(path, "w"), indent=2)
"""


def test_the_backup_goes_with_the_tape_also_where_claude_writes_the_file(home: Path, tape: Tape) -> None:
    (home / "claude.py").write_text(CLAUDE)
    (home / "bin/claude").write_text(f'#!/bin/sh\nexec {sys.executable} {home}/claude.py "$@"\n')
    (home / "bin/claude").chmod(0o755)
    settings, backup = home / ".claude.json", home / ".claude.json.mcp-tape-backup"
    before = json.dumps({"mcpServers": {"only": {"command": "x", "args": []}}}, indent=2)
    settings.write_text(before)
    tape("wrap", "only", "--client", "claude-code")
    assert "record" in settings.read_text() and backup.read_text() == before
    tape("wrap", "--undo", "only", "--client", "claude-code")
    assert settings.read_text() == before and not backup.exists()


def test_a_dry_run_shows_the_change_and_makes_none(home: Path, tape: Tape) -> None:
    before = contents(home)
    done = tape("wrap", "time", "--dry-run")
    assert b'+      "command": "' in done.stdout and b'-      "command": "uvx"' in done.stdout
    assert contents(home) == before


def test_a_name_that_is_in_several_places_is_not_guessed(home: Path, tape: Tape) -> None:
    (home / "project/.mcp.json").write_text('{"mcpServers": {"time": {"command": "x"}}}')
    assert b"in several places" in tape("wrap", "time", code=1).stderr
    tape("wrap", "time", "--project")
    assert (home / "project/.mcp.json").read_text() == (
        '{"mcpServers": {"time": {"command": "mcp-tape", "args": ["record", "--for=claude-code/time", "--", "x"]}}}'
    )


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["wrap"], 2, b"which servers to wrap?"),
        (["wrap", "nobody"], 1, b"no client has a server nobody; there are: "),
        (["wrap", "--all", "-o", "x.db"], 2, b"several servers"),
        (["wrap", "a", "--config", "none.json"], 1, b"there is no file none.json"),
        (["wrap", "--undo", "time"], 0, b"time of Claude Code is not wrapped"),
        (["wrap", "--undo"], 0, b"nothing to unwrap"),
        (["wrap", "--undo", "--list"], 2, b"not both"),
        (["wrap", "--list", "--mode", "use"], 2, b"leave them out"),
        (["wrap", "a", "--json"], 2, b"goes with --list"),
    ],
)
def test_an_ambiguous_name_is_refused(tape: Tape, words: list[str], code: int, said: bytes) -> None:
    assert said in tape(*words, code=code).stderr


@pytest.mark.parametrize(
    ("typed", "wrapped", "said"),
    [
        (b"1\n", ["one"], b"goes through mcp-tape"),
        (b"2, 1 2\n", ["one", "two"], b"goes through mcp-tape"),
        (b"all\n", ["one", "two"], b"goes through mcp-tape"),
        (b"y\n", [], b"'y' is not a choice: give numbers from 1 to 2, or all"),
        (b"3\n", [], b"'3' is not a choice: give numbers from 1 to 2, or all"),
        (b"\n", [], b"Which to wrap? Numbers, or all"),
    ],
)
@pytest.mark.slow
def test_a_person_without_a_name_is_asked(tmp_path: Path, typed: bytes, wrapped: list[str], said: bytes) -> None:
    config = tmp_path / "mcp.json"
    config.write_text('{"mcpServers": {"one": {"command": "cat"}, "two": {"command": "tac"}}}')
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    shown = on_terminal([*MCP_TAPE, "wrap", "--config", str(config)], typed, PATH=path, HOME=str(tmp_path))
    servers = json.loads(config.read_text())["mcpServers"]
    assert [name for name, entry in servers.items() if "args" in entry] == wrapped, shown
    assert said in shown


ODD = {"\x1b[31m": "x", "\ud800": "x", "a\0b": "x", "": "x", "../../up": "x", "-o": "x", "L" * 5000: "x", "t\n": "x"}


def test_servers_with_any_name_get_a_cassette_of_their_own_and_come_back(home: Path, tape: Tape) -> None:
    before = json.dumps({"mcpServers": {name: {"command": command} for name, command in ODD.items()}})
    (home / ".cursor/mcp.json").write_text(before)
    done = tape("wrap", "--all", "--client", "cursor")
    assert b"\x1b" not in done.stderr
    made = json.loads((home / ".cursor/mcp.json").read_text())["mcpServers"]
    given = [entry["args"][1].removeprefix("--for=") for entry in made.values()]
    assert not any("\0" in name for name in given) and all(name.encode() for name in given)
    tape("wrap", "--undo", "--all", "--client", "cursor")
    assert (home / ".cursor/mcp.json").read_text() == before


@pytest.mark.parametrize(
    "url",
    ["https://ann:correct-horse-battery@e.com/mcp", f"https://e.com/mcp?api_key={SECRET}", f"https://e.com/{SECRET}"],
)
def test_a_url_that_holds_a_secret_does_not_move_to_a_command_line(home: Path, tape: Tape, url: str) -> None:
    before = json.dumps({"mcpServers": {"web": {"url": url}}})
    (home / ".cursor/mcp.json").write_text(before)
    done = tape("wrap", "web", code=1)
    assert b"its URL holds a secret" in done.stderr and SECRET.encode() not in done.stderr
    assert (home / ".cursor/mcp.json").read_text() == before


@pytest.mark.slow
def test_a_file_that_is_read_only_stays_so(home: Path, tape: Tape) -> None:
    path = home / ".cursor/mcp.json"
    path.chmod(0o444)
    before = contents(home)
    done = run([*MCP_TAPE, "wrap", "--all", "--config", str(path)], preexec_fn=without_roots_powers)
    assert done.returncode == 1 and b"it is read-only" in done.stderr, done
    assert contents(home) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_run_as_root_it_keeps_the_owner_of_the_file(home: Path, tape: Tape) -> None:
    path = home / ".cursor/mcp.json"
    os.chown(path, NOBODY, NOBODY)
    tape("wrap", "--all", "--config", str(path))
    assert (path.stat().st_uid, path.stat().st_gid) == (NOBODY, NOBODY) and b"mcp-tape" in path.read_bytes()


def test_a_file_that_cannot_be_read_is_reported_and_the_others_are_wrapped(home: Path, tape: Tape) -> None:
    (home / ".cursor/mcp.json").write_text("{")
    done = tape("wrap", "time", code=1)
    assert b"cannot be read" in done.stderr and b"time of Claude Code goes through" in done.stderr
    assert (home / ".cursor/mcp.json").read_text() == "{"


def test_any_file_can_be_named(home: Path, tape: Tape) -> None:
    path = home / "mine.toml"
    path.write_text('[mcp_servers.a]\ncommand = "x"\n')
    tape("wrap", "--all", "--config", str(path), "--mode", "use", "-o", "a.db")
    assert f'args = ["use", "{home}/project/a.db", "--mode=once", "--", "x"]' in path.read_text()
    tape("wrap", "--undo", "a", "--config", str(path))
    assert path.read_text() == '[mcp_servers.a]\ncommand = "x"\n'


@pytest.mark.slow
def test_a_wrapped_server_is_recorded_into_a_cassette_of_its_own(home: Path, tape: Tape) -> None:
    entry = {"command": ECHO[0], "args": ECHO[1:]}
    (home / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": {"it é": entry}}))
    tape("wrap", "it é")
    made = json.loads((home / ".cursor/mcp.json").read_text())["mcpServers"]["it é"]
    line = call(1, "search").encode() + b"\n"
    done = run([made["command"], *made["args"]], line, env={"HOME": str(home), "PATH": "/usr/bin:/bin"}, cwd="/")
    assert done.stdout == line
    (path,) = (home / ".local/share/mcp-tape/cassettes/cursor").glob("it-*.db")
    with Cassette(str(path)) as cassette:
        assert [session.target for session in cassette.sessions()]


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("old", [False, True])
def test_a_wrapped_server_with_a_url_is_spoken_to_with_its_headers_and_recorded(
    home: Path, tape: Tape, old: bool
) -> None:
    with serving(old=old) as live:
        entry = {"type": "sse" if old else "http", "url": f"{live.url}?x=1", "headers": {"X-Api-Key": SECRET}}
        before = json.dumps({"mcpServers": {"web": entry}})
        (home / ".cursor/mcp.json").write_text(before)
        tape("wrap", "web", "--client", "cursor")
        made = json.loads((home / ".cursor/mcp.json").read_text())["mcpServers"]["web"]
        assert made["type"] == "stdio" and SECRET not in " ".join(made["args"])
        environ = {"HOME": str(home), "PATH": "/usr/bin:/bin"} | made["env"]
        done = run([made["command"], *made["args"]], modern(1, "search").encode() + b"\n", env=environ, cwd="/")
        assert json.loads(done.stdout)["result"] and done.returncode == 0, done
    assert live.heard[0]["headers"].get("x-api-key") == SECRET
    path = home / ".local/share/mcp-tape/cassettes/cursor/web.db"
    assert SECRET.encode() not in path.read_bytes()
    tape("wrap", "--undo", "web", "--client", "cursor")
    assert (home / ".cursor/mcp.json").read_text() == before
