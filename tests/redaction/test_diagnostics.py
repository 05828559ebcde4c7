"""Messages about live traffic hide everything that a recording of it would hide."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.cassette.reader import Cassette
from mcp_tape.redaction.diagnostics import FAILED, DiagnosticRedactor, Rules
from mcp_tape.replay.stage import ReplayOptions, Stage
from mcp_tape.testing.use import Miss
from mcp_tape.wire.frames import Exchange
from tests.support import fuzzing
from tests.support.decks import Player, make_cassette
from tests.support.messages import call, request, result
from tests.support.plugin import Suite
from tests.support.running import MCP_TAPE, run
from tests.support.vcr import HELLO, Vcr

TOKEN = "ghp_" + "a1B2c3D4e5" * 4
PASSWORD = "Tr0ub4dor-and-3"
VARIABLE = "q7Hs2-vLm40-tKe9"
ADDRESS = f"postgres://ada:{PASSWORD}@db.example/orders"
HIDDEN_ADDRESS = "postgres://ada:[redacted:shape:url-password]@db.example/orders"


def read(rpc_id: Any, uri: str) -> str:
    return request(rpc_id, "resources/read", uri=uri)


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    asked = call(1, "search", query="cats"), read(2, "file:///a"), call(3, "login", user="ada", password="hunter2-etc")
    return make_cassette(
        tmp_path / "tape.db",
        [said for n, text in enumerate(asked, 1) for said in (("client", text), ("server", result(n)))],
    )


def said_of(tape: Path, *requests: str, rules: Rules | None = None) -> str:
    """Everything printed about some requests: to the client, and to the user."""
    player = Player(tape, discreet=DiagnosticRedactor(rules or Rules()))
    answers = [answer for text in requests for answer in player.say(text)]
    return "\n".join([*answers, *(fact.text for fact in player.facts)])


@pytest.mark.parametrize(
    "text",
    [
        read(1, ADDRESS),
        request(1, "prompts/get", name=f"deploy-{TOKEN}"),
        request(1, f"custom/{TOKEN}"),
        call(1, "search", query=ADDRESS),
        call(1, "search", query="cats", **{TOKEN: "yes"}),
        call(1, "search", query="cats", more={"a": [{TOKEN: 1, ADDRESS: 2}]}),
        call(1, f"search-{TOKEN}", query="cats"),
        call(1, "search", text=json.dumps({"api_key": PASSWORD})),
    ],
    ids=["name", "method nobody recorded", "method", "value", "key", "key within a value", "tool", "JSON in a text"],
)
def test_a_miss_shows_no_secret_at_any_place(tape: Path, text: str) -> None:
    said = said_of(tape, text)
    assert "miss: " in said
    assert "[redacted:" in said
    assert PASSWORD not in said
    assert TOKEN not in said


def value(case: fuzzing.Case, depth: int = 0) -> Any:
    """A random value that may contain the secret."""
    kinds: list[Callable[[], Any]] = [
        lambda: case.choice([1, None, 1.5, "word", VARIABLE, f"https://h/?q={VARIABLE}", f"\0{VARIABLE}"]),
        lambda: "x" * case.randrange(130) + f" {VARIABLE} and more",
        lambda: json.dumps({VARIABLE: [VARIABLE]}),
        lambda: [value(case, depth + 1) for _ in range(case.randrange(4))],
        lambda: {
            case.choice(["a", VARIABLE, f"k {VARIABLE}"]): value(case, depth + 1) for _ in range(case.randrange(4))
        },
    ]
    return case.choice(kinds[: 5 if depth < 3 else 3])()


@pytest.mark.slow
def test_a_variable_anywhere_in_a_request_is_never_shown(tape: Path) -> None:
    for case in fuzzing.cases(60):
        method = case.choice(["tools/call", "resources/read", f"x/{VARIABLE}"])
        name, uri = case.choice(["search", f"t-{VARIABLE}"]), case.choice(["file:///a", f"db://{VARIABLE}@x"])
        asked = request(1, method, name=name, uri=uri, arguments=value(case))
        assert VARIABLE not in said_of(tape, asked, rules=Rules(environ={"ACME_TOKEN": VARIABLE}))


@pytest.mark.parametrize("before", range(70, 111, 10))
def test_values_are_hidden_before_they_are_cut(tape: Path, before: int) -> None:
    said = said_of(tape, call(1, "search", query="x" * before + f" {TOKEN} and more"))
    assert "x" * before in said
    assert TOKEN[:12] not in said


@pytest.mark.parametrize(
    "rules",
    [
        Rules(keys=("pin_code",)),
        Rules(paths=("$.params.arguments.pinCode",)),
        Rules(paths=("$.params.arguments",)),
        Rules(values=("17-[0-9]+",)),
        Rules(functions=(lambda text: text.replace("17-4711", "[redacted:own]"),)),
        Rules(headers=(("X-Door", "door 17-4711"),)),
        Rules(environ={"DOOR_KEY": "door 17-4711"}),
    ],
    ids=["key", "path", "path above", "value", "function", "header", "variable"],
)
def test_own_rules_hold_for_misses_too(tape: Path, rules: Rules) -> None:
    text = call(1, "search", query="cats", pinCode="door 17-4711")
    assert "17-4711" in said_of(tape, text)
    assert "17-4711" not in said_of(tape, text, rules=rules)


def test_a_value_seen_under_a_secret_name_is_not_shown_later(tape: Path) -> None:
    login = call(1, "login", user="ada", password=PASSWORD)
    said = said_of(tape, login, call(2, "search", query=f"is {PASSWORD} good?"))
    assert "is [redacted:key:password] good?" in said


def test_a_rule_that_raises_hides_everything_and_the_client_still_gets_its_answer(tape: Path) -> None:
    def raises(text: str) -> str:
        raise OSError(text)

    said = said_of(tape, read(1, ADDRESS), rules=Rules(functions=(raises,)))
    assert FAILED in said
    assert json.loads(said.splitlines()[0])["error"]["code"] == -32010
    assert PASSWORD not in said


def test_half_characters_and_too_deep_values_are_no_obstacle(tape: Path) -> None:
    deep = call(1, "search", query="§").replace('"\\u00a7"', "[" * 2000 + "]" * 2000)
    said = said_of(tape, read(1, f"{ADDRESS}\ud800"), deep)
    assert said.count("miss: ") == 2
    assert PASSWORD not in said


def test_the_first_line_of_a_private_key_hides_only_its_own_text() -> None:
    discreet = DiagnosticRedactor()
    assert "MII" not in discreet.text("-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg")
    assert discreet.text("tools/call longerThanTwentyCharacters") == "tools/call longerThanTwentyCharacters"


def test_advice_names_no_tool_that_holds_a_secret(tmp_path: Path) -> None:
    recorded, live = (call(1, f"deploy-{TOKEN}", n=n) for n in (1, 2))
    tape = make_cassette(tmp_path / "tape.db", [("client", recorded), ("server", result(1))])
    said = said_of(tape, live)
    assert "--ignore 'tools/call=$.params.arguments.n'" in said and TOKEN not in said


def test_notes_and_reports_show_no_secret(tape: Path, tmp_path: Path) -> None:
    said: list[str] = []
    log = tmp_path / "report.jsonl"
    with Cassette(tape) as cassette:
        options = ReplayOptions(report=str(log), ignore=("$.params.uri",), redact_values=("no. [0-9]+",))
        stage = Stage(cassette, options, said.append)
        player, _ = stage.deck()
        for text in (read(TOKEN, ADDRESS), call("no. 4711", "search", query="dogs"), result(TOKEN)):
            player.receive(text.encode(), "stdio", 0.0)
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(row["what"], row.get("name"), row.get("id")) for row in rows] == [
        ("played", HIDDEN_ADDRESS, "[redacted:shape:github]"),
        ("inexact", HIDDEN_ADDRESS, "[redacted:shape:github]"),
        ("miss", "search", "[redacted:value]"),
        ("note", None, None),
    ]
    assert said[1] == 'note: the client answered "[redacted:shape:github]", which was not asked'


@pytest.mark.slow
def test_passed_on_calls_are_named_without_their_secrets(tmp_path: Path) -> None:
    vcr = Vcr(tmp_path)
    make_cassette(vcr.tape, [("client", call(1, "a")), ("server", result(1))])
    done = vcr.run("new_episodes", HELLO + f"{read(5, ADDRESS)}\n".encode(), "--redact-value", "db.example")
    assert json.loads(done.stdout.splitlines()[-1])["id"] == 5
    hidden = HIDDEN_ADDRESS.replace("db.example", "[redacted:value]")
    assert f"passed on to the live server: resources/read {hidden}\n".encode() in done.stderr
    assert PASSWORD in vcr.heard()[-1]


def test_a_secret_of_a_live_server_is_not_repeated_when_the_client_uses_it(tape: Path) -> None:
    discreet = DiagnosticRedactor()
    player = Player(tape, discreet=discreet)
    discreet.hear(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"token": "q7Rt5vY9zK1m"}}).encode())
    player.say(read(2, "note://q7Rt5vY9zK1m/a"))
    assert "miss: resources/read note://[redacted:key:token]/a\n" in player.told("miss")[0]


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize("options", [["replay", "--strict"], ["use", "--mode", "new_episodes"], ["verify"]])
def test_a_line_break_in_a_name_begins_no_line_of_its_own(tmp_path: Path, options: list[str]) -> None:
    tool, method = "a\n::error::tool", "b\r\n::error::method"
    recorded = [call(1, tool, n=1), request(2, method, n=1)]
    said = [one for n, text in enumerate(recorded, 1) for one in (("client", text), ("server", result(n)))]
    tape = make_cassette(tmp_path / "tape.db", said)
    asked = "\n".join([call(1, tool, n=2), request(2, method, n=2), request(3, "c\n::error::unknown")])
    server = [] if options[0] == "replay" else ["--", "true"]
    done = run([*MCP_TAPE, *options, str(tape), *server], asked.encode() + b"\n")
    assert b"a ::error::tool" in done.stderr
    assert not [line for line in done.stderr.splitlines() if line.lstrip().startswith(b"::")]


def test_replay_applies_own_rules_to_its_output(tape: Path) -> None:
    asked = call(1, "search", query="C-17").encode()
    done = run([*MCP_TAPE, "replay", str(tape), "--redact-value", "C-[0-9]+"], asked)
    assert done.returncode == 1
    assert b"C-17" not in done.stdout + done.stderr


def test_a_test_that_misses_shows_no_secret(suite: Suite) -> None:
    suite.record("test_it/test_one", "a")
    suite.test(f"def test_one(mcp_tape): ask(mcp_tape, '{TOKEN[:9]}' + '{TOKEN[9:]}')\n")
    result = suite.run("--junitxml=junit.xml", "--show-capture=no")
    result.stdout.fnmatch_lines(["1 call missed: tools/call [[]redacted:shape:github]"])
    assert TOKEN not in result.stdout.str() + (suite.path / "junit.xml").read_text()


def test_a_failed_assertion_on_misses_shows_no_params() -> None:
    asked = Exchange(None, None, "client", "tools/call", "search", "1", {"password": PASSWORD})
    assert repr([Miss(asked, "miss: tools/call search\n  …")]) == "[Miss('tools/call search')]"
