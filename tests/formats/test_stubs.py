"""Stubs: calls with their answers by hand, played by `replay` and `use_cassette`, with a lock and without."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mcp_tape import use_cassette
from mcp_tape.cassette.reader import Cassette
from mcp_tape.errors import CassetteError, TapeError
from mcp_tape.formats.stubs import is_stubs
from mcp_tape.replay.matching.partial import contains, misfit
from tests.support.diffs import hello, listing, taped, tool
from tests.support.running import MCP_TAPE, run

STUBS: list[dict[str, Any]] = [
    {"tool": "search", "arguments": {"q": "x"}, "result": "three hits"},
    {"tool": "search", "arguments": {"q": "x", "page": 2}, "result": {"hits": []}},
    {"tool": "fail", "error": "no disk"},
    {"tool": "poll", "result": "one"},
    {"tool": "poll", "result": "two"},
]
HELLO = (
    "initialize",
    {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
)
LOCKED = tool(
    "search",
    inputSchema={"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
    outputSchema={"type": "object", "properties": {"hits": {"type": "integer"}}, "required": ["hits"]},
)


def call(name: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return "tools/call", {"name": name, "arguments": arguments}


def written(path: Path, *stubs: Mapping[str, Any]) -> Path:
    path.write_text("".join(json.dumps(stub) + "\n" for stub in stubs))
    return path


def play(place: Path, *requests: tuple[str, Any], words: tuple[str, ...] = (), code: int = 0) -> list[dict[str, Any]]:
    lines = [json.dumps({"jsonrpc": "2.0", "id": n, "method": m, "params": p}) for n, (m, p) in enumerate(requests)]
    done = run([*MCP_TAPE, "replay", "stubs.jsonl", *words], "\n".join([*lines, ""]).encode(), cwd=place)
    assert done.returncode == code, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def text_of(answer: dict[str, Any]) -> str:
    return str(answer["result"]["content"][0]["text"])


@pytest.fixture
def locked(tmp_path: Path) -> Path:
    taped(tmp_path / "tape.db", [hello("2025-06-18", instructions="Be kind."), listing("tools/list", LOCKED)])
    assert run([*MCP_TAPE, "lock", "tape.db", "-o", "mcp.lock"], cwd=tmp_path).returncode == 0
    return tmp_path / "mcp.lock"


def test_the_handshake_ping_and_lists_are_made_from_the_stubs(tmp_path: Path) -> None:
    written(
        tmp_path / "stubs.jsonl", *STUBS, {"resource": "a:1", "result": "r"}, {"prompt": "greet", "result": "hello"}
    )
    asked = [HELLO, ("ping", {}), *((f"{what}/list", {}) for what in ("tools", "resources", "prompts"))]
    first, ping, tools, resources, prompts = play(tmp_path, *asked)
    assert first["result"]["protocolVersion"] == "2024-11-05" and ping["result"] == {}
    assert {*first["result"]["capabilities"]} == {"tools", "resources", "prompts"}
    assert [one["name"] for one in tools["result"]["tools"]] == ["search", "fail", "poll"]
    assert tools["result"]["tools"][0]["inputSchema"]["properties"]["q"] == {"examples": ["x"]}
    assert [one["uri"] for one in resources["result"]["resources"]] == ["a:1"]
    assert [one["name"] for one in prompts["result"]["prompts"]] == ["greet"]


@pytest.mark.slow
def test_a_stub_answers_each_call_that_has_its_arguments(tmp_path: Path) -> None:
    written(tmp_path / "stubs.jsonl", *STUBS)
    calls = [call("search", q="x", lang="de"), call("search", lang="de", page=2, q="x"), call("search", q="x")]
    some, more, again = play(tmp_path, *calls, words=("--fail-on", "inexact"))
    assert [text_of(some), text_of(again)] == ["three hits", "three hits"]
    assert more["result"]["structuredContent"] == {"hits": []}


def test_equal_stubs_answer_in_turn_and_the_last_again(tmp_path: Path) -> None:
    written(tmp_path / "stubs.jsonl", *STUBS)
    assert [text_of(one) for one in play(tmp_path, *[call("poll", n=n) for n in range(4)])] == [
        "one",
        "two",
        "two",
        "two",
    ]


def test_an_error_is_that_of_the_tool_or_of_the_protocol(tmp_path: Path) -> None:
    written(tmp_path / "stubs.jsonl", *STUBS, {"tool": "t", "error": {"code": -32000, "message": "no"}})
    failed, refused = play(tmp_path, call("fail"), call("t"))
    assert failed["result"]["isError"] is True and text_of(failed) == "no disk"
    assert refused["error"] == {"code": -32000, "message": "no"}


@pytest.mark.parametrize("missed", [call("search", q="y"), call("other"), ("resources/read", {"uri": "a:1"})])
@pytest.mark.slow
def test_a_miss_is_loud(tmp_path: Path, missed: tuple[str, Any]) -> None:
    written(tmp_path / "stubs.jsonl", *STUBS)
    (answer,) = play(tmp_path, missed, code=1)
    assert answer["error"]["code"] in (-32010, -32601)


def test_an_object_becomes_the_text_of_a_resource_or_prompt(tmp_path: Path) -> None:
    whole = {"contents": [{"uri": "a:2", "blob": "AA=="}]}
    made = [{"resource": "a:1", "result": {"n": 1}}, {"resource": "a:2", "result": whole}]
    written(tmp_path / "stubs.jsonl", *made, {"prompt": "greet", "result": ["hello"]})
    reads = [("resources/read", {"uri": uri}) for uri in ("a:1", "a:2")]
    text, blob, prompt = play(tmp_path, *reads, ("prompts/get", {"name": "greet"}))
    assert text["result"]["contents"][0]["text"] == '{"n":1}' and blob["result"] == whole
    assert prompt["result"]["messages"][0]["content"]["text"] == '["hello"]'


@pytest.mark.slow
def test_nothing_in_a_stub_is_redacted(tmp_path: Path) -> None:
    secret = {"password": "not-a-real-one-4711"}
    written(tmp_path / "stubs.jsonl", {"tool": "login", "arguments": secret, "result": {"token": "made-up-4712"}})
    (answer,) = play(tmp_path, call("login", user="ada", **secret))
    assert answer["result"]["structuredContent"] == {"token": "made-up-4712"}


@pytest.mark.slow
def test_strict_names_the_unused_stubs(tmp_path: Path, locked: Path) -> None:
    written(tmp_path / "stubs.jsonl", {"tool": "search", "arguments": {"q": "x"}, "result": {"hits": 1}})
    play(tmp_path, call("search", q="x"), words=("--strict", "--lock", "mcp.lock"))
    play(tmp_path, HELLO, words=("--strict", "--lock", "mcp.lock"), code=1)


# With a lock --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("--lock", "mcp.lock"), ()], ids=["option", "line"])
@pytest.mark.slow
def test_a_lock_gives_the_handshake_and_the_schemas(tmp_path: Path, locked: Path, words: tuple[str, ...]) -> None:
    first = [] if words else [{"lock": "mcp.lock"}]
    written(tmp_path / "stubs.jsonl", *first, {"tool": "search", "result": {"hits": 1}})
    hello, tools = play(tmp_path, HELLO, ("tools/list", {}), words=words)
    assert hello["result"]["instructions"] == "Be kind." and hello["result"]["protocolVersion"] == "2025-06-18"
    assert tools["result"]["tools"] == [LOCKED]


@pytest.mark.slow
def test_arguments_that_do_not_fit_are_refused_as_a_server_does(tmp_path: Path, locked: Path) -> None:
    written(tmp_path / "stubs.jsonl", {"tool": "search", "result": {"hits": 1}})
    refused, good = play(tmp_path, call("search"), call("search", q="x"), words=("--lock", "mcp.lock"))
    assert refused["result"]["isError"] and "Input validation error: $: 'q' is a required property" in text_of(refused)
    assert good["result"]["structuredContent"] == {"hits": 1}


@pytest.mark.parametrize(
    ("stub", "why"),
    [
        ({"tool": "search", "result": {"hits": "many"}}, "stub 1: the result does not fit the output schema of search"),
        ({"tool": "search", "result": "text"}, "no structuredContent"),
        ({"tool": "search", "arguments": {"q": 1}, "result": {"hits": 1}}, "the arguments do not fit the input schema"),
        ({"tool": "find", "result": "x"}, "the lock has no tool find; it has: search"),
        ({"prompt": "greet", "result": "x"}, "the lock has no prompt greet; it has: none"),
        ({"resource": "a:1", "result": "x"}, "the lock has no resource a:1; it has: none"),
    ],
)
def test_a_stub_that_does_not_fit_the_lock_is_refused(
    tmp_path: Path, locked: Path, stub: dict[str, Any], why: str
) -> None:
    path = written(tmp_path / "stubs.jsonl", {"lock": "mcp.lock"}, stub)
    with pytest.raises(CassetteError, match=why):
        Cassette(str(path))


@pytest.mark.parametrize(
    ("stub", "why"),
    [
        ({"tool": "a", "argments": {}, "result": 1}, "has argments"),
        ({"tool": "a", "result": 1, "error": "x"}, "needs one of"),
        ({"tool": "a"}, "needs one of"),
        ({"tool": 1, "result": 1}, "tool is a text"),
        ({"tool": "a", "arguments": [], "result": 1}, "arguments and params are objects"),
    ],
)
def test_a_stub_that_is_none_is_named(tmp_path: Path, stub: dict[str, Any], why: str) -> None:
    for number, stubs in ((2, [STUBS[0], stub]), (1, [stub])):
        path = written(tmp_path / "stubs.jsonl", *stubs)
        assert is_stubs(str(path))
        with pytest.raises(CassetteError, match=f"stub {number}.*{why}"):
            Cassette(str(path))


def test_a_lock_goes_with_stubs(tmp_path: Path, locked: Path) -> None:
    done = run([*MCP_TAPE, "replay", "tape.db", "--lock", "mcp.lock"], b"", cwd=tmp_path)
    assert done.returncode == 2 and b"--lock goes with stubs" in done.stderr


# In Python ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def tape(locked: Path) -> Iterator[Any]:
    with use_cassette(stubs=[{"tool": "search", "result": {"hits": 1}}], lock=locked) as tape:
        yield tape


def test_stubs_are_used_in_python(tape: Any) -> None:
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": n, "method": m, "params": p})
        for n, (m, p) in enumerate([HELLO, call("search", q="x")])
    ]
    done = run(tape.command, "\n".join([*lines, ""]).encode())
    assert [json.loads(line)["result"] for line in done.stdout.splitlines()][1]["structuredContent"] == {"hits": 1}


def test_keywords_that_do_not_go_together_are_refused(tmp_path: Path, locked: Path) -> None:
    with pytest.raises(TapeError, match="lock goes with stubs"):
        use_cassette(tmp_path / "tape.db", lock=locked)
    with pytest.raises(TapeError, match="which cassette"):
        use_cassette()


# By hand ------------------------------------------------------------------------------------------------------------


def test_a_cassette_by_hand_needs_no_handshake(tmp_path: Path) -> None:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t", "arguments": {"a": 1}}}
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"content": []}}
    written(tmp_path / "stubs.jsonl", {"sender": "client", "message": asked}, {"sender": "server", "message": answer})
    hello, tools, called = play(tmp_path, HELLO, ("tools/list", {}), call("t", a=1))
    assert hello["result"]["capabilities"] == {"tools": {}} and called["result"] == {"content": []}
    assert [one["name"] for one in tools["result"]["tools"]] == ["t"]
    play(tmp_path, call("t", a=1, b=2), code=1)


@pytest.mark.parametrize(
    ("live", "recorded", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": 1.0}, True),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 2}}, True),
        ({"a": [{"x": 1, "y": 2}]}, {"a": [{"x": 1}]}, True),
        ({}, {"a": None}, False),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": True}, {"a": 1}, False),
    ],
)
def test_a_part_of_a_value(live: Any, recorded: Any, expected: bool) -> None:
    assert contains(live, recorded) is expected


DEEP = {
    "properties": {
        "f": {"required": ["a", "b"], "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
    },
    "oneOf": [{"required": ["f"]}, {"required": ["g"]}],
}


@pytest.mark.parametrize(
    ("value", "fits"), [({"f": {"a": 1}}, True), ({"f": {"a": "x"}}, False), ({"f": {"c": 1}}, False)]
)
def test_a_part_of_arguments_fits_a_schema(value: Any, fits: bool) -> None:
    assert (misfit(DEEP, value, is_partial=True) == "") is fits and misfit(DEEP, value)


def test_a_schema_that_cannot_be_used_forbids_nothing() -> None:
    assert misfit({"type": 7}, 1) == "" and misfit({"$ref": "https://example.com/x"}, 1) == ""


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = run([*MCP_TAPE, "replay", "none.jsonl", "--lock", "mcp.lock"], cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr == b"mcp-tape: cannot read the stubs in none.jsonl: No such file or directory\n"
