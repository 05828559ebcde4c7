"""`mcp-tape lock`: a gate without a client. Servers here are programs of a few lines, and replayed tapes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import provision
from tests.support.diffs import Talk, hello, listing, taped, tool
from tests.support.many import comparison, rows
from tests.support.running import MCP_TAPE, run

# A server with a tool for each capability of its client, and others by its arguments, on a page each.
WARY = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    params, body = asked.get("params", {}), {"error": {"code": -32601, "message": "no"}}
    if asked["method"] == "initialize":
        client = params["capabilities"]
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "wary"}}
        body = {"result": result}
    elif asked["method"] == "tools/list":
        names = sys.argv[1:] + [f"by-{name}" for name in client if name in ("roots", "sampling")]
        at = int(params.get("cursor", 0))
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names[at:at + 1]]}
        body = {"result": result | ({"nextCursor": str(at + 1)} if at + 1 < len(names) else {})}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"]} | body), flush=True)
"""
MODERN = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    body = {"error": {"code": -32601, "message": "no handshake here"}}
    if asked["method"] == "server/discover":
        meta = {"io.modelcontextprotocol/serverInfo": {"name": "modern", "version": "1"}}
        body = {"result": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "_meta": meta}}
    elif asked["method"] == "tools/list" and "_meta" in asked["params"]:
        body = {"result": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"]} | body), flush=True)
"""
ALL = "elicitation,roots,sampling,ui"


def wary(*tools: str) -> list[str]:
    return [sys.executable, "-c", WARY, *tools]


def lock(place: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[bytes]:
    done = run([*MCP_TAPE, "lock", *words], cwd=place, env=os.environ | {"CI": "1"})
    assert done.returncode == code, (done.stdout.decode(), done.stderr.decode())
    return done


def entries(place: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((place / "mcp.lock").read_text())["servers"]
    return found


# Locking ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_lock_made_twice_is_equal_and_holds_all_pages(tmp_path: Path) -> None:
    one, other = (lock(tmp_path, "--", *wary("b", "a", "c")).stdout for _ in range(2))
    entry = json.loads(one)["servers"]["wary"]
    assert one == other and [tool["name"] for tool in entry["tools"]] == ["a", "b", "by-roots", "by-sampling", "c"]
    assert entry["protocol"] == {"asked": "2025-11-25", "answered": ["2025-06-18"]}


@pytest.mark.slow
def test_a_server_is_locked_for_each_capability_that_matters(tmp_path: Path) -> None:
    lock(tmp_path, "-o", "mcp.lock", "--", *wary("a"))
    others = entries(tmp_path)["wary"]["otherClients"]
    assert [(other["client"]["capabilities"], other["tools"]["without"]) for other in others] == [
        ({}, ["by-roots", "by-sampling"]),
        ({"roots": {}}, ["by-sampling"]),
        ({"sampling": {}}, ["by-roots"]),
    ]


@pytest.mark.parametrize("asked", ["none", "roots", "sampling", ALL])
@pytest.mark.parametrize("locked", [None, "none", "roots", ALL])
@pytest.mark.slow
def test_a_question_asked_differently_breaks_nothing(tmp_path: Path, locked: str | None, asked: str) -> None:
    lock(tmp_path, "-o", "mcp.lock", *(["--capabilities", locked] if locked else []), "--", *wary("a"))
    lock(tmp_path, "--check", "mcp.lock", "--", *wary("a"))
    words = [*MCP_TAPE, "lock", "--check", "mcp.lock", "--capabilities", asked, "--json", "--", *wary("a")]
    done = run(words, cwd=tmp_path)
    found = comparison(done.stdout)
    assert found["counts"]["error"] == 0
    assert done.returncode == int(bool(found["unknown"])), "a part that is unknown is no error, and does not pass"
    assert bool(found["unknown"]) is ((locked, asked) == ("roots", "sampling"))
    assert all("ask NEW with the capabilities of OLD" in entry["why"] for entry in found["unknown"])


@pytest.mark.slow
def test_the_reference_server_is_never_called_broken(tmp_path: Path) -> None:
    """Locked as a client with no, one and all capabilities, and checked as each of them: no false errors."""
    server, clients = [str(provision.everything())], ("none", "sampling", ALL)
    for locked in clients:
        path = f"{locked.partition(',')[0]}.lock"
        lock(tmp_path, "-o", path, "--capabilities", locked, "--", *server)
        for asked in (None, *clients):
            more = ["--capabilities", asked] if asked else []
            done = run([*MCP_TAPE, "lock", "--check", path, *more, "--json", "--", *server], cwd=tmp_path)
            found = comparison(done.stdout)
            assert found["counts"]["error"] == 0, (locked, asked, done.stdout)
            assert done.returncode == 0, (locked, asked, found["unknown"])


@pytest.mark.slow
def test_a_server_of_the_modern_era_is_locked_and_checked(tmp_path: Path) -> None:
    server = [sys.executable, "-c", MODERN]
    lock(tmp_path, "-o", "mcp.lock", "--", *server)
    assert entries(tmp_path)["modern"]["protocol"] == {"asked": None, "answered": ["2026-07-28"]}
    assert b"no changes" in lock(tmp_path, "--check", "mcp.lock", "--", *server).stdout


@pytest.mark.slow
def test_a_lock_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    lock(tmp_path, "-o", "mcp.lock", "--", *wary("a"))
    assert b"up to date" in lock(tmp_path, "-o", "mcp.lock", "--", *wary("a")).stderr
    assert b"--update" in lock(tmp_path, "-o", "mcp.lock", "--", *wary("a", "b"), code=2).stderr


@pytest.mark.slow
def test_a_server_that_changes_by_itself_is_reported(tmp_path: Path) -> None:
    fickle = WARY.replace("sys.argv[1:]", "[str(__import__('os').getpid())]")
    assert b"--check will fail with this lock" in lock(tmp_path, "--", sys.executable, "-c", fickle).stderr


# Checking -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_break_fails_and_says_how_to_accept_it(tmp_path: Path) -> None:
    lock(tmp_path, "-o", "mcp.lock", "--", *wary("a", "b"))
    done = lock(tmp_path, "--check", "mcp.lock", "--", *wary("a"), code=1)
    said = done.stdout.decode()
    assert "tool-removed" in said and "It can break clients: 1 error" in said and b"--update" in done.stderr
    accept = next(line for line in said.splitlines() if line.startswith("Accept one: ")).removeprefix("Accept one: ")
    subprocess.run(accept, shell=True, cwd=tmp_path, check=True)
    lock(tmp_path, "--check", "mcp.lock", "--", *wary("a"))


@pytest.mark.slow
def test_an_update_shows_the_changes_and_locks_anew(tmp_path: Path) -> None:
    lock(tmp_path, "-o", "mcp.lock", "--", *wary("a", "b"))
    assert b"tool-removed" in lock(tmp_path, "--check", "mcp.lock", "--update", "--", *wary("a"), code=1).stdout
    assert b"no changes" in lock(tmp_path, "--check", "mcp.lock", "--", *wary("a")).stdout


@pytest.mark.slow
def test_an_update_asks_with_the_capabilities_of_the_lock(tmp_path: Path) -> None:
    lock(tmp_path, "-o", "mcp.lock", "--capabilities", "roots,ui", "--", *wary("a", "b"))
    lock(tmp_path, "--check", "mcp.lock", "--update", "--", *wary("a"), code=1)
    entry = entries(tmp_path)["wary"]
    assert {*entry["client"]["capabilities"]} == {"roots", "extensions"}
    assert [other["client"]["capabilities"] for other in entry["otherClients"]] == [{}]
    lock(tmp_path, "--check", "mcp.lock", "--update", "--capabilities", "none", "--", *wary("a"))
    assert entries(tmp_path)["wary"]["client"] == {"capabilities": {}}


@pytest.mark.slow
def test_an_update_without_a_server_leaves_the_lock_alone(tmp_path: Path) -> None:
    lock(tmp_path, "-o", "mcp.lock", "--", *wary("a"))
    was = (tmp_path / "mcp.lock").read_bytes()
    lock(tmp_path, "--check", "mcp.lock", "--update", "--", "no-such-server", code=4)
    assert (tmp_path / "mcp.lock").read_bytes() == was


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (("--check", "mcp.lock"), 2, "which server?"),
        (("--check", "none.lock", "--", "x"), 3, "mcp-tape lock -o none.lock"),
        (("--check", "tape.db", "--", "x"), 3, "is not a lock"),
        (("--check", "mcp.lock", "--", "no-such-server"), 4, "no-such-server"),
        (("--update", "--", "x"), 2, "--update goes with --check"),
        (("--check", "mcp.lock", "-o", "x.lock", "--", "x"), 2, "either -o"),
        (("--capabilities", "flying", "--", "x"), 2, "is not one of elicitation"),
        (("--header", "a: b", "--", "x"), 2, "--header goes with --url"),
        (("tape.db", "--", "x"), 2, "give one server, not 2"),
        (("-o", "no/such/mcp.lock", "tape.db"), 3, "cannot write"),
        (("--check", "mcp.lock", "--server", "other", "--", "x"), 2, "has no server other; it has: s"),
    ],
)
def test_failures_are_reported(tmp_path: Path, words: tuple[str, ...], code: int, hint: str) -> None:
    taped(tmp_path / "tape.db", [hello(), listing("tools/list", tool("t"))])
    lock(tmp_path, "-o", "mcp.lock", "tape.db")
    done = lock(tmp_path, *words, code=code)
    assert hint in done.stderr.decode() + done.stdout.decode()


# Several servers ----------------------------------------------------------------------------------------------------


def configured(place: Path, **servers: list[str]) -> str:
    entries = {name: {"command": words[0], "args": words[1:]} for name, words in servers.items()}
    (place / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    return "mcp.json"


@pytest.mark.slow
def test_the_servers_of_a_configuration_are_one_lock(tmp_path: Path) -> None:
    config = configured(tmp_path, one=wary("a"), two=wary("b"))
    lock(tmp_path, "-o", "mcp.lock", "--config", config)
    assert [*entries(tmp_path)] == ["one", "two"]
    lock(tmp_path, "--check", "mcp.lock", "--config", config)
    done = lock(tmp_path, "--check", "mcp.lock", "--config", configured(tmp_path, one=wary("a"), two=wary("c")), code=1)
    assert b"mcp.lock#two" in done.stdout and b"It can break clients" in done.stdout
    lock(tmp_path, "--check", "mcp.lock", "--server", "one", "--config", config)


@pytest.mark.slow
def test_a_server_that_is_gone_fails_and_a_new_one_does_not(tmp_path: Path) -> None:
    lock(tmp_path, "-o", "mcp.lock", "--config", configured(tmp_path, one=wary("a"), two=wary("b")))
    done = lock(tmp_path, "--check", "mcp.lock", "--config", configured(tmp_path, one=wary("a"), new=wary("b")), code=1)
    assert b"gone" in done.stdout and b"new is not in mcp.lock" in done.stderr


@pytest.mark.slow
def test_one_server_that_cannot_start_does_not_hide_the_others(tmp_path: Path) -> None:
    lock(tmp_path, "-o", "mcp.lock", "--config", configured(tmp_path, one=wary("a", "b"), two=wary("b")))
    config = configured(tmp_path, one=wary("a"), two=["no-such-server"])
    done = lock(tmp_path, "--check", "mcp.lock", "--config", config, "--json", code=4)
    assert [row["status"] for row in rows(done.stdout)] == ["failed", "unreachable"]


@pytest.mark.slow
def test_one_of_several_is_updated_alone(tmp_path: Path) -> None:
    lock(tmp_path, "-o", "mcp.lock", "--config", configured(tmp_path, one=wary("a"), two=wary("b")))
    lock(tmp_path, "--check", "mcp.lock", "--update", "--server", "two", "--", *wary("b", "c"))
    found = {name: [tool["name"] for tool in entry["tools"]] for name, entry in entries(tmp_path).items()}
    assert found == {"one": ["a", "by-roots", "by-sampling"], "two": ["b", "by-roots", "by-sampling", "c"]}
    assert b"--server NAME" in lock(tmp_path, "--check", "mcp.lock", "--", *wary("b"), code=2).stderr


# As OLD of other commands -------------------------------------------------------------------------------------------

OLD: Talk = [hello(), listing("tools/list", tool("a"), tool("b"))]
NEW: Talk = [hello(), listing("tools/list", tool("a"))]


@pytest.fixture
def locked(tmp_path: Path) -> list[str]:
    """The command of a server that breaks the lock which is there."""
    taped(tmp_path / "tape.db", OLD)
    lock(tmp_path, "-o", "mcp.lock", "tape.db")
    return [*MCP_TAPE, "replay", "-q", str(taped(tmp_path / "server.db", NEW))]


@pytest.mark.parametrize("command", ["diff", "breaking", "verify"])
@pytest.mark.slow
def test_a_lock_is_compared_with_a_live_server(tmp_path: Path, locked: list[str], command: str) -> None:
    done = run([*MCP_TAPE, command, "mcp.lock", "--", *locked], cwd=tmp_path)
    assert done.returncode == 1 and b"tool-removed" in done.stdout, done.stderr


@pytest.mark.slow
def test_reports_point_at_the_line_of_the_lock(tmp_path: Path, locked: list[str]) -> None:
    lines = (tmp_path / "mcp.lock").read_text().splitlines()
    at = next(number for number, line in enumerate(lines, 1) if '"name": "b"' in line)
    words = ["--check", "mcp.lock", "--format"]
    github = lock(tmp_path, *words, "github", "--", *locked, code=1).stdout.decode()
    place = next(line for line in github.splitlines() if "tool-removed" in line)
    number = int(place.partition("line=")[2].partition("::")[0])
    assert ",file=mcp.lock" in place and lines[number - 1].strip() == "{" and 0 < at - number < 5
    sarif = json.loads(lock(tmp_path, *words, "sarif", "--", *locked, code=1).stdout)
    (found,) = [one for one in sarif["runs"][0]["results"] if one["ruleId"] == "tool-removed"]
    where = found["locations"][0]["physicalLocation"]
    assert (where["artifactLocation"]["uri"], where["region"]["startLine"]) == ("mcp.lock", number)
    junit = lock(tmp_path, *words, "junit", "--", *locked, code=1).stdout.decode()
    assert f'file="mcp.lock" line="{number}"' in junit


@pytest.mark.slow
def test_a_cassette_against_a_live_server_is_pointed_at(tmp_path: Path, locked: list[str]) -> None:
    done = run([*MCP_TAPE, "breaking", "tape.db", "--format", "sarif", "--", *locked], cwd=tmp_path)
    places = [one["locations"][0].get("physicalLocation") for one in json.loads(done.stdout)["runs"][0]["results"]]
    assert places and all(place["artifactLocation"]["uri"] == "tape.db" for place in places)


@pytest.mark.slow
def test_locks_of_several_servers_are_compared_by_name(tmp_path: Path) -> None:
    lock(tmp_path, "-o", "mcp.lock", "--config", configured(tmp_path, one=wary("a"), two=wary("b"), gone=wary("c")))
    (tmp_path / "mcp.lock").rename(tmp_path / "old.lock")
    lock(tmp_path, "-o", "mcp.lock", "--config", configured(tmp_path, one=wary("a"), two=wary("x")))
    done = run([*MCP_TAPE, "breaking", "old.lock", "mcp.lock"], cwd=tmp_path)
    said = done.stdout.decode()
    assert done.returncode == 1 and "mcp.lock#two" in said and "mcp.lock#gone" in said and "tool b" in said
    alone = run([*MCP_TAPE, "breaking", "old.lock#one", "mcp.lock#one"], cwd=tmp_path)
    assert alone.returncode == 0, alone.stdout


@pytest.mark.slow
def test_a_lock_is_compared_with_that_of_a_revision(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        who = ["-c", "user.name=n", "-c", "user.email=e@example.com"]
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    lock(tmp_path, "-o", "mcp.lock", "--", *wary("a", "b"))
    (tmp_path / "other.lock").write_text("not ours")
    git("add", "-A")
    git("commit", "-qm", "one")
    lock(tmp_path, "--check", "mcp.lock", "--update", "--", *wary("a"), code=1)
    for words in (["--base", "HEAD", "."], ["--base", "HEAD", "mcp.lock"], ["git:HEAD:mcp.lock", "mcp.lock"]):
        done = run([*MCP_TAPE, "breaking", *words], cwd=tmp_path)
        assert done.returncode == 1 and b"tool-removed" in done.stdout, (words, done.stderr)
