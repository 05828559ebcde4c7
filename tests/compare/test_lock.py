"""Locks: a server's offer as text, to compare a later version with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.compare import lock
from mcp_tape.compare.lock import Lock
from mcp_tape.compare.rule_table import CATEGORIES
from mcp_tape.compare.versions import compare
from mcp_tape.errors import CassetteError
from tests.support.diffs import Talk, hello, listing, surveyed, taped, tool
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


def locked(cassette: Path) -> str:
    done = run([*MCP_TAPE, "lock", str(cassette)])
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def entry_of(text: str) -> Any:
    (entry,) = json.loads(text)["servers"].values()
    return entry


def read(text: str) -> Lock:
    return Lock(text.encode(), "mcp.lock")


def breaking(old: Path, new: Path) -> tuple[int, str]:
    done = run([*MCP_TAPE, "breaking", str(old), str(new)])
    return done.returncode, done.stdout.decode() + done.stderr.decode()


@pytest.mark.parametrize("cassette", [TIME, EVERYTHING], ids=["time", "everything"])
@pytest.mark.slow
def test_a_server_that_stays_the_same_passes(cassette: Path, tmp_path: Path) -> None:
    path = tmp_path / "mcp.lock"
    path.write_text(locked(cassette), "utf-8")
    code, said = breaking(path, cassette)
    assert code == 0 and "It breaks no client" in said
    assert "a lock holds a server's lists, and no calls" in said
    again = Lock(path.read_bytes(), str(path))
    assert lock.dump({name: again.version(name) for name in again.names}) == path.read_text("utf-8")


@pytest.mark.parametrize("category", CATEGORIES)
@pytest.mark.parametrize("talk", [FULL, TALKATIVE], ids=["full", "unsteady"])
def test_nothing_has_changed_against_the_own_lock(talk: Talk, category: str, tmp_path: Path) -> None:
    tape, path = taped(tmp_path / "tape.db", talk), tmp_path / "mcp.lock"
    path.write_text(locked(tape), "utf-8")
    words = [*MCP_TAPE, "diff", str(path), str(tape), "--surface", "--category", category, "--fail-on", "info"]
    done = run(words)
    assert (done.returncode, done.stdout.decode().partition(" ")[0]) == (0, "no"), done.stdout.decode()


@pytest.mark.parametrize("member", ["title", "description", "websiteUrl", "icons"])
@pytest.mark.slow
def test_two_locks_show_that_a_server_presents_itself_otherwise(member: str, tmp_path: Path) -> None:
    for name, value in (("old", "a"), ("new", "b")):
        tape = taped(tmp_path / f"{name}.db", [hello(serverInfo={"name": "s", "version": "1.0", member: value})])
        (tmp_path / f"{name}.lock").write_text(locked(tape), "utf-8")
    done = run([*MCP_TAPE, "diff", str(tmp_path / "old.lock"), str(tmp_path / "new.lock"), "--json"])
    (change,) = comparison(done.stdout)["changes"]
    assert (change["path"], change["before"], change["after"]) == (f"$.serverInfo.{member}", "a", "b")


@pytest.mark.slow
def test_breaking_changes_are_found(tmp_path: Path) -> None:
    document = json.loads(locked(TIME))
    (entry,) = document["servers"].values()
    entry["tools"].append({"name": "stop_time", "inputSchema": {"type": "object"}})
    (tmp_path / "mcp.lock").write_text(json.dumps(document, indent=2))
    code, said = breaking(tmp_path / "mcp.lock", TIME)
    assert code == 1 and "stop_time" in said


def test_a_lock_has_a_fact_a_line_and_is_sorted() -> None:
    text = locked(TIME)
    assert [tool["name"] for tool in entry_of(text)["tools"]] == ["convert_time", "get_current_time"]
    assert all(line.count('": ') <= 1 for line in text.splitlines() if "description" not in line)


def test_invisible_characters_are_shown_as_code_points(tmp_path: Path) -> None:
    shown, hidden = "é, 日 and 🎉", "a\u200bb\u202ec\u2028d\U000e0041e"
    text = locked(taped(tmp_path / "tape.db", [hello(instructions=shown + hidden), listing("tools/list")]))
    assert shown in text and not {"\u200b", "\u202e", "\u2028", "\U000e0041"} & set(text)
    assert entry_of(text)["instructions"] == shown + hidden


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('{"mcp-tape lock": 99}', "newer"),
        ('{"mcp-tape lock": 1, ', "not JSON"),
        ('{"mcp-tape lock": 1}', "without servers"),
        ('{"mcp-tape lock": 1, "servers": {"a": 1}}', "without servers"),
    ],
)
def test_a_lock_that_cannot_be_read_says_why(text: str, hint: str) -> None:
    assert lock.is_lock(text.encode())
    with pytest.raises(CassetteError, match=hint):
        read(text)


def test_a_lock_of_odd_values_is_read() -> None:
    odd = {"server": 1, "tools": [1, {"name": 2}, {"name": "a"}, {"name": "a"}], "otherClients": [1, {"tools": 2}]}
    surface = read(json.dumps({"mcp-tape lock": 1, "servers": {"x": odd}})).version().surface
    assert list(surface.lists["tools/list"].items) == ["a"] and "a" in surface.lists["tools/list"].again


def test_of_several_servers_one_is_named() -> None:
    found = read(lock.dump({"a": surveyed(FULL), "b": surveyed([hello(), listing("tools/list")])}))
    assert found.names == ["a", "b"] and found.version("a").surface.info["title"] == "S"
    with pytest.raises(CassetteError, match=r"several servers: a, b; say which with mcp\.lock#NAME"):
        found.version()
    with pytest.raises(CassetteError, match="has no server c; it has: a, b"):
        found.version("c")


# Other clients ------------------------------------------------------------------------------------------------------


def seen_by(*capabilities: str, **tools: Any) -> Talk:
    client = {name: {} for name in capabilities}
    return [hello(client=client), listing("tools/list", *(tool(name, **more) for name, more in tools.items()))]


def test_the_surface_of_other_clients_is_kept_as_a_difference() -> None:
    whole = surveyed(seen_by("roots", a={}, b={"title": "B"}, c={}))
    bare = surveyed(seen_by(a={}, b={"title": "Other"}, d={}))
    text = lock.dump({"s": whole._replace(others=(bare,))})
    assert entry_of(text)["otherClients"] == [
        {"client": {"capabilities": {}}, "tools": {"without": ["c"], "instead": [tool("b", title="Other"), tool("d")]}}
    ]
    (other,) = read(text).version().others
    assert lock.is_same(other.surface, bare.surface)
    assert lock.dump({"s": read(text).version()}) == text


def test_sides_that_were_asked_alike_are_compared() -> None:
    old = surveyed(seen_by("roots", a={}, b={}))._replace(others=(surveyed(seen_by(a={})),))
    assert not compare(old, surveyed(seen_by(a={})), parts=["surface"]).changes
    gone = compare(old, surveyed(seen_by("sampling", a={})), parts=["surface"])
    assert not gone.changes and "other capabilities" in gone.unknown[0].why and gone.unknown[0].grave


def test_a_removal_for_other_clients_only_is_found_once() -> None:
    old = surveyed(seen_by("roots", a={}, b={}))._replace(others=(surveyed(seen_by(a={}, c={})),))
    new = surveyed(seen_by("roots", b={}))._replace(others=(surveyed(seen_by()),))
    removed = [change for change in compare(old, new).changes if change.is_removal]
    found = {change.subject.name: (change.times, change.note) for change in removed}
    assert found == {"a": (1, ""), "c": (1, "for clients with no capabilities")}


def test_a_change_is_at_the_line_of_the_thing() -> None:
    text = lock.dump({"s": surveyed(FULL)})
    talk = [hello(client={"sampling": {}}, instructions="Be bold."), listing("tools/list", tool("a", description="x"))]
    found, new = read(text), surveyed(talk)
    changes = {change.rule: change for change in compare(found.version(), new, parts=["surface"]).changes}
    lines = {rule: text.splitlines()[found.line("s", change) - 1].strip() for rule, change in changes.items()}
    assert lines["instructions-changed"] == '"instructions": "Be kind.",' and lines["tool-removed"] == "{"
    assert found.line("s", changes["tool-removed"]) > text.splitlines().index('      "tools": [') + 2
