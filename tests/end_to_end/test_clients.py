"""Real clients with a wrapped server: they list it or call it, and that is recorded. Skipped if not installed.

One of them is small, and among the npm packages of the tests; `npm install -g` installs the others, some of which
need a newer Node.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.forked import MCP_TAPE
from tests.support.provision import ROOT
from tests.support.running import frames, run

SERVER = [sys.executable, "-m", "mcp_tape.demo.server"]
TOML = f'# mine\n[mcp_servers.demo]\ncommand = "{SERVER[0]}"\nargs = {json.dumps(SERVER[1:])}\n'
ENTRY = {"command": SERVER[0], "args": SERVER[1:]}


class Known(NamedTuple):
    """A client: its program, its file and content, the words that make it list its servers, and whether it calls
    them."""

    program: str
    path: str
    text: str
    words: Sequence[str]
    says: bytes
    talks: bool


def servers(indent: int | None = 2) -> str:
    return json.dumps({"mcpServers": {"demo": ENTRY}}, indent=indent) + "\n"


INSPECT = ["--cli", "--config", "project/.mcp.json", "--server", "demo", "--method", "tools/list"]
CLIENTS = {
    "codex": Known("codex", ".codex/config.toml", TOML, ["mcp", "list"], b"record --for codex/demo", False),
    "gemini": Known("gemini", ".gemini/settings.json", servers(), ["mcp", "list"], b"record --for gemini/demo", False),
    "opencode": Known(
        "opencode", ".config/opencode/opencode.json",
        json.dumps({
            "$schema": "https://opencode.ai/config.json",
            "mcp": {"demo": {"type": "local", "command": SERVER, "enabled": True}},
        }),
        ["mcp", "list"], b"connected", True,
    ),
    "mcporter": Known("mcporter", ".mcporter/mcporter.json", servers(None), ["list"], b"1 tool", True),
    "claude-code": Known("claude", "project/.mcp.json", servers(), ["mcp", "list"], b"record --for claude-code", False),
    "inspector": Known("mcp-inspector", "project/.mcp.json", servers(), INSPECT, b'"forecast"', True),
}  # fmt: skip


def environ(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "CODEX_", "CLAUDE"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return kept | {"HOME": str(home), "PATH": path}


def expect(program: str) -> str:
    return shutil.which(program) or pytest.skip(f"there is no {program} here: npm has it")


def expect_new(inspector: str) -> str:
    """An Inspector before 1.0 takes any server's -- argument as its own, wrapped or not."""
    package = next(above for above in Path(inspector).resolve().parents if above.name == "inspector")
    version = json.loads((package / "package.json").read_text())["version"]
    return inspector if int(version.partition(".")[0]) else pytest.skip(f"Inspector {version} takes -- for its own")


@pytest.mark.slow
@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_works_with_a_wrapped_server_and_gets_its_file_back(
    name: str, tmp_path: Path, node: Callable[[], Path]
) -> None:
    known = CLIENTS[name]
    program = str(node() / ".bin" / name) if name == "mcporter" else expect(known.program)
    if name == "inspector":
        expect_new(program)
    place = tmp_path / known.path
    place.parent.mkdir(parents=True)
    place.write_text(known.text)
    (tmp_path / "project").mkdir(exist_ok=True)
    env = environ(tmp_path)
    words = [*MCP_TAPE, "wrap", "demo", "--config", str(place)]
    assert run(words, cwd=tmp_path / "project", env=env).returncode == 0
    done = run([program, *known.words], cwd=tmp_path if "project/.mcp.json" in known.words else place.parent, env=env)
    assert known.says in done.stdout + done.stderr, done
    recorded = list((tmp_path / ".local/share/mcp-tape/cassettes").rglob("demo.db"))
    assert bool(recorded) == known.talks
    for tape in recorded:
        assert any(b"tools/list" in frame.text for frame in frames(tape))
    assert (
        run([*MCP_TAPE, "wrap", "--undo", "demo", "--config", str(place)], cwd=tmp_path / "project", env=env).returncode
        == 0
    )
    assert place.read_text() == known.text


STUBS = re.findall(r"^echo '(.*)' >>? stubs\.jsonl$", (ROOT / "docs" / "stubs.md").read_text("utf-8"), re.M)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["claude-code", "inspector", "mcporter"])
def test_a_client_connects_to_the_stubs_of_the_manual(name: str, tmp_path: Path, node: Callable[[], Path]) -> None:
    known, env, report = CLIENTS[name], environ(tmp_path), tmp_path / "report.jsonl"
    program = str(node() / ".bin" / name) if name == "mcporter" else expect(known.program)
    (tmp_path / "stubs.jsonl").write_text("\n".join(STUBS))
    words = [*MCP_TAPE, "replay", str(tmp_path / "stubs.jsonl"), "--report", str(report)]
    entry = {"command": words[0], "args": words[1:]}
    place = tmp_path / known.path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps({"mcpServers": {"demo": entry}}))
    if name == "claude-code":  # it waits for its user to approve what a project lists
        place.unlink()
        added = run([program, "mcp", "add-json", "--scope", "user", "demo", json.dumps(entry)], cwd=tmp_path, env=env)
        assert added.returncode == 0, added
    done = run([program, *known.words], cwd=tmp_path if "project/.mcp.json" in known.words else place.parent, env=env)
    assert done.returncode == 0, done
    facts = [json.loads(line) for line in report.read_text().splitlines()]
    assert len(STUBS) == 2 and "miss" not in {fact["what"] for fact in facts}
    assert "tools/list" in {fact["method"] for fact in facts if fact["what"] == "played"}


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["user", "local"])
def test_all_scopes_of_claude_code_are_changed_in_its_file(scope: str, tmp_path: Path) -> None:
    claude, env, here = expect("claude"), environ(tmp_path), tmp_path / "project"
    here.mkdir()
    secret = ENTRY | {"env": {"TOKEN": "not-a-real-one"}}
    for name, entry in (("demo", ENTRY | {"env": {"A": "${A:-b}"}}), ("secret", secret)):
        added = run([claude, "mcp", "add-json", "--scope", scope, name, json.dumps(entry)], cwd=here, env=env)
        assert added.returncode == 0, added

    def entry(name: str) -> object:
        settings = json.loads((tmp_path / ".claude.json").read_text())
        return (settings if scope == "user" else settings["projects"][str(here)])["mcpServers"][name]

    before = entry("demo"), entry("secret")
    wrapped = run([*MCP_TAPE, "wrap", "--all"], cwd=here, env=env)
    assert wrapped.returncode == 0, wrapped
    for name, old in zip(("demo", "secret"), before, strict=True):
        made = entry(name)
        assert isinstance(made, dict) and made["args"][:2] == ["record", "--for"]
        assert isinstance(old, dict) and made["env"] == old["env"]
    listed = run([claude, "mcp", "get", "secret"], cwd=here, env=env)
    assert b"Connected" in listed.stdout, listed
    assert run([*MCP_TAPE, "wrap", "--undo", "--all"], cwd=here, env=env).returncode == 0
    assert (entry("demo"), entry("secret")) == before
