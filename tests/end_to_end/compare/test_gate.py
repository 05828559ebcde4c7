"""Releases that pass the gate and those that do not: exit codes of diff, breaking and verify on small servers.

A server here is a replayed tape.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.diffs import Talk, call, hello, listing, taped, tool
from tests.support.many import comparison, findings
from tests.support.running import MCP_TAPE, run

FEW: Talk = [hello(), listing("tools/list", tool("t")), call()]
MORE: Talk = [
    hello(capabilities={"tools": {}, "resources": {}, "prompts": {}}),
    listing("tools/list", tool("t")),
    call(),
    listing("resources/list", {"uri": "a:1", "name": "one"}, nextCursor="2"),
    listing("resources/list", {"uri": "a:2", "name": "two"}, cursor="2"),
    listing("resources/templates/list"),
    listing("prompts/list", {"name": "greet"}),
]


def mcp_tape(place: Path, *words: str, code: int = 0) -> str:
    done = run([*MCP_TAPE, *words], cwd=place, env=os.environ | {"CI": "1"})
    assert done.returncode == code, (done.stdout.decode(), done.stderr.decode())
    return done.stdout.decode()


def server(place: Path, talk: Talk) -> list[str]:
    """The command of a server that replays a talk."""
    return ["--", *MCP_TAPE, "replay", "-q", str(taped(place / "server.db", talk))]


def found(place: Path, *words: str) -> list[dict[str, Any]]:
    printed = mcp_tape(place, "diff", "--json", "--fail-on", "never", *words)
    value: list[dict[str, Any]] = comparison(printed)["changes"]
    return value


@pytest.fixture
def old(tmp_path: Path) -> str:
    return taped(tmp_path / "old.db", FEW).name


# Several reports of one run --------------------------------------------------------------------------------


@pytest.mark.slow
def test_one_run_writes_several_reports(tmp_path: Path, old: str) -> None:
    new = taped(tmp_path / "new.db", [hello(), listing("tools/list"), call()]).name
    asked = ["json=rows.jsonl", "markdown=report.md", "junit=report.xml", "sarif=report.sarif", "html=report.html"]
    (tmp_path / "report.md").write_text("older")
    words = [word for one in asked for word in ("--also", one)]
    printed = mcp_tape(tmp_path, "breaking", old, new, "--format", "github", *words, code=1)
    assert printed.startswith("::error title=tool-removed")
    (row,) = map(json.loads, (tmp_path / "rows.jsonl").read_text().splitlines())
    assert row["counts"]["error"] == 1
    sarif = json.loads((tmp_path / "report.sarif").read_text())
    assert sarif["runs"][0]["results"][0]["ruleId"] == "tool-removed"
    for form, name in (("markdown", "report.md"), ("html", "report.html")):
        assert (tmp_path / name).read_text("utf-8") == mcp_tape(
            tmp_path, "breaking", old, new, "--format", form, code=1
        )
    assert 'name="mcp-tape.code" value="1"' in (tmp_path / "report.xml").read_text("utf-8")


@pytest.mark.parametrize("wrong", ["text=a", "markdown", "markdown=", "=a"])
def test_a_further_report_needs_a_format_and_a_file(tmp_path: Path, old: str, wrong: str) -> None:
    done = run([*MCP_TAPE, "diff", old, old, "--also", wrong], cwd=tmp_path)
    assert done.returncode == 2
    assert (
        f"{wrong!r} is not FORMAT=FILE; the formats: json, markdown, github, html, junit, sarif" in done.stderr.decode()
    )


# Additions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("verify", "--allow-writes"), ("breaking",)], ids=lambda words: words[0])
@pytest.mark.slow
def test_a_server_that_gains_a_capability_passes(tmp_path: Path, old: str, words: tuple[str, ...]) -> None:
    command, *options = words
    said = mcp_tape(tmp_path, command, old, *options, "--level", "info", *server(tmp_path, MORE))
    assert "UNKNOWN resources" not in said and "error" not in said
    assert "capability-added" in said


@pytest.mark.slow
def test_a_live_server_is_asked_for_every_list_that_it_declares_to_its_end(tmp_path: Path, old: str) -> None:
    come = {change["subject"]["name"] for change in found(tmp_path, old, *server(tmp_path, MORE))}
    assert {"a:1", "a:2", "greet"} <= come


@pytest.mark.slow
def test_never_means_never_unless_nothing_was_compared(tmp_path: Path, old: str) -> None:
    broken: Talk = [hello(capabilities={}), call(error={"code": -32602, "message": "gone"})]
    never = ("verify", old, "--allow-writes", "--fail-on", "never")
    assert "tool-removed" in mcp_tape(tmp_path, *never, *server(tmp_path, broken))
    mcp_tape(tmp_path, "verify", old, "--skip-writes", "--fail-on", "never", *server(tmp_path, FEW), code=1)


WARY = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    params = asked["params"]
    if asked["method"] == "server/discover" and "modern" not in sys.argv:
        answer = {"error": {"code": -32601, "message": "no"}}
    else:
        client = params.get("capabilities") or params.get("_meta", {}).get("io.modelcontextprotocol/clientCapabilities")
        known = globals().setdefault("first", client)
        answer = {"result": {
            "protocolVersion": "2025-11-25", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ["add", *known]],
        }}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"]} | answer), flush=True)
"""
CLIENT = {"sampling": {}, "elicitation": {"form": {}}}
ERAS = {
    "legacy": [("initialize", {"protocolVersion": "2025-11-25", "capabilities": CLIENT})],
    "modern": [("server/discover", {"_meta": {"io.modelcontextprotocol/clientCapabilities": CLIENT}})],
}


@pytest.mark.parametrize("form", ["db", "lock"])
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.slow
def test_a_live_server_is_asked_as_the_recorded_client_asked(tmp_path: Path, era: str, form: str) -> None:
    server = [sys.executable, "-c", WARY, era]
    requests = [*ERAS[era], ("tools/list", ERAS[era][0][1])]
    lines = [json.dumps({"jsonrpc": "2.0", "id": n, "method": m, "params": p}) for n, (m, p) in enumerate(requests)]
    run([*MCP_TAPE, "record", "-q", "-o", str(tmp_path / "tape.db"), "--", *server], "\n".join(lines).encode() + b"\n")
    mcp_tape(tmp_path, "lock", "tape.db", "-o", "tape.lock")
    said = mcp_tape(tmp_path, "breaking", f"tape.{form}", "--", *server)
    assert "compared: 3 tools" in said and said.endswith("It breaks no client\n")


CURIOUS = """
import json, sys
QUESTIONS = {"initialize": "roots/list", "tools/list": "sampling/createMessage", "prompts/list": "elicitation/create"}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] in QUESTIONS:
        print(json.dumps({"jsonrpc": "2.0", "id": "q", "method": QUESTIONS[asked["method"]], "params": {}}), flush=True)
        answer = json.loads(sys.stdin.readline())
        if answer.get("error", {}).get("code") == -32601:
            sys.exit("declared, and not known: " + line)
    result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "prompts": {}}, "tools": [], "prompts": []}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.mark.slow
def test_a_live_server_that_asks_its_client_before_it_answers_is_compared(tmp_path: Path) -> None:
    client: dict[str, Any] = {"roots": {}, "sampling": {}, "elicitation": {}}
    lists = [listing("tools/list"), listing("prompts/list")]
    greeting = hello(capabilities={"tools": {}, "prompts": {}}, client=client)
    taped(tmp_path / "old.db", [greeting, *lists])
    assert "It breaks no client" in mcp_tape(tmp_path, "breaking", "old.db", "--", sys.executable, "-c", CURIOUS)


# Output ----------------------------------------------------------------------------------------------------

NEEDY = {"type": "object", "properties": {"pageId": {"type": "string"}}, "required": ["pageId"]}
NAMES = ("a", "b", "c", "d", "e", "f")


@pytest.fixture
def broken(tmp_path: Path) -> list[str]:
    """Six tools with a new required argument, and one new tool."""
    taped(tmp_path / "old.db", [hello(), listing("tools/list", *map(tool, NAMES))])
    needy = [tool(name, inputSchema=NEEDY) for name in NAMES]
    taped(tmp_path / "new.db", [hello(), listing("tools/list", *needy, tool("more", description="More."))])
    return ["old.db", "new.db"]


@pytest.mark.slow
def test_breaking_shows_the_changes_that_count_and_its_verdict_last(tmp_path: Path, broken: list[str]) -> None:
    lines = mcp_tape(tmp_path, "breaking", *broken, code=1).splitlines()
    assert "tool-added" not in "".join(lines)
    assert lines[-2:] == ["Not shown: 2 info; to see them: --level info", "It can break clients: 6 errors"]
    assert "[tool-added]" in mcp_tape(tmp_path, "breaking", *broken, "--level", "info", code=1)
    assert mcp_tape(tmp_path, "breaking", "old.db", "old.db").splitlines()[-1] == "It breaks no client"


@pytest.mark.slow
def test_the_same_change_of_many_tools_is_one_group(tmp_path: Path, broken: list[str]) -> None:
    shown = mcp_tape(tmp_path, "breaking", *broken, code=1)
    assert shown.count("new required property") == 1
    assert "the same in tool b " in shown and "and 2 more; to see all: --full" in shown
    assert mcp_tape(tmp_path, "breaking", *broken, "--full", code=1).count("new required property") == 6


@pytest.mark.slow
def test_only_one_rule_is_looked_for(tmp_path: Path, broken: list[str]) -> None:
    only = ("--only", "tool-added")
    assert {one["rule"] for one in found(tmp_path, *broken, *only)} == {"tool-added"}
    mcp_tape(tmp_path, "breaking", *broken, *only)
    assert "there is no rule" in run([*MCP_TAPE, "diff", *broken, "--only", "nonsense"], cwd=tmp_path).stderr.decode()


@pytest.mark.slow
def test_a_level_hides_lesser_changes_and_keeps_the_exit_code(tmp_path: Path, broken: list[str]) -> None:
    levels = {one["level"] for one in found(tmp_path, *broken, "--level", "error")}
    assert levels == {"error"}
    mcp_tape(tmp_path, "diff", *broken, "--level", "error", "--fail-on", "info", code=1)


def test_unused_lines_are_reported_in_one_sentence(tmp_path: Path, broken: list[str]) -> None:
    (tmp_path / ".mcp-tape-ignore").write_text("".join(f"tool-removed tool gone{n}\n" for n in range(9)))
    shown = mcp_tape(tmp_path, "diff", *broken, code=1)
    assert shown.count("unused here") == 1 and "9 lines of .mcp-tape-ignore unused here: " in shown


@pytest.mark.slow
def test_a_line_that_one_of_several_cassettes_uses_is_not_called_unused(tmp_path: Path, broken: list[str]) -> None:
    taped(tmp_path / "same.db", FEW)
    ignored = [f"capability-added {name}\n" for name in ("server", "tool nobody")]
    (tmp_path / ".mcp-tape-ignore").write_text("".join(ignored))
    done = run(
        [*MCP_TAPE, "verify", "--allow-writes", "same.db", "same.db", *server(tmp_path, MORE)],
        cwd=tmp_path,
        env=os.environ | {"CI": "1"},
    )
    assert done.stderr.count(b"tool nobody") == 1 and b"unused" not in done.stdout
    assert b"capability-added server" not in done.stderr


# A revision of git --------------------------------------------------------------------------------------

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
GONE: Talk = [hello(), listing("tools/list", tool("other", description="Another one.")), call("other")]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with cassettes on its main branch."""
    (tmp_path / "tapes").mkdir()
    for name, talk in (("a", FEW), ("b", [*FEW, call(n=2)])):
        taped(tmp_path / "tapes" / f"{name}.db", talk)
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run([*GIT, *words], cwd=tmp_path, check=True)
    return tmp_path


def based(place: Path, *words: str, code: int = 0) -> tuple[str, str]:
    done = run([*MCP_TAPE, "breaking", "--base", "main", *words], cwd=place)
    assert done.returncode == code, (done.stdout.decode(), done.stderr.decode())
    return done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize("paths", [["tapes"], ["tapes/a.db", "tapes/b.db"], ["."]], ids=" ".join)
@pytest.mark.slow
def test_every_cassette_is_compared_with_its_old_version(repository: Path, paths: list[str]) -> None:
    out, _ = based(repository, *paths)
    assert out.count("no changes") == 2 and "tapes/a.db: " in out
    (repository / "tapes" / "b.db").unlink()
    taped(repository / "tapes" / "b.db", GONE)
    out, _ = based(repository, *paths, code=1)
    assert "tool-removed" in out and out.count("no changes") == 1


@pytest.mark.slow
def test_the_verdict_on_several_is_not_that_on_the_last(repository: Path) -> None:
    out, err = based(repository, "tapes")
    assert out.endswith("It breaks no client\n") and err == "mcp-tape: 2 cassettes: 2 passed\n"
    (repository / "tapes" / "a.db").unlink()
    taped(repository / "tapes" / "a.db", GONE)
    out, err = based(repository, "tapes", code=1)
    assert out.endswith("It breaks no client\n\ntapes/a.db: It can break clients: 1 error\n")
    assert err == "mcp-tape: 2 cassettes: 1 passed, 1 failed\n"
    assert "Of 2" not in based(repository, "tapes", "--format", "markdown", code=1)[0]
    assert "Of 1" not in based(repository, "tapes/b.db")[0]


@pytest.mark.slow
def test_cassettes_that_are_new_or_renamed_are_named(repository: Path) -> None:
    taped(repository / "tapes" / "c.db", GONE)
    (repository / "tapes" / "a.db").rename(repository / "tapes" / "z.db")
    (repository / "more").mkdir()
    (repository / "tapes" / "b.db").unlink()
    taped(repository / "more" / "b.db", GONE)
    out, err = based(repository, ".", code=1)
    assert "new, so it breaks no client: tapes/c.db" in err
    assert "renamed: tapes/a.db → tapes/z.db" in err and "renamed: tapes/b.db → more/b.db" in err
    assert "tool-removed" in out


@pytest.mark.slow
def test_a_cassette_that_is_gone_fails_unless_that_is_meant(repository: Path) -> None:
    (repository / "tapes" / "b.db").unlink()
    out, _ = based(repository, "tapes", code=1)
    assert "UNKNOWN the cassette: NEW: it was removed after main" in out
    assert "it was removed after main, as --allow-gone allows" in based(repository, "tapes", "--allow-gone")[0]


def test_a_comparison_of_nothing_fails(repository: Path) -> None:
    taped(repository / "new.db", FEW)
    _, err = based(repository, "new.db", code=1)
    assert "nothing was compared" in err
    assert "no cassette at none" in based(repository, "none", code=3)[1]


@pytest.mark.parametrize("form", ["text", "junit", "sarif", "json", "markdown", "github"])
@pytest.mark.slow
def test_a_cassette_that_cannot_be_read_hides_no_other(repository: Path, form: str) -> None:
    (repository / "tapes" / "a.db").write_bytes(b"SQLite format 3\0" + b"x" * 500)
    (repository / "tapes" / "b.db").unlink()
    taped(repository / "tapes" / "b.db", GONE)
    out, err = based(repository, "tapes", "--format", form, code=3)
    assert "tool-removed" in out and "tapes/a.db" in out and "tapes/a.db is a SQLite database" in err
    if form == "text":
        assert out.endswith("tapes/b.db: It can break clients: 1 error\n")


@pytest.mark.parametrize("form", ["junit", "sarif", "github", "json", "markdown", "html"])
@pytest.mark.parametrize(
    "words",
    [
        *("breaking old.db bad.db", "breaking bad.db old.db", "breaking olds bads"),
        *("diff old.db bad.db", "diff bad.db old.db", "diff olds bads", "verify bad.db -- x"),
    ],
)
@pytest.mark.slow(quick=6)
def test_one_pair_that_cannot_be_read_is_in_the_document_as_one_of_many_is(
    tmp_path: Path, old: str, words: str, form: str
) -> None:
    (tmp_path / "bad.db").write_bytes((tmp_path / old).read_bytes()[:5000])
    for directory, name in (("olds", old), ("bads", "bad.db")):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "one.db").write_bytes((tmp_path / name).read_bytes())
    command, *rest = words.split()
    said = mcp_tape(tmp_path, command, "--format", form, *rest, code=3)
    assert re.search(r"cannot read (bad|bads.one).db", said)


def test_a_server_that_cannot_be_asked_is_in_the_document(tmp_path: Path, old: str) -> None:
    for command in ("diff", "breaking"):
        (found,) = findings(mcp_tape(tmp_path, command, "--json", old, "--", "no-such-server", code=4))
        assert found["what"] == "server" and "no-such-server" in found["message"]


@pytest.mark.slow
def test_two_directories_are_compared_by_name(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    for name, talk in (("old/a", FEW), ("old/b", FEW), ("new/a", FEW), ("new/b", GONE), ("new/c", FEW)):
        taped(tmp_path / f"{name}.db", talk)
    said = mcp_tape(tmp_path, "breaking", "old", "new", code=1)
    assert said.endswith("new/b.db: It can break clients: 1 error\n")
    (tmp_path / "new" / "b.db").unlink()
    assert "old/b.db: Whether it breaks clients" in mcp_tape(tmp_path, "breaking", "old", "new", code=1)
    assert mcp_tape(tmp_path, "breaking", "old", "new", "--allow-gone").count("It breaks no client") == 3
    assert mcp_tape(tmp_path, "breaking", "old/", *server(tmp_path, FEW)).count("It breaks no client") == 2


def test_a_shallow_clone_fails_with_a_remedy(repository: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    url = f"file://{repository}"
    subprocess.run([*GIT, "switch", "-q", "-c", "work"], cwd=repository, check=True)
    subprocess.run([*GIT, "clone", "-q", "--depth", "1", "--single-branch", url, clone], check=True)
    done = run([*MCP_TAPE, "breaking", "--base", "origin/main", "tapes"], cwd=clone)
    assert (done.returncode, b"fetch-depth: 0" in done.stderr) == (3, True), done.stderr


@pytest.mark.slow
def test_an_annotation_names_a_file_from_the_top_of_the_repository(repository: Path) -> None:
    (repository / "tapes" / "b.db").unlink()
    taped(repository / "tapes" / "b.db", GONE)
    done = run([*MCP_TAPE, "breaking", "--base", "main", "b.db", "--format", "github"], cwd=repository / "tapes")
    assert b",file=tapes/b.db::" in done.stdout
    words = ["breaking", "git:main:tapes/b.db", "../tapes/b.db", "--format", "github"]
    assert b",file=tapes/b.db::" in run([*MCP_TAPE, *words], cwd=repository / "tapes").stdout


@pytest.mark.slow
def test_the_page_of_the_gate_is_that_of_diff(tmp_path: Path, old: str) -> None:
    new = taped(tmp_path / "new.db", MORE).name
    page = mcp_tape(tmp_path, "breaking", old, new, "--format", "html")
    assert page == mcp_tape(tmp_path, "diff", old, new, "--format", "html")
    assert "capability-added" in page and "<script" in page
