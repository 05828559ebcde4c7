"""The documentation is correct and complete: its commands run, its links resolve, its snippets parse.

A block of shell or Python runs in these tests when the line before it is `<!-- run -->`. Shell runs in a directory
with `tape.db` and `next.db`, recordings of the demo and its next version; `remote.db`, a recording of the HTTP server
in docs/http.md, which is running at `$SERVER`; and `ask.py`, the client for it. A block of text after
`<!-- prints -->` is the output of the previous example, on stdout and stderr. SQL blocks all run on `tape.db`. Whole
test files are tested in test_docs_testing.py, and the pages on HTTP in test_docs_http.py.
"""

from __future__ import annotations

import contextlib
import json
import re
import runpy
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click
import pytest

from mcp_tape.cassette import schema
from mcp_tape.cli import cli
from mcp_tape.modes import Mode
from mcp_tape.replay import faults
from tests.support.docs import (
    BLOCK,
    DOCS,
    FORMAT,
    ON_THE_DESK,
    PAGES,
    ROOT,
    blocks,
    make_desk,
    shell,
    under,
    weather_server,
)
from tests.support.running import MCP_TAPE, python, record, run, sessions

PRINTS = re.compile(
    r"^<!-- run -->\n```sh\n(?P<text>(?:(?!```).*\n)+)```\n\n"
    r"<!-- prints -->\n```text\n(?P<printed>(?:(?!```).*\n)+)```$",
    re.M,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with weather_server(tmp_path_factory.mktemp("server")) as url:
        yield url


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, server: str) -> Path:
    return make_desk(tmp_path_factory.mktemp("docs"), server)


@pytest.mark.slow
@pytest.mark.parametrize("text", blocks("sh", marked=True))
def test_a_shell_example_runs(desk: Path, server: str, text: str) -> None:
    if "sqlite3 " in text and shutil.which("sqlite3") is None:
        pytest.skip("there is no sqlite3 shell")
    done = shell(text, desk, server)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize(
    ("text", "printed"),
    [
        pytest.param(found["text"], found["printed"], id=f"{page.name}: {found['text'][:50]}")
        for page in PAGES
        for found in PRINTS.finditer(page.read_text("utf-8"))
    ],
)
def test_an_example_prints_the_output_on_the_page(
    desk: Path, server: str, tmp_path: Path, text: str, printed: str
) -> None:
    for name in ON_THE_DESK:
        shutil.copy(desk / name, tmp_path)
    done = shell(f"exec 2>&1\n{text}", tmp_path, server)
    assert without_pids(done.stdout.decode()) == without_pids(printed)


def test_every_output_that_a_page_promises_is_checked() -> None:
    for page in PAGES:
        text = page.read_text("utf-8")
        assert len(PRINTS.findall(text)) == text.count("<!-- prints -->"), page.name


def without_pids(text: str) -> str:
    return re.sub(r'"pid":\d+', '"pid":0', text)


@pytest.mark.parametrize("text", blocks("sql"))
def test_a_query_runs_in_python_and_in_the_shell(desk: Path, text: str) -> None:
    with contextlib.closing(sqlite3.connect(desk / "tape.db")) as db:
        columns = db.execute(text).description
        found = db.execute(text).fetchall()
    assert columns
    if shutil.which("sqlite3"):
        done = run(["sqlite3", "-readonly", "-bail", str(desk / "tape.db"), text])
        assert (done.returncode, done.stderr) == (0, b"")
        assert len(done.stdout.splitlines()) == len(found)


def test_the_queries_find_their_subject(desk: Path) -> None:
    with contextlib.closing(sqlite3.connect(desk / "tape.db")) as db:
        found = [db.execute(block["text"]).fetchall() for block in BLOCK.finditer(FORMAT) if block["language"] == "sql"]
    assert [("Bern", 1)] in found
    assert sum(map(bool, found)) >= 4


@pytest.mark.parametrize("text", blocks("json"))
def test_a_json_snippet_parses_and_puts_mcp_tape_before_the_server(text: str) -> None:
    snippet = json.loads(text)
    for key in {"mcpServers", "servers", "context_servers"} & set(snippet):
        for server in snippet[key].values():
            if "url" in server:
                assert re.fullmatch(r"http://127\.0\.0\.1:\d+/mcp", server["url"])
                continue
            assert server["command"] == "mcp-tape"
            if server["args"][0] in ("record", "use") and "--stdio" not in server["args"]:
                assert server["args"].index("--") < len(server["args"]) - 1


def test_there_is_a_snippet_for_each_way_that_clients_are_configured() -> None:
    found = "".join(page.read_text("utf-8") for page in PAGES)
    for key in (
        "mcpServers",
        "servers",
        "context_servers",
        "StdioServerParameters",
        "StdioClientTransport",
        "StreamableHTTPClientTransport",
    ):
        assert key in found


@pytest.mark.parametrize("text", blocks("python"))
def test_a_python_snippet_compiles(text: str) -> None:
    compile(text, "snippet", "exec")


@pytest.mark.parametrize("text", blocks("python", marked=True))
@pytest.mark.slow
def test_a_python_example_runs(text: str) -> None:
    exec(compile(text, "example", "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.S | re.M)
    for link in re.findall(r"\]\(([^)]+)\)", text):
        if not link.startswith("https://"):
            file, _, anchor = link.partition("#")
            target = page.parent / file if file else page
            assert target.is_file(), link
            assert not anchor or anchor in anchors(target), link


def anchors(page: Path) -> set[str]:
    """The headings of a page, in the form of link anchors."""
    titles = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), flags=re.M)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


@pytest.mark.slow
def test_the_command_line_reference_equals_the_help() -> None:
    made = runpy.run_path(str(DOCS / "make_cli.py"))
    assert made["PAGE"].read_text("utf-8") == made["page"](), "run: python docs/make_cli.py"


def test_every_command_and_option_is_in_the_reference() -> None:
    reference = (DOCS / "cli.md").read_text("utf-8")
    context = click.Context(cli)
    for name in cli.list_commands(context):
        section = reference.partition(f"\n## mcp-tape {name}\n")[2].partition("\n## ")[0]
        command = cli.get_command(context, name)
        assert command is not None
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert all(flag in section for flag in option.opts), f"{name} {option.opts}"


def test_every_table_view_and_column_is_in_the_format_page() -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.executescript(schema.SCHEMA)
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")]
        assert {"sessions", "frames", "messages", "exchanges"} <= set(tables)
        for table in tables:
            section = re.split(rf"^## {table}$|^- `{table}`", FORMAT, flags=re.M)[1]
            section = re.split(r"^## |^- `", section, maxsplit=1, flags=re.M)[0]
            for (column,) in db.execute("SELECT name FROM pragma_table_info(?)", (table,)):
                assert re.search(rf"\b{column}\b", section), f"{table}.{column}"


def test_there_is_an_example_of_every_fault() -> None:
    text = under("replay-rules.md", "Faults")
    examples = re.findall(r"^\| `([^`]+=[^`]+)` \|", text, flags=re.M)
    assert {faults.parse_fault(example).kind for example in examples} == set(faults._TAKES)


def test_the_modes_page_has_every_mode() -> None:
    text = (DOCS / "modes.md").read_text("utf-8")
    for mode in get_args(Mode):
        assert f"\n## {mode}\n" in text
        assert re.search(rf"^\| `{mode}`", text, flags=re.M)


def test_the_report_is_documented_member_by_member(desk: Path, tmp_path: Path) -> None:
    asked = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n{"jsonrpc":"2.0","id":2,"method":"x"}\n'
        b'{"jsonrpc":"2.0","id":3,"result":{}}\n'
        b'{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"hindcast","arguments":{"a":1}}}\n'
    )
    command = [*MCP_TAPE, "replay", str(desk / "tape.db"), "--match-on", "$.params.name"]
    run([*command, "--report", str(tmp_path / "report.jsonl")], asked)
    said = under("replay-rules.md", "The report")
    rows = [re.findall(r"`([\w-]+)`", row) for row in re.findall(r"^\|([^|]+)\|", said, flags=re.M)]
    lines = [json.loads(line) for line in (tmp_path / "report.jsonl").read_text("utf-8").splitlines()]
    assert {line["what"] for line in lines} == {"played", "inexact", "miss", "note", "unplayed"}
    assert {key for line in lines for key in line} == {name for row in rows for name in row}


@pytest.mark.slow
def test_the_exit_codes_of_replay_are_as_documented(desk: Path, tmp_path: Path) -> None:
    tape = str(desk / "tape.db")
    asked = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'
    codes = [
        run([*MCP_TAPE, *command], asked).returncode
        for command in (
            ["replay", tape],
            ["replay", tape, "--strict"],
            ["replay", tape, "--fault", "tools/call=explode"],
            ["replay", str(tmp_path / "none.db")],
            ["replay", tape, "--session", "99"],
            ["replay", tape, "--fault", "tools/list=exit:7"],
            ["use", str(tmp_path / "none.db"), "--mode", "none"],
            ["use", str(tmp_path / "none.db"), "--", "no-such-command-anywhere"],
        )
    ]
    assert codes == [0, 1, 2, 3, 3, 7, 3, 4]


def test_the_format_page_names_the_marks_of_the_file() -> None:
    assert f"`PRAGMA application_id` is {schema.APPLICATION_ID}" in FORMAT
    assert f"the schema: {schema.VERSION}." in " ".join(FORMAT.split())


def test_the_readme_is_short_and_ci_runs_its_commands() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert len(readme.encode()) < 5000
    assert "```sh\npython3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/mcp-tape demo\n```" in readme
    test = "python3 -m venv .venv && .venv/bin/pip install -q -e '.[test]' && .venv/bin/pytest -q"
    assert f"```sh\n{test}\n```" in readme
    assert test in (ROOT / ".ci" / "run").read_text()


@pytest.mark.slow
def test_the_exit_codes_are_as_documented(tmp_path: Path) -> None:
    tape, text = tmp_path / "tape.db", tmp_path / "notes.txt"
    text.write_text("hello")
    killed = python("import os, signal; os.kill(os.getpid(), signal.SIGTERM)")
    codes = [
        run(command).returncode
        for command in (
            record(tape, python("raise SystemExit(7)")),
            record(tape, killed),
            [*MCP_TAPE, "record", "--no-such-option", "--", "true"],
            record(text, python("")),
            record(tmp_path / "other.db", ["no-such-command-anywhere"]),
        )
    ]
    assert codes == [7, 128 + 15, 2, 3, 4]
    assert text.read_text() == "hello"
    assert [session.exit_code for session in sessions(tmp_path / "other.db")] == [None]  # it explains why
