"""The server for agents: recorded and replayed by mcp-tape, checked by the official suite, an optional extra."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.suite.listening import listening
from tests.suite.official import Checks, check_server
from tests.support import provision
from tests.support.agents import MODES, server, with_client
from tests.support.conformance import REVISIONS, ROOT
from tests.support.golden import CASSETTES, path_of
from tests.support.running import MCP_TAPE, python, record, run

if TYPE_CHECKING:
    from mcp import Client

MAIN = "from mcp_tape.__main__ import main; main()"
OURS = [sys.executable, "-m", "tests.servers.tapes", str(CASSETTES)]
# The rest of the suite needs tools, prompts and resources that only a test server has.
WHOLE = {
    "2025-11-25": "server-initialize ping tools-list server-sse-multiple-streams resources-list "
    "dns-rebinding-protection server-session-lifecycle",
    "2026-07-28": "tools-list server-sse-multiple-streams resources-list sep-2164-resource-not-found "
    "dns-rebinding-protection input-required-result-unsupported-methods input-required-result-validate-input "
    "http-header-validation",
}
NOT_OFFERED = (
    "logging-", "completion-", "prompts-", "tools-call-", "elicitation-", "resources-read-", "resources-templates-read",
    "resources-subscribe", "resources-unsubscribe", "json-schema-2020-12", "server-sse-polling",
    "input-required-result-", "tasks-", "http-custom-header-server-validation",
)  # fmt: skip
# Scenarios of which only some checks need such things, and those checks.
IN_PART = {
    "2025-11-25": {},
    "2026-07-28": {
        "caching": {"sep-2549-prompts-list-caching-hints"},
        "server-stateless": {
            "sep-2575-server-rejects-undeclared-capability",
            "sep-2575-missing-capability-http-400",
            "sep-2575-http-server-no-independent-requests-on-stream",
            "sep-2575-server-no-log-without-loglevel",
        },
    },
}
PASSED = {"2025-11-25": 17, "2026-07-28": 60}  # the number of those checks
MESSAGES = {"2025-11-25": 29, "2026-07-28": 46}  # scenarios in which all messages are checked


async def visit(client: Client) -> list[Any]:
    """The view of an agent that examines a failed call."""
    steps: list[tuple[str, dict[str, Any]]] = [
        ("list_sessions", {}),
        ("show_session", {"filter": "status:error"}),
        ("show_exchange", {"seq": 12}),
        ("search", {"words": "hindcast"}),
        ("query", {"sql": "SELECT tool, status FROM tool_calls"}),
        ("show_session", {"file": "/etc/passwd"}),
    ]
    found: list[Any] = [await client.list_tools(), *[await client.call_tool(*step) for step in steps]]
    listed = await client.list_resources()
    found += [listed, await client.read_resource(listed.resources[0].uri)]
    return [one.model_dump(mode="json", exclude={"meta"}) for one in found]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_mcp_tape_records_and_replays_its_own_server(tmp_path: Path, mode: str) -> None:
    tape, command = tmp_path / "visit.db", server(path_of("demo"))
    live = with_client(visit, mode=mode, command=command)
    assert with_client(visit, mode=mode, command=record(tape, command, "-q")) == live
    assert with_client(visit, mode=mode, command=[*MCP_TAPE, "replay", str(tape)]) == live
    assert "hindcast" in str(live) and live[6]["is_error"]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Checks]]:
    """The checks of the official suite, by revision and scenario. Without npm a test is skipped, but never in CI."""
    if not provision.has_node():
        if os.environ.get("CI"):
            pytest.fail("node and npm are not installed, and CI must have them")
        pytest.skip("needs node and npm")
    place = tmp_path_factory.mktemp("suite")
    with listening(OURS, ROOT) as server:
        return {revision: check_server(server.url, revision, place / revision) for revision in REVISIONS}


@pytest.mark.slow
@pytest.mark.parametrize("revision", REVISIONS)
def test_the_official_suite_passes_where_it_needs_nothing_of_its_own(
    found: dict[str, dict[str, Checks]], revision: str
) -> None:
    scenarios, in_part = found[revision], IN_PART[revision]
    whole = {name for name, checks in scenarios.items() if {status for _, status in checks} == {"SUCCESS"}}
    assert whole == set(WHOLE[revision].split())
    assert {name for name in set(scenarios) - whole if not name.startswith(NOT_OFFERED)} == set(in_part)
    for name, untestable in in_part.items():
        assert {check for check, status in scenarios[name] if status in ("FAILURE", "WARNING")} == untestable
    passed = (number for name in whole | set(in_part) for (_, status), number in scenarios[name].items()
              if status == "SUCCESS")  # fmt: skip
    assert sum(passed) == PASSED[revision]


@pytest.mark.slow
@pytest.mark.parametrize("revision", REVISIONS)
def test_every_message_fits_the_schema_of_its_revision(found: dict[str, dict[str, Checks]], revision: str) -> None:
    """Including errors about missing things."""
    checks = [check for scenario in found[revision].values() for check in scenario if check[0] == "wire-schema-valid"]
    assert {status for _, status in checks} == {"SUCCESS"}
    assert len(checks) == MESSAGES[revision]


# The extra ----------------------------------------------------------------------------------------------


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("missing", ["mcp", "mcp_types", "mcp.server.lowlevel"])
def test_without_the_sdk_the_command_names_the_extra(missing: str) -> None:
    done = run([*python(f"import sys; sys.modules[{missing!r}] = None; {MAIN}"), "mcp", str(path_of("demo"))])
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"this command needs the MCP SDK, 2.2 or newer" in done.stderr
    assert b"pip install 'mcp-tape[mcp]'" in done.stderr


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("words", [["ls"], ["show"], ["query", "SELECT 1"], ["check"], ["stats"], ["search", "x"]])
def test_no_other_command_loads_it(words: list[str]) -> None:
    command, *more = words
    source = f"import sys; sys.modules['mcp_tape.agent'] = sys.modules['mcp'] = None; {MAIN}"
    done = run([*python(source), command, str(path_of("demo")), *more])
    assert done.returncode == 0, done.stderr


def test_its_help_needs_no_sdk() -> None:
    done = run([*python(f"import sys; sys.modules['mcp'] = sys.modules['mcp_types'] = None; {MAIN}"), "mcp", "--help"])
    assert done.returncode == 0 and b"mcp-tape[mcp]" in done.stdout
