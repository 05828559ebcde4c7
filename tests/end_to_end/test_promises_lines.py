"""Output and exit codes of commands are stable: errors, reports, placeholders of secrets, settings of a project.

To write the golden files again: FREEZE=1 pytest -n 0 tests/end_to_end/test_promises_lines.py
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from mcp_tape.cli import cli
from tests.support.promises import SERVER, Desk, frozen
from tests.support.running import run

NO_SERVER = ["--", "no-such-command-anywhere"]
PAIR = ["old.db", "new.db"]


def message(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0"} | members).encode() + b"\n"


def call(number: int, tool: str, **arguments: Any) -> bytes:
    return message(id=number, method="tools/call", params={"name": tool, "arguments": arguments})


HELLO = message(
    id=0,
    method="initialize",
    params={"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
)
LIST = message(id=1, method="tools/list")
RULES = """
def fail(text):
    assert "anything" not in text
    return text

def stars(text):
    return text.replace("secret", "***")
"""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """With recordings of the demo's server and its next version, and files that are not cassettes."""
    desk = Desk(tmp_path)
    assert run(["git", "init", "-q"], cwd=tmp_path, env=desk.environ).returncode == 0
    desk.take("demo.db", "time.db")
    desk.write("notes.txt", "hello\n")
    desk.write(".mcp.json", '{"mcpServers": {"a": {"command": "x"}, "b": {"url": "https://e.com/${OF_CLIENT}"}}}')
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE t (a)").connection.close()
    for name, words in {"old.db": SERVER, "new.db": [*SERVER, "next"]}.items():
        assert desk.run("record", "-q", "-o", name, "--", *words, stdin=HELLO + LIST).returncode == 0
    return desk


# Exit codes ---------------------------------------------------------------------------------------------

READERS = ["show", "why", "stats", "convert", "check", "replay", "redact"]
COMMANDS: list[list[str]] = [
    # Clean.
    ["ls", "demo.db"],
    ["ls", "."],
    ["show", "demo.db"],
    ["show", "demo.db", "1"],
    ["stats", "demo.db"],
    ["why", "demo.db"],
    ["search", "demo.db", "Bern"],
    ["query", "demo.db", "SELECT 1"],
    ["mcp", "demo.db"],
    ["convert", "demo.db", "--to", "md"],
    ["convert", "demo.db", "--to", "raw", "--side", "client"],
    ["convert", "--to", "txt", "demo.db"],
    ["check", "demo.db"],
    ["check", "demo.db", "--jobs", "1"],
    ["redact", "demo.db", "--dry-run"],
    ["redact", "demo.db", "time.db", "--dry-run", "--jobs", "1"],
    ["merge", "demo.db", "time.db", "-o", "merged.db"],
    ["rm", "merged.db", "--session", "1"],
    ["edit", "merged.db", "--editor", "true"],
    ["git-setup"],
    ["git-setup", "--undo"],
    ["diff", "--rules"],
    ["diff", "old.db", "old.db"],
    ["diff", *PAIR, "--fail-on", "never"],
    ["breaking", "old.db", "old.db"],
    ["lock", "old.db"],
    ["lock", "--check", "notes.txt", "old.db"],
    ["lock", "old.db", "--", "no-such-command-anywhere"],
    ["verify", "old.db", *["--", *SERVER]],
    ["review"],
    ["wrap", "--list"],
    ["doctor", "demo.db"],
    ["schema", "row"],
    ["schema", "rows"],
    ["wrap", "a"],
    ["wrap", "a"],
    ["wrap", "a", "--undo"],
    ["wrap", "--undo"],
    # A finding, or none.
    ["search", "demo.db", "nowhere"],
    ["diff", *PAIR],
    ["breaking", *PAIR],
    ["verify", "old.db", "--no-keep", "--", *SERVER, "next"],
    ["verify", "demo.db", "--", *SERVER],
    ["wrap", "b"],
    ["wrap", "nobody"],
    ["doctor", "claude-code"],
    ["doctor", "notes.txt"],
    # Wrong usage.
    ["wrap"],
    ["doctor", "nobody"],
    ["convert", "demo.db", "--to", "raw"],
    ["record"],
    ["record", "--redact-path", "pin", "--", "x"],
    ["replay", "demo.db", "--fault", "tools/call=http:999"],
    ["use", "demo.db", "--listen", "127.0.0.1:0"],
    ["show", "demo.db", "--filter", "nonsense:1"],
    ["diff", "old.db"],
    ["verify", "old.db"],
    ["merge", "demo.db", "-o", "merged.db"],
    ["convert", "notes.txt", "merged.db"],
    ["convert", "demo.db", "merged.db"],
    ["convert", "demo.db", "merged"],
    ["check", "demo.db", "--shard", "5/4"],
    ["merge-reports", "none.json"],
    ["merge-reports", "notes.txt"],
    # The cassette cannot be read, or written.
    *[[command, "none.db"] for command in READERS],
    *[[command, "notes.txt"] for command in READERS],
    ["show", "other.db"],
    ["ls", "none.db"],
    ["mcp", "none.db"],
    ["view", "none.db"],
    ["search", "none.db", "word"],
    ["query", "none.db", "SELECT 1"],
    ["query", "demo.db", "SELECT"],
    ["query", "demo.db", "DELETE FROM facts"],
    ["show", "demo.db", "--session", "99"],
    ["show", "demo.db", "999"],
    ["replay", "demo.db", "--session", "99"],
    ["rm", "demo.db", "--session", "99"],
    ["edit", "none.db", "--editor", "true"],
    ["merge", "none.db", "-o", "more.db"],
    ["convert", "none.jsonl", "more.db"],
    ["convert", "none.db", "more.jsonl"],
    ["convert", "notes.txt", "more.jsonl"],
    ["convert", "notes.txt", "more.db"],
    ["diff", "none.db", "new.db"],
    ["diff", "old.db", "new.db#7"],
    ["breaking", "old.db", "notes.txt"],
    ["verify", "none.db", "--", *SERVER],
    ["review", "none.db"],
    ["check", "demo.db", "none.db", "--jobs", "1"],
    ["redact", "demo.db", "none.db", "--dry-run"],
    ["lake", "none.db", "lake"],
    ["use", "-q", "none.db", "--mode", "none"],
    ["record", "-q", "-o", "notes.txt", "--", "cat"],
    ["show", "http://example.com/tape.db"],
    ["rm", "s3://team/tape.db", "--session", "1"],
    ["push", "demo.db", "https://example.com/tapes"],
    ["pull", "s3://", "here"],
    # The server cannot be started.
    ["record", "-q", "-o", "more.db", *NO_SERVER],
    ["use", "-q", "more.db", *NO_SERVER],
    ["diff", "old.db", *NO_SERVER],
    ["verify", "old.db", *NO_SERVER],
]


def test_every_command_has_an_exit_code_here() -> None:
    assert {words[0] for words in COMMANDS} == set(cli.list_commands(click.Context(cli))) - {"demo"}


def test_exit_codes_and_the_first_line_of_errors_stay(desk: Desk) -> None:
    frozen("exit-codes.txt", "\n".join(desk.entry(words, first_line=True) for words in COMMANDS))


# Reports ------------------------------------------------------------------------------------------------


def reports(desk: Desk) -> Iterator[str]:
    """The output of record, replay and use, in good cases and bad ones."""
    record = ["record", "-o", "tape.db", "--", *SERVER]
    yield desk.entry(record, HELLO + LIST)
    yield desk.entry(["record", "-q", *record[1:]], HELLO + LIST)
    yield desk.entry(record, HELLO + message(id=7, method="x", params={"password": "not-a-real-one-4711"}))
    yield desk.entry(record)
    yield desk.entry(["record", "-o", "tape.db", "--", "python", "seven.py"])
    yield desk.entry(
        ["record", "-o", "tape.db", "--redact-with", "rules:fail", "--", "cat"], message(method="anything")
    )
    report = ["--report", "report.jsonl"]
    replay = ["replay", "demo.db", *report]
    basel = call(2, "forecast", city="Basel")
    yield desk.entry(replay[:2], LIST)
    yield desk.entry([*replay[:2], "-q"], LIST)
    yield desk.entry(replay, LIST)
    yield desk.entry([*replay, "--strict"], LIST + basel + message(id=3, result={}))
    yield desk.entry([*replay, "-q"], basel)
    yield desk.entry([*replay, "--fault", "tools/list=error:-32000"], LIST)
    yield desk.entry(["replay", "none.db", *report])
    yield desk.entry(["use", "used.db", "--mode", "none", *report], HELLO)
    for mode in ("once", "once", "new_episodes", "all", "rewrite"):
        yield desk.entry(["use", "used.db", "--mode", mode, *report, "--", *SERVER], HELLO + LIST)
    grown = HELLO + call(2, "a") + LIST
    yield desk.entry(["use", "used.db", "--mode", "new_episodes", *report, "--", *SERVER], grown)
    yield desk.entry(["use", "used.db", "--mode", "rewrite", *report, *NO_SERVER], HELLO)
    yield desk.entry(["use", "used.db", "--mode", "once", "-q", *report, "--", *SERVER], HELLO + LIST)


def test_the_lines_of_record_replay_and_use_stay(desk: Desk) -> None:
    desk.write("rules.py", RULES)
    desk.write("seven.py", "import sys\nsys.stdin.read()\nsys.exit(7)\n")
    frozen("reports.txt", "\n".join(reports(desk)))
    rows = [json.loads(line) for line in (desk.place / "report.jsonl").read_text("utf-8").splitlines()]
    assert all(isinstance(row.pop("pid"), int) and next(iter(row)) == "run" for row in rows)
    frozen("reports.jsonl", desk.plain("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()))


def test_the_warning_about_a_stripped_environment_stays(desk: Desk) -> None:
    desk.environ = {name: desk.environ[name] for name in ("HOME", "PATH")}
    told = desk.run("record", "-o", "tape.db", "--", "cat").stderr
    frozen("stripped.txt", desk.plain(told).replace("LC_CTYPE, ", ""))  # Python may set it itself


# Secrets ------------------------------------------------------------------------------------------------

HIDDEN: dict[str, tuple[list[str], dict[str, str]]] = {
    "key": ([], {"api_key": "not-a-real-one-4711"}),
    "key, again": ([], {"text": "not-a-real-one-4711"}),
    "own key": (["--redact-key", "Pin-Code"], {"Pin-Code": "90210"}),
    "env": ([], {"text": "deploy with not-a-real-one-0815"}),
    "env file": (["--env-file", "secrets.env"], {"text": "deploy with not-a-real-one-1234"}),
    "shape": ([], {"text": "token ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6" + " is it"}),
    "value": (["--redact-value", "C-[0-9]+"], {"text": "customer C-4711"}),
    "path": (["--redact-path", "$.params.pin"], {"pin": "1234"}),
    "function": (["--redact-with", "rules:stars"], {"text": "my secret word"}),
    "failed": (["--redact-with", "rules:fail"], {"text": "anything"}),
}


def test_the_placeholders_of_secrets_stay(desk: Desk) -> None:
    desk.write("rules.py", RULES)
    desk.write("secrets.env", "OTHER_TOKEN=not-a-real-one-1234\n")
    desk.environ |= {"ACME_TOKEN": "not-a-real-one-0815"}
    options = [word for words, _ in HIDDEN.values() for word in words]
    asked = [message(id=n, method=what, params=params) for n, (what, (_, params)) in enumerate(HIDDEN.items())]
    done = desk.run("record", "-q", "-o", "tape.db", *options, "--", "cat", stdin=b"".join(asked))
    assert done.returncode == 0
    frozen("placeholders.jsonl", desk.run("convert", "tape.db", "--to", "raw", "--side", "client").stdout.decode())


# Settings of a project ----------------------------------------------------------------------------------

FULL = """[tool.mcp-tape]
category = "model"
fail-on = "info"
ignore-paths = ["$.serverInfo"]
[tool.mcp-tape.levels]
input-required-property-added = "warn"
"""
SETTINGS = [
    FULL,
    "[tool.mcp-tape]\nnonsense = 1\n",
    "[tool.mcp-tape]\ncategory = 'nonsense'\n",
    "[tool.mcp-tape]\nfail-on = 'nonsense'\n",
    "[tool.mcp-tape]\nignore-paths = 'nonsense'\n",
    "[tool.mcp-tape]\nlevels = 'nonsense'\n",
    "[tool.mcp-tape.levels]\nnonsense = 'off'\n",
    "[tool.mcp-tape.levels]\ninput-required-property-added = 'nonsense'\n",
]
LINES = [
    "d9b98811e3aa  # by its fingerprint",
    "input-required-property-added tool forecast",
    "input-required-property-added tool fore*",
    "$.inputSchema..days",
    "$.inputSchema tool forecast",
    "tool-removed tool gone  # not used",
    "# nothing but a reason",
    "nonsense tool forecast",
    "d9b98811e3a",
]


def test_settings_of_a_project_and_lines_of_its_ignore_file_mean_the_same(desk: Desk) -> None:
    parts = []
    for name, texts in (("pyproject.toml", SETTINGS), (".mcp-tape-ignore", [f"{line}\n" for line in LINES])):
        for text in texts:
            desk.write(name, text)
            done = desk.run("diff", *PAIR)
            shown = desk.plain(done.stdout + done.stderr)
            parts.append(f"== {name}\n{text}==\n{shown}exit {done.returncode}\n")
        (desk.place / name).unlink()
    frozen("settings.txt", "\n".join(parts))


def test_a_rejected_review_writes_the_same_lines_to_the_ignore_file(desk: Desk) -> None:
    assert desk.run("verify", "old.db", "--", *SERVER, "next").returncode == 1
    done = desk.run("review", "old.db", "--ignore-path", "d9b98811e3aa", "--reject-all")
    assert done.returncode == 1
    frozen("ignore-file.txt", (desk.place / ".mcp-tape-ignore").read_text("utf-8"))
