"""Recordings without message bodies: exactly the allowed parts stay in clear."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.redaction.bodies import Bodies, Hashes, Sizes
from mcp_tape.redaction.redactor import Redactor
from mcp_tape.wire import frames, protocol
from tests.support.fuzzing import examples

KEY = "a key of some length"
HOW = [Hashes(), Hashes(KEY), Sizes()]
ways = pytest.mark.parametrize("how", HOW, ids=["hash", "hash with a key", "none"])
PLANTED = "planted 4711"


def message(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0"} | members).encode()


def hidden(bodies: Bodies, text: bytes, channel: str = "stdio") -> Any:
    return json.loads(bodies.redact(text, channel).text)


def exchanged(how: Hashes | Sizes, method: str, params: Any, result: Any) -> tuple[Any, Any]:
    """Params and result of a request, as stored."""
    bodies = Bodies(None, how)
    asked = hidden(bodies, message(id=1, method=method, params=params))
    return asked["params"], hidden(bodies, message(id=1, result=result))["result"]


@ways
def test_values_that_the_protocol_needs_stay(how: Hashes | Sizes) -> None:
    meta = {"progressToken": "p", "traceparent": "00-" + "a" * 32, protocol.META_VERSION: protocol.MODERN_VERSION}
    params, result = exchanged(
        how,
        protocol.CALL,
        {"name": "search", "arguments": {"q": PLANTED}, "_meta": meta | {"own": PLANTED}},
        {"content": [{"type": "text", "text": PLANTED}], "isError": True},
    )
    assert params["name"] == "search" and {key: params["_meta"][key] for key in meta} == meta
    assert result["isError"] is True and result["content"][0]["type"] == "text"
    assert PLANTED not in str((params, result))
    assert frames.parse(Bodies(None, how).redact(message(id=2, error={"code": -32000, "message": PLANTED})).text)[1]


@ways
def test_the_public_offer_of_a_server_stays(how: Hashes | Sizes) -> None:
    hello = {"protocolVersion": protocol.LAST_LEGACY_VERSION, "serverInfo": {"name": "s"}, "instructions": "Be kind."}
    about = {"protocolVersion": protocol.LAST_LEGACY_VERSION, "clientInfo": {"name": "c"}}
    assert exchanged(how, protocol.INITIALIZE, about, hello) == (about, hello)
    for kind in protocol.KINDS:
        listed = {kind.member: [{kind.key: "x://it", "description": "What it does"}]}
        _, found = exchanged(how, kind.method, {}, listed)
        assert (found == listed) == (kind.method != protocol.RESOURCES)


@ways
def test_a_list_is_in_clear_only_in_the_answer_to_its_request(how: Hashes | Sizes) -> None:
    _, found = exchanged(how, protocol.CALL, {"name": "a"}, {"tools": [{"name": PLANTED}]})
    assert PLANTED not in str(found)
    bodies = Bodies(None, how)
    for channel, method in (("post-1", protocol.TOOLS), ("post-2", protocol.CALL)):
        bodies.redact(message(id=1, method=method, params={}), channel)
    listed = message(id=1, result={"tools": [{"name": "a"}]})
    assert hidden(bodies, listed, "post-1")["result"]["tools"] == [{"name": "a"}]
    assert '"a"' not in json.dumps(hidden(bodies, listed, "post-2"))


def test_a_stream_may_answer_a_post() -> None:
    bodies = Bodies(None, Hashes())
    bodies.redact(message(id=1, method=protocol.TOOLS), "post-1")
    answer = message(id=1, result={"tools": [{"name": "a"}]})
    assert hidden(bodies, answer, "get-1")["result"]["tools"] == [{"name": "a"}]


def test_each_side_has_ids_of_its_own() -> None:
    bodies = Bodies(None, Hashes())
    bodies.redact(message(id=1, method=protocol.TOOLS), "stdio")
    bodies.redact(message(id=1, method=protocol.SAMPLE, params={}), "stdio")
    assert hidden(bodies, message(id=1, result={"tools": [{"name": "a"}]}))["result"] == {"tools": [{"name": "a"}]}


@ways
def test_a_name_is_in_clear_only_where_it_is_that_of_a_tool_or_a_prompt(how: Hashes | Sizes) -> None:
    for method, name, stays in (
        (protocol.CALL, "name", True),
        (protocol.GET_PROMPT, "name", True),
        ("acme/customer", "name", False),
        (protocol.READ, "uri", False),
        (protocol.LOGGED, "data", False),
    ):
        found = hidden(Bodies(None, how), message(id=1, method=method, params={name: "Ada"}))
        assert (found["params"][name] == "Ada") is stays, method


@ways
@pytest.mark.parametrize(
    "form",
    [b"%b", b'{"log": "%b"}', b'["%b"]', b"\xff %b", b"[" * 500 + b'"%b"' + b"]" * 500, b'{"method": 1, "x": "%b"}'],
)
def test_noise_is_hidden_as_a_whole(how: Hashes | Sizes, form: bytes) -> None:
    planted = PLANTED.encode()
    assert planted not in Bodies(None, how).redact(form % planted, "stdio").text


@ways
def test_stderr_is_hidden_line_by_line_even_if_it_looks_like_a_message(how: Hashes | Sizes) -> None:
    line = message(id=1, method=protocol.CALL, params={"name": PLANTED})
    found = Bodies(None, how).redact(line, "stderr").text
    assert PLANTED.encode() not in found and b"method" not in found
    assert Bodies(None, how).redact(b": a comment\r\n", "get-1").text.endswith(b"]\r\n")


@ways
def test_of_http_only_values_that_the_protocol_needs_stay(how: Hashes | Sizes) -> None:
    headers = {"mcp-session-id": "s-1", "content-type": "application/json", "mcp-method": protocol.READ}
    other = {"mcp-name": PLANTED, "user-agent": PLANTED, "mcp-param-q": PLANTED, "origin": PLANTED}
    facts = {"event": "request", "verb": "POST", "path": f"/mcp?q={PLANTED}", "headers": headers | other}
    found = json.loads(Bodies(None, how).facts(json.dumps(facts).encode(), "post-1").text)
    assert (found["event"], found["verb"], found["path"][:5]) == ("request", "POST", "/mcp?")
    assert {name: found["headers"][name] for name in headers} == headers
    assert found["headers"].keys() == facts["headers"].keys() and PLANTED not in str(found)
    named = {"headers": {"mcp-method": protocol.CALL, "mcp-name": "search"}}
    assert json.loads(Bodies(None, how).facts(json.dumps(named).encode()).text) == named


def test_equal_values_have_equal_hashes_and_others_do_not() -> None:
    values = ["1", 1, True, "true", 1.5, "a", "b", ["a"], {"a": "a"}, 10**30, 10**30 + 1]
    found = [str(exchanged(Hashes(), protocol.CALL, {"name": "n", "arguments": {"v": v}}, {})) for v in values]
    assert len(set(found)) == len(values)
    assert Hashes().hide(1) == Hashes().hide(1.0)
    assert Hashes().hide([None, "", {}, []]) == [None, "", {}, []]


def test_with_another_key_all_hashes_are_others() -> None:
    assert len({str(how.hide(["a", 1])) for how in (Hashes(), Hashes(KEY), Hashes(KEY + "2"), Hashes("x" * 99))}) == 4
    assert Hashes(KEY).hide("a") == Hashes(KEY).hide("a")
    assert len({Hashes().name, Hashes(KEY).name, Hashes("other").name}) == 3 and Hashes().name == "hash"


def test_sizes_are_those_of_the_omitted_values() -> None:
    params, result = exchanged(
        Sizes(),
        protocol.CALL,
        {"name": "n", "arguments": {"q": "12345"}},
        {"content": [{"type": "text", "text": "äb"}]},
    )
    assert params["arguments"] == "[left out: 13 bytes]" and result["content"][0]["text"] == "[left out: 3 bytes]"


@ways
def test_members_that_do_not_look_like_names_are_hidden_too(how: Hashes | Sizes) -> None:
    for name in ("ada@example.com", "/home/ada/x", "4711", "a sentence", "x" * 200):
        found = hidden(Bodies(None, how), message(id=1, method=protocol.CALL, params={name: 1}))
        assert name not in str(found)
    found = hidden(Bodies(None, how), message(id=1, method=protocol.CALL, params={"max_results": 1, "content-type": 2}))
    assert found["params"].keys() == {"max_results", "content-type"}


def test_secrets_are_redacted_first() -> None:
    bodies = Bodies(Redactor({}), Hashes())
    text = message(id=1, method=protocol.CALL, params={"name": "n", "arguments": {"api_key": "sk-1234567890abcdef"}})
    found = bodies.redact(text, "stdio")
    assert json.loads(found.text)["params"]["arguments"]["api_key"] == "[redacted:key:api_key]" and found.hidden == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@examples(50)
@given(JSON, st.sampled_from([protocol.CALL, protocol.READ, protocol.LOGGED, "x/y"]), st.sampled_from(HOW))
def test_any_message_stays_a_message_and_keeps_its_shape(value: Any, method: str, how: Hashes | Sizes) -> None:
    text = message(id=7, method=method, params={"arguments": value})
    kept = Bodies(None, how).redact(text, "stdio")
    assert kept == Bodies(None, how).redact(text, "stdio")
    (found,) = frames.parse(kept.text)[1]
    assert (found.kind, found.method, found.rpc_id) == ("request", method, "7")
