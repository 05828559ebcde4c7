"""The only file that knows MCP."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_tape.wire import protocol

META = "io.modelcontextprotocol/"


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "add", "arguments": {}}, "add"),
        ("prompts/get", {"name": "review"}, "review"),
        ("resources/read", {"uri": "file:///a"}, "file:///a"),
        ("resources/subscribe", {"uri": "file:///a"}, "file:///a"),
        ("resources/unsubscribe", {"uri": "file:///a"}, "file:///a"),
        ("tasks/get", {"taskId": "t1"}, "t1"),
        ("tasks/result", {"taskId": "t1"}, "t1"),
        ("tasks/cancel", {"taskId": "t1"}, "t1"),
        ("tasks/update", {"taskId": "t1", "inputResponses": {}}, "t1"),
        ("skills/get", {"uri": "skill://a/SKILL.md"}, "skill://a/SKILL.md"),
        ("resources/directory/read", {"uri": "skill://a"}, "skill://a"),
        ("tools/list", {"name": "add"}, None),
        ("unknown/method", {"name": "add"}, None),
        ("tools/call", {"name": ["add"]}, None),
        ("tools/call", {}, None),
        ("tools/call", None, None),
        ("tools/call", ["add"], None),
        ("tools/call", "add", None),
    ],
)
def test_a_call_is_named_by_the_parameter_of_its_method(method: str, params: Any, name: str | None) -> None:
    assert protocol.call_name(method, params) == name


@pytest.mark.parametrize(
    ("method", "repeated"),
    [
        ("skills/list", True),
        ("skills/get", True),
        ("resources/directory/read", True),
        ("resources/read", True),
        ("tasks/update", False),
        ("tools/call", False),
    ],
)
def test_reads_may_be_repeated(method: str, repeated: bool) -> None:
    assert protocol.is_housekeeping(method) is repeated


@pytest.mark.parametrize("method", ["tasks/update", "tools/call"])
def test_of_answers_that_a_client_gives_only_the_names_identify_a_request(method: str) -> None:
    one, other = ({"taskId": "t", "inputResponses": {"a": {"action": action}}} for action in ("accept", "decline"))
    assert protocol.identifying_params(method, one) == protocol.identifying_params(method, other)
    assert protocol.identifying_params(method, one) != protocol.identifying_params(method, other | {"taskId": "u"})


@pytest.mark.parametrize(
    ("capabilities", "declared"),
    [
        ({"extensions": {"io.modelcontextprotocol/skills": {}}}, True),
        ({"extensions": {"io.modelcontextprotocol/tasks": {}}}, False),
        ({"extensions": ["io.modelcontextprotocol/skills"]}, False),
        ({"resources": {}}, False),
        (None, False),
    ],
)
def test_skills_are_declared_as_an_extension(capabilities: Any, declared: bool) -> None:
    (skills,) = (kind for kind in protocol.KINDS if kind.subject == "skill")
    assert protocol.declares(capabilities, skills) is declared


def test_the_handshake_of_the_legacy_era_names_both_sides() -> None:
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    server = {"protocolVersion": "2025-06-18", "serverInfo": {"name": "s", "version": "2"}}
    asked = protocol.session_facts("initialize", {"id": 1, "method": "initialize", "params": client})
    assert asked == {"client_name": "c", "client_version": "1"}  # an offer is not an agreement yet
    assert protocol.session_facts("initialize", {"id": 1, "result": server}) == {
        "server_name": "s",
        "server_version": "2",
        "protocol_version": "2025-06-18",
    }


def test_every_request_of_the_modern_era_names_the_client() -> None:
    meta = {META + "protocolVersion": "2026-07-28", META + "clientInfo": {"name": "c", "version": "1"}}
    body = {"id": 1, "method": "tools/list", "params": {"_meta": meta}}
    assert protocol.session_facts("tools/list", body) == {
        "protocol_version": "2026-07-28",
        "client_name": "c",
        "client_version": "1",
    }


@pytest.mark.parametrize("method", ["server/discover", "tools/call", "anything/else"])
def test_every_result_of_the_modern_era_names_the_server(method: str) -> None:
    result = {"resultType": "complete", "_meta": {META + "serverInfo": {"name": "s", "version": "2"}}}
    assert protocol.session_facts(method, {"id": 1, "result": result}) == {"server_name": "s", "server_version": "2"}


def test_discovery_may_name_the_server_in_its_result() -> None:
    body = {"id": 1, "result": {"supportedVersions": ["2026-07-28"], "serverInfo": {"name": "s"}}}
    assert protocol.session_facts("server/discover", body) == {"server_name": "s"}


@pytest.mark.parametrize(
    ("method", "body"),
    [
        (None, {}),
        ("tools/call", {"params": {"clientInfo": {"name": "x"}}}),
        ("tools/call", {"result": {"serverInfo": {"name": "x"}, "protocolVersion": "1"}}),
        (None, {"result": {"_meta": {META + "serverInfo": {"name": "x"}}}}),  # the client's own answer
        ("initialize", {"params": {"clientInfo": "x"}}),
        ("initialize", {"params": [1]}),
        ("initialize", {"params": {"clientInfo": {"name": 1, "version": None}}}),
        ("initialize", {"result": "x"}),
        ("initialize", {"result": {"protocolVersion": 5, "serverInfo": []}}),
        ("tools/list", {"params": {"_meta": "x"}}),
        ("tools/list", {"result": {"_meta": ["x"]}}),
    ],
)
def test_other_messages_state_no_facts_of_the_session(method: str | None, body: dict[str, Any]) -> None:
    assert protocol.session_facts(method, body) == {}


@pytest.mark.parametrize(
    ("result", "status"),
    [
        ({}, "ok"),
        (None, "ok"),
        ([], "ok"),
        ({"isError": True}, "tool-error"),
        ({"isError": 1}, "ok"),
        ({"resultType": "complete"}, "ok"),
        ({"resultType": "input_required"}, "input-required"),
    ],
)
def test_a_result_says_how_it_ended(result: Any, status: str) -> None:
    assert protocol.result_status(result) == status


@pytest.mark.parametrize(
    ("method", "params", "declared"),
    [
        ("initialize", {"capabilities": {"roots": {}}}, {"roots": {}}),
        ("tools/list", protocol.client_meta("2026-07-28", {}, {"sampling": {}}), {"sampling": {}}),
        ("tools/list", {"capabilities": {"roots": {}}}, None),
        ("initialize", protocol.client_meta("2026-07-28", {}, {"sampling": {}}), None),
        ("initialize", {"capabilities": ["roots"]}, None),
        ("initialize", None, None),
    ],
)
def test_a_greeting_declares_capabilities_where_its_era_has_them(
    method: str, params: Any, declared: dict[str, Any] | None
) -> None:
    assert protocol.client_capabilities(method, params) == declared


@pytest.mark.parametrize(
    ("params", "rest"),
    [({"a": 1, "_meta": {"b": 2}}, {"a": 1}), ({"_meta": None}, {}), (["_meta"], ["_meta"]), (None, None)],
)
def test_params_are_compared_without_their_meta(params: Any, rest: Any) -> None:
    assert protocol.without_meta(params) == rest
