"""Locks: a server's offer as text, to compare a later version with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcp_tape.compare import lock
from mcp_tape.compare.rule_table import CATEGORIES
from mcp_tape.errors import CassetteError
from tests.support.diffs import Talk, hello, listing, taped, tool
from tests.support.many import comparison
from tests.support.provision import ROOT
from tests.support.running import MCP_TAPE, run

INFO = {"name": "s", "version": "1.0", "title": "S", "description": "Does.", "websiteUrl": "https://s.example",
        "icons": [{"src": "https://s.example/i.png"}]}  # fmt: skip
FULL: Talk = [
    hello(client={"sampling": {}}, serverInfo=INFO, instructions="Be kind.", _meta={"a": "b"}),
    listing("tools/list", tool("b"), tool("a")),
]
TALKATIVE: Talk = [*FULL, listing("tools/list", tool("c"))]
TIME, EVERYTHING = ROOT / "cassettes" / "time.db", ROOT / "cassettes" / "everything.db"


def locked(cassette: Path, *more: str) -> str:
    done = run([*MCP_TAPE, "convert", str(cassette), "--to", "lock", *more])
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def breaking(old: Path, new: Path) -> tuple[int, str]:
    done = run([*MCP_TAPE, "breaking", str(old), str(new)])
    return done.returncode, done.stdout.decode() + done.stderr.decode()


@pytest.mark.parametrize("cassette", [TIME, EVERYTHING], ids=["time", "everything"])
def test_a_server_that_stays_the_same_passes(cassette: Path, tmp_path: Path) -> None:
    path = tmp_path / "mcp.lock"
    path.write_text(locked(cassette), "utf-8")
    code, said = breaking(path, cassette)
    assert code == 0 and "It breaks no client" in said
    assert "a lock holds what a server offers, and no calls" in said
    assert lock.dump(lock.load(path.read_bytes(), str(path))) == path.read_text("utf-8")


@pytest.mark.parametrize("category", CATEGORIES)
@pytest.mark.parametrize("talk", [FULL, TALKATIVE], ids=["full", "unsteady"])
def test_nothing_has_changed_against_the_own_lock(talk: Talk, category: str, tmp_path: Path) -> None:
    tape, path = taped(tmp_path / "tape.db", talk), tmp_path / "mcp.lock"
    path.write_text(locked(tape), "utf-8")
    words = [*MCP_TAPE, "diff", str(path), str(tape), "--surface", "--category", category, "--fail-on", "info"]
    done = run(words)
    assert (done.returncode, done.stdout.decode().partition(" ")[0]) == (0, "no"), done.stdout.decode()


@pytest.mark.parametrize("member", ["title", "description", "websiteUrl", "icons"])
def test_two_locks_show_that_a_server_presents_itself_otherwise(member: str, tmp_path: Path) -> None:
    for name, value in (("old", "a"), ("new", "b")):
        tape = taped(tmp_path / f"{name}.db", [hello(serverInfo={"name": "s", "version": "1.0", member: value})])
        (tmp_path / f"{name}.lock").write_text(locked(tape), "utf-8")
    done = run([*MCP_TAPE, "diff", str(tmp_path / "old.lock"), str(tmp_path / "new.lock"), "--json"])
    (change,) = comparison(done.stdout)["changes"]
    assert (change["path"], change["before"], change["after"]) == (f"$.serverInfo.{member}", "a", "b")


def test_what_breaks_clients_is_found(tmp_path: Path) -> None:
    document = json.loads(locked(TIME))
    document["tools"].append({"name": "stop_time", "inputSchema": {"type": "object"}})
    (tmp_path / "mcp.lock").write_text(json.dumps(document, indent=2))
    code, said = breaking(tmp_path / "mcp.lock", TIME)
    assert code == 1 and "stop_time" in said


def test_two_recordings_of_one_server_give_one_lock() -> None:
    legacy, again = json.loads(locked(TIME)), locked(TIME)
    assert json.dumps(legacy, indent=2, ensure_ascii=False) + "\n" == again
    assert "calls" not in legacy and [tool["name"] for tool in legacy["tools"]] == ["convert_time", "get_current_time"]


def test_a_filter_leaves_lists_out(tmp_path: Path) -> None:
    document = json.loads(locked(EVERYTHING, "--filter", "method:tools/list"))
    assert "tools" in document and "prompts" not in document
    assert document["unknown"]["prompts"] == "left out by a filter"


@pytest.mark.parametrize(("text", "hint"), [('{"mcp-tape lock": 99}', "newer"), ('{"mcp-tape lock": 1, ', "not JSON")])
def test_a_lock_that_cannot_be_read_says_why(text: str, hint: str, tmp_path: Path) -> None:
    (tmp_path / "mcp.lock").write_text(text)
    assert lock.is_lock((tmp_path / "mcp.lock").read_bytes())
    with pytest.raises(CassetteError, match=hint):
        lock.load((tmp_path / "mcp.lock").read_bytes(), "mcp.lock")
