"""The documentation on comparing is correct: its recipes run, and its settings, options and rules exist.

The recipes run in a clone of a repository with a cassette of `my-server`, as in CI.
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest

from mcp_tape.cli import cli
from mcp_tape.compare.judging import parse_ignores
from mcp_tape.compare.rule_table import RULES
from mcp_tape.demo import client
from mcp_tape.diff import project
from tests.support import forked
from tests.support.docs import BLOCK, DOCS, ROOT, under
from tests.support.running import record, run

PAGES = [DOCS / f"{name}.md" for name in ("diff", "verify", "reviewing", "ci", "real-diffs", "diff-json", "rules")]
COMPARING = ("diff", "breaking", "verify", "review")
GIT = "git -c user.name=a -c user.email=a@b -c commit.gpgsign=false"
# A read-only tool; the server's next version requires another argument.
SERVER = """#!{python}
import json, sys
extra = {extra}
text = {{name: {{"type": "string"}} for name in ["city", *extra]}}
schema = {{"type": "object", "properties": text, "required": extra}}
tool = {{"name": "look", "inputSchema": schema, "annotations": {{"readOnlyHint": True}}}}
me = {{"name": "my", "version": "1"}}
info = {{"protocolVersion": "2025-11-25", "capabilities": {{"tools": {{}}}}, "serverInfo": me}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        answers = {{"initialize": info, "tools/list": {{"tools": [tool]}}}}
        result = answers.get(asked["method"], {{"content": [{{"type": "text", "text": "sunny"}}]}})
        print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "result": result}}), flush=True)
"""
LOOK = [*client.REQUESTS[:2], ("tools/call", {"name": "look", "arguments": {"city": "Bern"}})]


class Desk(NamedTuple):
    """A clone of a repository, and the programs of two versions of the server."""

    clone: Path
    same: Path
    next: Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    place = tmp_path_factory.mktemp("ci")
    origin, clone = place / "origin", place / "clone"
    same, changed = server(place / "same"), server(place / "next", "country")
    (origin / "tapes").mkdir(parents=True)
    client.play(record(origin / "tapes" / "my-server.db", [str(same / "my-server")], "-q"), requests=LOOK)
    begin = (
        f"git init -q -b main . && git add . && {GIT} commit -q -m tapes && git clone -q . {shlex.quote(str(clone))}"
    )
    assert run(["sh", "-c", begin], cwd=origin).returncode == 0
    return Desk(clone, same, changed)


@pytest.fixture
def desk(made: Desk, tmp_path: Path) -> Iterator[Desk]:
    """A fresh clone; each recipe may leave files there."""
    yield made
    assert run(["sh", "-c", "git checkout -q . && git clean -qfd"], cwd=made.clone).returncode == 0


def server(directory: Path, *required: str) -> Path:
    directory.mkdir()
    program = directory / "my-server"
    program.write_text(SERVER.format(python=sys.executable, extra=list(required)), "utf-8")
    program.chmod(0o755)
    return directory


def tried(recipe: str, desk: Desk, programs: Path, **more: str) -> subprocess.CompletedProcess[bytes]:
    """A recipe, run as GitHub's runners do."""
    path = os.pathsep.join([str(programs), forked.scripts(), str(Path(sys.executable).parent), os.environ["PATH"]])
    known = {"PATH": path, "CI": "true", "GITHUB_BASE_REF": "main", "GITHUB_STEP_SUMMARY": str(desk.clone / "summary")}
    return run(["bash", "-e", "-o", "pipefail", "-c", recipe], cwd=desk.clone, env=os.environ | known | more)


def recorded_anew(desk: Desk, programs: Path, name: str = "my-server") -> None:
    tape = desk.clone / "tapes" / f"{name}.db"
    tape.unlink(missing_ok=True)
    client.play(record(tape, [str(programs / "my-server")], "-q"), requests=LOOK)


def recipes(title: str, key: str, page: str = "ci.md") -> list[str]:
    """The commands in YAML under a heading of a page, except those that install."""
    yaml = pytest.importorskip("yaml")  # comes with pytest-recording
    found = BLOCK.finditer(under(page, title))
    blocks = [yaml.safe_load(block["text"]) for block in found if block["language"] == "yaml"]
    commands = [command for found in valued(blocks, key) for command in (found if isinstance(found, list) else [found])]
    assert commands
    return [command for command in commands if not command.startswith("pip install ")]


def valued(value: Any, key: str) -> Iterator[Any]:
    """The values of a key, at any depth."""
    if isinstance(value, dict):
        if key in value:
            yield value[key]
        for inner in value.values():
            yield from valued(inner, key)
    if isinstance(value, list):
        for inner in value:
            yield from valued(inner, key)


@pytest.mark.slow
def test_the_recipe_that_verifies_annotates_breaking_changes_and_writes_reports(desk: Desk) -> None:
    (verify,) = recipes("Any command in a job", "run")
    assert tried(verify, desk, desk.same).returncode == 0
    done = tried(verify, desk, desk.next)
    assert done.returncode == 1
    assert b"::error title=input-required-property-added%3A tool look,file=tapes/my-server.db::" in done.stdout
    assert "**input-required-property-added** `tool look`" in (desk.clone / "summary").read_text("utf-8")
    assert json.loads((desk.clone / "contract.sarif").read_text("utf-8"))["runs"][0]["results"]
    assert not list(desk.clone.rglob("*.new"))


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize(("version", "code", "failed"), [("same", 0, []), ("next", 1, ["look"])])
def test_the_recipe_for_junit_has_a_test_for_each_that_changed(
    desk: Desk, version: str, code: int, failed: list[str]
) -> None:
    (verify,) = recipes("JUnit", "script")
    assert tried(verify, desk, getattr(desk, version)).returncode == code
    cases = ET.parse(desk.clone / "contract.xml").getroot().findall("./testsuite/testcase")
    assert cases
    assert [case.get("name") for case in cases if case.find("failure") is not None] == failed


@pytest.mark.slow
def test_the_pre_commit_hook_stops_a_commit_that_breaks(desk: Desk) -> None:
    (entry,) = recipes("pre-commit", "entry")
    *_, files = recipes("pre-commit", "files")
    tapes = ["tapes/another.db", "tapes/my-server.db"]
    assert all(re.search(files, tape) for tape in tapes)
    recorded_anew(desk, desk.same, "another")
    hook = shlex.join(shlex.split(entry))  # pre-commit splits it as a shell does
    assert tried(hook, desk, desk.same).returncode == 0
    recorded_anew(desk, desk.next)
    done = tried(hook, desk, desk.same)
    assert (done.returncode, b"input-required-property-added" in done.stdout) == (1, True)
    (desk.clone / ".mcp-tape-ignore").write_text("input-required-property-added tool look\n", "utf-8")
    assert tried(hook, desk, desk.same).returncode == 0


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("key", ["run", "entry"])
def test_the_recipes_that_check_a_lock_fail_at_breaking_changes(desk: Desk, key: str) -> None:
    (check,) = recipes("In CI and before a commit", key, "lock.md")
    assert tried("mcp-tape lock -o mcp.lock -- my-server", desk, desk.same).returncode == 0
    assert tried(check, desk, desk.same).returncode == 0
    done = tried(check, desk, desk.next)
    assert done.returncode == 1 and b"input-required-property-added" in done.stdout


@pytest.mark.slow
def test_the_exit_codes_are_those_of_the_page(desk: Desk) -> None:
    told = dict(re.findall(r"^\| (\d) \| (.+) \|$", under("ci.md", "Exit codes"), flags=re.M))
    assert sorted(told) == ["0", "1", "2", "3", "4"]
    tape = "tapes/my-server.db"
    for code, command in {
        0: f"mcp-tape verify {tape} -- my-server",
        1: f"mcp-tape verify {tape} --fail-on never -- true",
        2: f"mcp-tape verify {tape} --allow-writes --skip-writes -- my-server",
        3: f"mcp-tape breaking {tape} nothing.db",
        4: f"mcp-tape verify {tape} -- nothing-of-that-name",
    }.items():
        assert tried(command, desk, desk.same).returncode == code, command


@pytest.mark.slow
def test_a_review_by_options_does_the_same_as_on_the_page(desk: Desk) -> None:
    """Rejecting leaves the cassette unchanged; if everything is accepted, the new recording replaces it."""
    tape, new, ignored = (
        desk.clone / name for name in ("tapes/my-server.db", "tapes/my-server.db.new", ".mcp-tape-ignore")
    )
    commands = next(block["text"] for block in BLOCK.finditer((DOCS / "reviewing.md").read_text("utf-8"))).splitlines()
    assert [commands[0], commands[-1]] == ["mcp-tape review --list", "mcp-tape review --accept-all"]
    verify = "mcp-tape verify -q tapes/my-server.db -- my-server"
    assert tried(verify, desk, desk.next, CI="").returncode == 1
    before = tape.read_bytes()
    listed = tried(commands[0], desk, desk.next)
    (fingerprint,) = re.findall(rb"input-required-property-added\] +tool look +([0-9a-f]{12})", listed.stdout)
    rejected = tried(f"mcp-tape review --ignore-path {fingerprint.decode()} --reject-all", desk, desk.next)
    assert (listed.returncode, rejected.returncode, tape.read_bytes() == before, new.exists()) == (1, 1, True, False)
    assert "\n$.inputSchema.properties.country tool look  # " in ignored.read_text("utf-8")
    ignored.unlink()
    assert tried(verify, desk, desk.next, CI="").returncode == 1
    assert tried(commands[-1], desk, desk.next).returncode == 0
    assert (tape.read_bytes() == before, new.exists()) == (False, False)
    assert tried(verify, desk, desk.next).returncode == 0


@pytest.mark.slow
def test_updating_reports_the_changes_unless_quiet(desk: Desk) -> None:
    update = "mcp-tape verify -q tapes/my-server.db --update -- my-server"
    assert tried(update, desk, desk.next).returncode == 1
    assert tried(update, desk, desk.next).returncode == 0
    assert tried(update.replace("--update", "--update --fail-on never"), desk, desk.same).returncode == 0


@pytest.mark.slow
def test_a_session_is_named_behind_the_cassette(desk: Desk) -> None:
    done = tried("mcp-tape verify 'tapes/my-server.db#1' -- my-server", desk, desk.same)
    assert (done.returncode, b"tapes/my-server.db#1" in done.stdout) == (0, True)
    assert tried("mcp-tape verify 'tapes/my-server.db#3' -- my-server", desk, desk.same).returncode == 3


def test_the_settings_of_the_page_are_accepted(tmp_path: Path) -> None:
    (text,) = [block["text"] for block in BLOCK.finditer(under("diff.md", "Levels and categories"))]
    (tmp_path / "pyproject.toml").write_text(text, "utf-8")
    settled = project.load(str(tmp_path))
    assert (settled.category, settled.fail_on) == ("call", "warn")
    assert dict(settled.levels) == {"tool-description-changed": "info", "call-added": None}
    assert settled.ignore_paths == ("$.result.structuredContent.uptime",)


def test_every_ignore_line_on_the_page_hides_its_changes() -> None:
    (text,) = [block["text"] for block in BLOCK.finditer(under("diff.md", "Accepting a change"))]
    assert [line.text for line in parse_ignores(text, "").lines] == [
        line.partition("#")[0].strip() for line in text.splitlines()
    ]


def options(command: str) -> set[str]:
    found = cli.get_command(click.Context(cli), command)
    assert found is not None, command
    return {flag for option in found.params for flag in option.opts} | {"--help"}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.name)
def test_every_option_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text("utf-8").replace("\\\n", " ")
    if page.name == "README.md":
        text = text.partition("## What changed\n")[2].partition("\n## ")[0]
    for command, words in re.findall(r"mcp-tape (\w+)((?: (?!-- )[^\s`|>;]+)*)", text):
        if command in {*COMPARING, "record", "replay", "show"}:
            assert set(re.findall(r"(?<!\S)--[a-z-]+", words)) <= options(command), f"{command}{words}"
    known = set().union(*map(options, COMPARING))
    assert set(re.findall(r"`(--[a-z][a-z-]*)", text)) <= known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_rule_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    named = re.findall(r"^(?:error|warn|info) +\[([a-z-]+)\]", text, flags=re.M)
    sections = {rule.partition("-")[0] for rule in RULES}
    named += [name for name in re.findall(r"`([a-z]+(?:-[a-z]+)+)`", text) if name.partition("-")[0] in sections]
    assert set(named) <= set(RULES)


def test_the_pages_name_rules_at_all() -> None:
    text = "".join(page.read_text("utf-8") for page in PAGES if page.name != "rules.md")
    assert sum(rule in text for rule in RULES) > 10


def test_the_page_of_the_rules_is_made_from_the_table() -> None:
    rules = runpy.run_path(str(DOCS / "make_rules.py"))
    assert rules["PAGE"].read_text("utf-8") == rules["page"](), "run: python docs/make_rules.py"


@pytest.mark.parametrize("name", ["git", "filesystem", "everything", "time"])
def test_the_real_changes_on_the_page_are_in_the_recorded_output(name: str) -> None:
    shown = (DOCS / "examples" / "pairs" / f"{name}.txt").read_text("utf-8")
    title = re.search(rf"^## (.*{name}.*)$", (DOCS / "real-diffs.md").read_text("utf-8"), flags=re.M)
    assert title
    blocks = [block["text"] for block in BLOCK.finditer(under("real-diffs.md", title[1]))]
    assert blocks
    lines = {" ".join(line.split()) for line in shown.splitlines()}
    assert {" ".join(line.split()) for block in blocks for line in block.splitlines()} <= lines
