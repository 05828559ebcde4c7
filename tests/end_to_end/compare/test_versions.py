"""Two versions of a small server for each family of changes, really recorded and compared with tests/golden/versions.

To write the golden files again: python -m tests.end_to_end.compare.test_versions --rewrite
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mcp_tape.cli import cli
from mcp_tape.compare.report import FORMATS
from mcp_tape.compare.rule_table import RULES
from tests.servers.versions import FAMILIES
from tests.support.many import comparison
from tests.support.running import MCP_TAPE, WAIT, receive_line, record, run, send, started
from tests.support.viewing import report_of

ROOT = Path(__file__).parents[3]
GOLDEN = Path(__file__).parents[2] / "golden" / "versions"
ENDINGS = {
    "text": "txt",
    "json": "json",
    "markdown": "md",
    "html": "html",
    "junit": "xml",
    "github": "github",
    "sarif": "sarif",
}

# A client -----------------------------------------------------------------------------------------------

Params = dict[str, Any] | Callable[[list[Any]], dict[str, Any]]
Request = tuple[str, Params]
Requests = Sequence[Request]
HELLO: Request = ("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c"}})
TOOLS: Request = ("tools/list", {})
OFFERS: Requests = [(f"{what}/list", {}) for what in ("resources", "resources/templates", "prompts")]
ASKED: Requests = [
    ("resources/read", {"uri": "city://bern"}),
    ("prompts/get", {"name": "trip", "arguments": {"city": "Bern"}}),
]
CALLED = "alarm repair lookup weather typed joke chart ask think".split()


def call(name: str, **more: Any) -> Request:
    return "tools/call", {"name": name, "arguments": {}} | more


def of_the_first(answers: list[Any]) -> dict[str, Any]:
    """A call with an id from the first answer."""
    made = next(answer for answer in answers if "structuredContent" in answer.get("result", {}))
    return {"name": "read", "arguments": {"note": made["result"]["structuredContent"]["id"]}}


CALLS: Requests = [
    call("create"),
    ("tools/call", of_the_first),
    *map(call, CALLED),
    call("walk", _meta={"progressToken": 7}),
    ("resources/read", {"uri": "city://bern"}),
    call("last"),
]
SCRIPTS: Mapping[str, Requests] = {family: [TOOLS] for family in FAMILIES} | {
    "tools": [TOOLS, TOOLS],
    "offers": [*OFFERS, *ASKED],
    "calls": [TOOLS, *CALLS],
}


def play(command: Sequence[str], requests: Requests) -> None:
    """Make requests in turn, and read lists to their ends; answer server requests with an empty result."""
    with started(command, cwd=ROOT) as server:
        assert server.stdin and server.stdout
        answers: list[Any] = []
        for method, params in [HELLO, *requests]:
            asked = params(answers) if callable(params) else params
            for answer in _pages(server, len(answers) + 1, method, asked):
                answers.append(answer)
        server.stdin.close()
        server.wait(WAIT)


def _pages(server: Any, number: int, method: str, params: dict[str, Any]) -> Iterator[Any]:
    while True:
        answer = _ask(server, number, method, params)
        yield answer
        cursor = answer.get("result", {}).get("nextCursor")
        if cursor is None:
            return
        number, params = number + 1, {"cursor": cursor}


def _ask(server: Any, number: int, method: str, params: dict[str, Any]) -> Any:
    _say(server, id=number, method=method, params=params)
    while line := receive_line(server.stdout):
        message = json.loads(line)
        if "method" not in message:
            return message
        if "id" in message:
            _say(server, id=message["id"], result={})
    return {}  # the server is gone


def _say(server: Any, **message: Any) -> None:
    send(server.stdin, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


# Its recordings --------------------------------------------------------------------------------------------


def server(family: str, version: int) -> list[str]:
    return [sys.executable, "-m", "tests.servers.versions", family, str(version)]


def recorded(place: Path) -> Path:
    """Each family's `1.db` and `2.db`, and `again.db`: version 1 once more."""
    wanted = [(family, name, version) for family in FAMILIES for name, version in (("1", 1), ("2", 2), ("again", 1))]
    for family in FAMILIES:
        (place / family).mkdir()

    def tape(family: str, name: str, version: int) -> None:
        play(record(place / family / f"{name}.db", server(family, version), "-q"), SCRIPTS[family])

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(tape, *one) for one in wanted]:
            done.result(WAIT)
    return place


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("versions"))


def mcp_tape(place: Path, *words: str) -> Result:
    """A command line, run in this process and in a directory."""
    before = os.getcwd()
    os.chdir(place)
    try:
        return CliRunner().invoke(cli, words, catch_exceptions=False)
    finally:
        os.chdir(before)


def changes(place: Path, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = comparison(mcp_tape(place, "diff", "--json", *words).stdout)["changes"]
    return found


def golden(family: str, form: str) -> Path:
    return GOLDEN / f"{family}.{ENDINGS[form]}"


# The digest of a file and a duration, in JSON and in XML.
VARYING = re.compile(r'(?<="hash":")\w+|(?<=mcp-tape\.hash" value=")\w+|(?<="seconds":)[\d.]+|(?<= time=")\d+\.\d+')


def kept(form: str, text: str) -> str:
    """The content of a golden file, without digests and durations; of a page only the report."""
    if form == "html":
        return report_of(text)
    return VARYING.sub("0", text)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("family", FAMILIES)
def test_two_versions_differ_as_in_the_golden_file(desk: Path, family: str, form: str) -> None:
    done = mcp_tape(desk / family, "diff", "1.db", "2.db", "--format", form)
    assert kept(form, done.stdout) == golden(family, form).read_text(encoding="utf-8")
    assert done.exit_code == 1


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_the_gate_stops_breaking_changes_and_passes_the_same_server(desk: Path, family: str) -> None:
    assert mcp_tape(desk / family, "breaking", "1.db", "2.db").exit_code == 1
    assert mcp_tape(desk / family, "breaking", "1.db", "again.db").exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_version_recorded_twice_has_no_changes(desk: Path, family: str) -> None:
    assert changes(desk / family, "1.db", "again.db") == []


def test_the_families_show_most_rules() -> None:
    documents = (comparison(golden(family, "json").read_text("utf-8")) for family in FAMILIES)
    seen = {change["rule"] for document in documents for change in document["changes"]}
    assert len(seen) > 0.6 * len(RULES)
    assert seen <= RULES.keys()


@pytest.mark.slow
def test_surface_and_calls_are_the_two_halves(desk: Path) -> None:
    both, surface, calls = (
        {change["fingerprint"] for change in changes(desk / "offers", "1.db", "2.db", *words)}
        for words in ([], ["--surface"], ["--calls"])
    )
    assert surface | calls == both and surface and calls and not surface & calls


@pytest.mark.slow
def test_in_the_other_direction_additions_are_removals(desk: Path) -> None:
    def names(rule: str, *order: str) -> list[str]:
        return [one["subject"]["name"] for one in changes(desk / "tools", *order) if one["rule"] == rule]

    assert names("tool-added", "1.db", "2.db") == names("tool-removed", "2.db", "1.db") == ["radar"]


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("family", ["server", "tools", "offers"])
def test_a_live_server_is_asked_for_its_lists(desk: Path, family: str) -> None:
    command = [*MCP_TAPE, "diff", str(desk / family / "1.db"), "--json", "--", *server(family, 2)]
    done = run(command, cwd=ROOT)
    assert done.returncode == 1, done.stderr
    # After a single request, it is unknown whether the answer changes.
    known = [
        one for one in changes(desk / family, "1.db", "2.db", "--surface") if "nondeterministic" not in one["rule"]
    ]
    assert comparison(done.stdout)["changes"] == known


@pytest.mark.slow
def test_a_live_server_that_is_the_recorded_one_passes_the_gate(desk: Path) -> None:
    done = run([*MCP_TAPE, "breaking", str(desk / "tools" / "1.db"), "--", *server("tools", 1)], cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("family", FAMILIES)
def test_golden_files_know_no_machine_and_no_time(family: str) -> None:
    for form in FORMATS:
        text = golden(family, form).read_text(encoding="utf-8")
        assert str(ROOT) not in text and sys.executable not in text and tempfile.gettempdir() not in text


def rewrite() -> None:
    GOLDEN.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        recorded(Path(place))
        for family in FAMILIES:
            for form in FORMATS:
                done = mcp_tape(Path(place, family), "diff", "1.db", "2.db", "--format", form)
                golden(family, form).write_text(kept(form, done.stdout), encoding="utf-8")


if __name__ == "__main__" and sys.argv[1:] == ["--rewrite"]:
    rewrite()
