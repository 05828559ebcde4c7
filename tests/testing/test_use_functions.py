"""Functions of a test that take part in a replay: rules, faults, and stand-ins that answer instead of the tape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_tape import TapeError, use_cassette
from tests.support.decks import make_cassette
from tests.support.live import INITIALIZE, Client, modern
from tests.support.messages import call, lines, request, result
from tests.support.running import WAIT, python, run
from tests.support.using import GREETING, HELLO, answers, over_http, session
from tests.testing.test_use import ROOT


@pytest.fixture
def cassette(tmp_path: Path) -> Path:
    return make_cassette(tmp_path / "tape.db", session(("a", "one"), ("a", "two"), ("b", "bee")))


def test_a_rule_decides_which_recording_answers(tmp_path: Path) -> None:
    def same_city(recorded: dict[str, Any], live: dict[str, Any]) -> str | None:
        pair = [each.get("params", {}).get("arguments", {}).get("city", "").lower() for each in (recorded, live)]
        return None if pair[0] == pair[1] else f"{pair[0]} is not {pair[1]}"

    said = [*GREETING, ("client", call(1, "w", city="Bern")), ("server", result(1, "sunny"))]
    with use_cassette(make_cassette(tmp_path / "tape.db", said), "none", match_on=[same_city]) as tape:
        asked = [call(1, "w", city="BERN", now=3), call(2, "w", city="Basel")]
        assert [over_http(tape, *asked)[0], answers(tape.command, lines(*asked))[0]] == ["sunny", "sunny"]
        assert [miss.call.params["arguments"] for miss in tape.misses] == [{"city": "Basel"}] * 2


def test_a_fault_strikes_the_calls_that_it_chooses(cassette: Path) -> None:
    def every_b(live: dict[str, Any]) -> str | None:
        return "error:-32000" if live.get("params", {}).get("name") == "b" else None

    with use_cassette(cassette, "none", faults=[every_b, "tools/call:a@2=error:-1"]) as tape:
        one, two, bee = over_http(tape, call(1, "a"), call(2, "a"), call(3, "b"))
        assert (one, two["code"], bee["code"]) == ("one", -1, -32000)
        assert not tape.misses


def test_a_fault_may_choose_the_exit_code_of_the_command(cassette: Path) -> None:
    with use_cassette(cassette, "none", faults=["tools/call=exit:3"]) as tape:
        codes = [run(tape.command, HELLO + script).returncode for script in (b"", lines(call(1, "a")), b"")]
        assert codes == [0, 3, 0]


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("how", ["command", "url"])
def test_a_function_that_raises_is_not_hushed_up(cassette: Path, how: str) -> None:
    asked = {
        "command": f"subprocess.run(tape.command, input={HELLO!r}, timeout={WAIT})",
        "url": f"Client(tape.url).told({INITIALIZE!r})",
    }
    source = f"""
import subprocess
from mcp_tape import use_cassette
from tests.support.live import Client
def broken(recorded, live):
    raise KeyError("in my rule")
with use_cassette({str(cassette)!r}, "none", match_on=[broken]) as tape:
    print(list({asked[how]}) if {how == "url"} else {asked[how]}.stdout)
"""
    done = run(python(source), cwd=ROOT)
    assert b"KeyError: 'in my rule'" in done.stderr


def test_functions_answer_instead_of_the_tape(cassette: Path) -> None:
    with use_cassette(cassette, "none") as tape:

        @tape.on("tools/call", tool="a")
        def a(**given: Any) -> Any:
            return {"content": [], "structuredContent": given}

        @tape.on("resources/read", name="tape://x")
        def read(params: Any) -> Any:
            return {"contents": [params["uri"]]}

        asked = [call(1, "a", n=1), request(2, "resources/read", uri="tape://x"), call(3, "b")]
        assert a(n=2)["structuredContent"] == {"n": 2}  # the function itself is unchanged
        whole = {"content": [], "structuredContent": {"n": 1}}
        assert answers(tape.command, lines(*asked)) == [whole, {"contents": ["tape://x"]}, "bee"]
        assert over_http(tape, asked[2]) == ["bee"]
        assert [each.result for each in tape.calls(name="a")] == [whole]
        assert [each.session for each in tape.calls()] == [1, None, None, 1, 1, 1]
        assert not tape.misses


def text(result: Any) -> str:
    (block,) = result["content"]
    assert block["type"] == "text"
    return str(block["text"])


def test_a_tool_may_return_a_text_or_any_value_or_raise(cassette: Path) -> None:
    with use_cassette(cassette, "none") as tape:
        returned = iter(["plain", {"n": 1}, None, {1, 2}])
        tape.on("tools/call")(lambda **given: next(returned))
        tape.on("tools/call", tool="b")(lambda wanted: wanted)
        asked = [call(n, "a") for n in range(4)] + [call(5, "b"), call(6, "b", wanted="w")]
        *fine, odd, unfit, last = answers(tape.command, lines(*asked))
        assert [text(result) for result in fine] == ["plain", '{"n":1}', "null"]
        assert odd["isError"] and "set" in text(odd)  # not JSON
        assert unfit["isError"] and "wanted" in text(unfit)  # the function takes no such arguments
        assert last == {"content": [{"type": "text", "text": "w"}]}  # the newest that matches


def test_a_function_for_another_method_that_raises_is_an_error(cassette: Path) -> None:
    with use_cassette(cassette, "none") as tape:

        @tape.on("prompts/get")
        def prompt(params: Any) -> Any:
            raise ValueError(f"no {params['name']}")

        assert answers(tape.command, lines(request(1, "prompts/get", name="p"))) == [
            {"code": -32603, "message": "no p"}
        ]


def test_structured_content_of_the_output_schema_is_added(tmp_path: Path) -> None:
    wrapped = {"type": "object", "properties": {"result": {"type": "string"}}}
    tools = [{"name": "now", "outputSchema": wrapped}, {"name": "sum", "outputSchema": {"type": "object"}}, "junk"]
    listed = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}})
    path = make_cassette(tmp_path / "tape.db", [*GREETING, ("client", request(1, "tools/list")), ("server", listed)])
    with use_cassette(path, "none") as tape:
        tape.on("tools/call", tool="now")(lambda: "noon")
        tape.on("tools/call", tool="sum")(lambda a, b: {"sum": a + b})
        now, total = answers(tape.command, lines(call(1, "now"), call(2, "sum", a=1, b=2)))
        assert (text(now), now["structuredContent"]) == ("noon", {"result": "noon"})
        assert total["structuredContent"] == {"sum": 3}


def test_a_modern_client_gets_a_modern_result(tmp_path: Path) -> None:
    path = make_cassette(tmp_path / "tape.db", [("client", modern(1, "a")), ("server", result(1))])
    with use_cassette(path, "none") as tape:
        tape.on("tools/call", tool="b")(lambda: "bee")
        tape.on("tools/call", tool="c")(lambda: 1 / 0)
        bodies = [next(Client(tape.url).told(modern(n, tool))) for n, tool in enumerate("bc")]
        assert [body["result"]["resultType"] for body in bodies] == ["complete", "complete"]
        assert [body["result"].get("isError") for body in bodies] == [None, True]


def test_an_asynchronous_function_is_refused(cassette: Path) -> None:
    async def late() -> str:
        return "never"

    with use_cassette(cassette, "none") as tape, pytest.raises(TapeError, match=r"late.*asynchronous"):
        tape.on("tools/call", tool="a")(late)
