"""Match keys: equal for equivalent requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.record.tape import Tape
from mcp_tape.redaction.redactor import Redactor
from mcp_tape.wire import frames, match
from tests.support.decks import FACTS, OneSession, Player
from tests.support.reading import invoke
from tests.support.running import frames as frames_of

CALL = "tools/call"


def key(params: str | None, method: str = CALL) -> bytes:
    """The key of a request with these params as JSON text, computed as in a recorder."""
    text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method})
    if params is not None:
        text = text[:-1] + f', "params": {params}}}'
    _, (message,) = frames.parse(text.encode("utf-8", "surrogatepass"))
    return match.message_key(message, text.encode("utf-8", "surrogatepass"))


def arguments(text: str) -> bytes:
    return key(f'{{"name":"t","arguments":{text}}}')


def meta(text: str) -> str:
    return f'{{"name":"t","_meta":{text}}}'


def test_a_key_has_sixteen_bytes() -> None:
    assert len(match.request_key(CALL, {"name": "t"})) == 16


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1,"b":{"c":2,"d":3}}', '{ "b" : {"d":3, "c":2}, "a": 1 }'),
        ('{"a":1}', '{"a":1.0}'),
        ('{"a":1}', '{"a":1e0}'),
        ('{"a":1}', '{"a":10E-1}'),
        ('{"a":100}', '{"a":1e2}'),
        ('{"a":0.5}', '{"a":5e-1}'),
        ('{"a":0}', '{"a":-0}'),
        ('{"a":1,"a":2}', '{"a":2}'),
        ('{"a":{"x":1},"a":2}', '{"a":2}'),
        (r'{"a":"\u0062"}', '{"a":"b"}'),
        (r'{"\u0061":1}', '{"a":1}'),
        ('{"a":"\\/"}', '{"a":"/"}'),
    ],
)
def test_the_same_arguments_written_differently_have_one_key(one: str, other: str) -> None:
    assert arguments(one) == arguments(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1}', '{"a":2}'),
        ('{"a":1}', '{"a":"1"}'),
        ('{"a":1}', '{"a":true}'),
        ('{"a":0}', '{"a":false}'),
        ('{"a":null}', "{}"),
        ('{"a":{}}', "{}"),
        ('{"a":[]}', '{"a":{}}'),
        ('{"a":[1,2]}', '{"a":[2,1]}'),
        ('{"a":""}', '{"a":null}'),
        ('{"a":"b"}', '{"a":"B"}'),
        ('{"a":123456789012345678901234567890}', '{"a":123456789012345678901234567891}'),
        ('{"a":9007199254740993}', '{"a":9007199254740992}'),
        ('{"a":18446744073709551616}', '{"a":18446744073709551617}'),
        (r'{"a":"\ud800"}', r'{"a":"\ud801"}'),
    ],
)
def test_different_arguments_have_different_keys(one: str, other: str) -> None:
    assert arguments(one) != arguments(other)


def test_a_thirty_digit_integer_is_exact_in_any_spelling() -> None:
    assert arguments('{"a":123456789012345678901234567890}') == arguments('{"a":123456789012345678901234567890.0}')


def test_the_method_and_the_name_count() -> None:
    assert key('{"name":"t"}') != key('{"name":"u"}')
    assert key("{}", "tools/list") != key("{}", "prompts/list")


@pytest.mark.parametrize(
    "params", [None, "null", "{}", '{"_meta":{"progressToken":1}}', '{"cursor":null}', '{"cursor":{}}']
)
def test_absent_null_and_empty_params_are_one(params: str | None) -> None:
    assert key(params, "tools/list") == key("{}", "tools/list")


@pytest.mark.parametrize("params", ['{"name":"t"}', '{"name":"t","arguments":null}', '{"name":"t","arguments":{}}'])
def test_absent_null_and_empty_arguments_are_one(params: str) -> None:
    assert key(params) == key('{"name":"t"}')


def test_elsewhere_null_is_not_absent() -> None:
    assert key('{"name":"t","task":null}') != key('{"name":"t"}')
    assert key('{"cursor":"a"}', "tools/list") != key("{}", "tools/list")
    assert key('{"cursor":""}', "tools/list") != key("{}", "tools/list")
    assert arguments('{"arguments":null}') != arguments("{}")


@pytest.mark.parametrize("text", ["{}", "null", "1", '{"progressToken":"p"}', '{"traceparent":"00-1","x":[1,2]}'])
def test_all_of_meta_is_left_out(text: str) -> None:
    assert key(meta(text)) == key('{"name":"t"}')


def test_meta_within_arguments_counts() -> None:
    assert arguments('{"_meta":1}') != arguments('{"_meta":2}')


def test_initialize_has_the_same_key_for_every_client() -> None:
    one = '{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"a","version":"1"}}'
    two = '{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"b"}}'
    assert key(one, "initialize") == key(two, "initialize") == key(None, "initialize")
    assert key(one) != key(two)  # only there


def test_of_input_responses_only_the_names_count() -> None:
    first = '{"name":"t","requestState":"s","inputResponses":{"date":{"action":"accept"},"sure":1}}'
    other_answer = '{"name":"t","requestState":"s","inputResponses":{"sure":2,"date":{"action":"decline"}}}'
    other_name = '{"name":"t","requestState":"s","inputResponses":{"date":1}}'
    other_state = '{"name":"t","requestState":"s2","inputResponses":{"date":1,"sure":1}}'
    assert key(first) == key(other_answer)
    assert len({key(first), key(other_name), key(other_state)}) == 3


def test_a_value_under_a_secret_key_counts_as_one_constant() -> None:
    same = {arguments(f'{{"api_key":"{value}","q":1}}') for value in ("one-Secret-1", "two", "[redacted:key:api_key]")}
    assert len(same) == 1
    assert arguments('{"deep":[{"password":"a"}]}') == arguments('{"deep":[{"password":"b"}]}')
    assert arguments('{"api_key":"a","q":1}') != arguments('{"api_key":"a","q":2}')
    assert arguments('{"api_key":"a"}') != arguments("{}")
    assert arguments('{"progressToken":"a"}') != arguments('{"progressToken":"b"}')


PIN = "[redacted:path:$.params.arguments.pin]"


@pytest.mark.parametrize("live", [1234, 0, 1.5, True, False, None, "", "1234", [1, 2], [], {"a": 1}, {}])
def test_a_value_redacted_by_path_matches_any_value(live: Any) -> None:
    assert match.fits_redacted({"pin": PIN, "door": 7}, {"pin": live, "door": 7})
    assert match.fits_redacted([PIN, 7], [live, 7])
    assert not match.fits_redacted({"pin": PIN, "door": 7}, {"pin": live, "door": 8})


@pytest.mark.parametrize(
    ("recorded", "live"),
    [
        ({"pin": PIN}, {}),
        ({"pin": f"{PIN}!"}, {"pin": 1234}),
        ({"pin": "[redacted:key:pin]"}, {"pin": 1234}),
        ({"pin": "[redacted:value]"}, {"pin": ""}),
        ({"pin": "[redacted:shape:jwt]"}, {"pin": None}),
    ],
)
def test_a_text_that_was_hidden_fits_texts_only(recorded: Any, live: Any) -> None:
    assert not match.fits_redacted(recorded, live)


def recorded(path: Path, asked: str, answer: str, redactor: Redactor | None) -> None:
    writer = OneSession(path, {"started_at": "2026-01-01T00:00:00Z"} | FACTS)
    tape = Tape(lambda frame, entries: writer.append([(frame, entries)], {}), redactor)
    tape.feed("client", "stdio", asked.encode() + b"\n", 0)
    tape.feed("server", "stdio", answer.encode() + b"\n", 1)
    writer.finish({"ended_at": "2026-01-01T00:00:01Z"})
    writer.close()


@pytest.mark.parametrize("pin", ["1234", "true", "[1,2]", '{"a":{"b":1}}', "1e400", '"text"', "null"])
@pytest.mark.parametrize("when", ["recorded", "later"])
def test_a_request_matches_any_value_redacted_by_path(tmp_path: Path, pin: str, when: str) -> None:
    asked = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"open","arguments":{{"pin":{pin}}}}}}}'
    path, answer = tmp_path / "tape.db", '{"jsonrpc":"2.0","id":1,"result":{}}'
    place = "$.params.arguments.pin"
    recorded(path, asked, answer, Redactor({}, paths=[place]) if when == "recorded" else None)
    if when == "later":
        assert invoke("redact", path, "--redact-path", place).exit_code == 0
    assert frames_of(path)[0].text.decode() == asked.replace(pin, json.dumps(PIN))
    assert Player(path).say(asked) == [answer]
    assert "-32010" in Player(path).say(asked.replace("open", "shut"))[0]


@pytest.mark.slow(quick=8)
@pytest.mark.parametrize("levels", [100, 300, 600, 900, 1000, 1020, 1100, 2000, 20_000])
def test_nesting_at_any_depth_has_a_key(levels: int) -> None:
    def nested(core: str) -> str:
        return '{"a":' + "[" * levels + core + "]" * levels + "}"

    for one, other in (("1", "2"), ("1.5", "2.5"), ('{"token":"a","n":1}', '{"token":"a","n":2}')):
        assert arguments(nested(one)) == arguments(nested(one))
        assert arguments(nested(one)) != arguments(nested(other))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=5), values, max_size=4), st.randoms(use_true_random=False))
def test_neither_key_order_nor_layout_changes_a_key(params: dict[str, Any], random: Any) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            names = list(value)
            random.shuffle(names)
            return {name: shuffled(value[name]) for name in names}
        return [shuffled(item) for item in value] if isinstance(value, list) else value

    plain = key(json.dumps({"name": "t", "arguments": params}))
    assert plain == key(json.dumps(shuffled({"arguments": params, "name": "t"}), ensure_ascii=False, indent=1))


@pytest.mark.parametrize(
    ("recorded", "live"),
    [
        ([PIN, 7], ["a", 7, 7]),
        ([PIN, 7], ["a"]),
        ([PIN, 7], ["a", 8]),
        ([PIN, 7], [7, "a"]),
        ([PIN], "a"),
        ([PIN, [PIN, 1]], ["a", ["b", 2]]),
        ({"pin": PIN}, {"pin": "a", "more": 1}),
        ({"pin": PIN, "door": 1}, {"pin": "a"}),
        ({"pin": PIN}, ["a"]),
    ],
)
def test_a_placeholder_fits_only_where_all_else_is_equal(recorded: Any, live: Any) -> None:
    assert not match.fits_redacted(recorded, live)
