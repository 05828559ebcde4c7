"""Small JSON texts give the same values with and without orjson, or are not read here at all."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_tape.wire import jsontext, smalljson
from mcp_tape.wire.smalljson import UnsureError
from tests.support.running import python, run

TEXTS = (
    st.text() | st.text(st.characters(max_codepoint=0x2FF)) | st.sampled_from(["\x7f", "\u2028", "é", "😀", "\\", '"'])
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4))
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=4)
PIECES = r"""
    { } [ ] , : ' "a" "b" "\n" "\u00e9" "\ud800" "é" 1 -0 -1 01 1. .5 0.1 1.5 -0.0 1e2 1E400 9007199254740993
    12345678901234567890 NaN -Infinity true nul null
"""
NEARLY = st.lists(st.sampled_from([*PIECES.split(), " ", "\t", "\x00", "\ufeff"]), max_size=12).map("".join)


def agrees(text: str | bytes) -> bool:
    """Compare, and return whether it was read here."""
    try:
        found = smalljson.loads(text)
    except UnsureError:
        return False
    jsontext.load_orjson()  # from now on with orjson
    expected = jsontext.loads(text)
    assert repr(found) == repr(expected)  # True is not 1, 1 not 1.0, -0.0 not 0.0, and keys keep their order
    return True


@given(OBJECTS)
def test_an_object_is_the_same_value(value: dict[str, Any]) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False), json.dumps(value, indent=1) + "\r\n"):
        agrees(text)
        agrees(text.encode("utf-8", "surrogatepass"))


@given(NEARLY)
@example('{"a":1,"a":2}')
@example('{"a":1}{')
@example('{"a":1} x')
@example('{"a":-0}')
@example('{"a":"\x01"}')
@example('{"a":12345678901234567890}')
@example('{"a":123456789012345678.5}')
def test_near_json_gives_the_same_value_or_is_left_alone(text: str) -> None:
    for whole in (text, f"{{{text}}}", f'{{"a":{text}}}', f'{{"a":[{text}]}}'):
        agrees(whole)
        agrees(whole.encode("utf-8", "surrogatepass"))


@given(st.binary(max_size=20))
def test_any_bytes_are_the_same_value_or_left_alone(data: bytes) -> None:
    agrees(data)
    agrees(b'{"a":"' + data + b'"}')


@pytest.mark.parametrize(
    "text",
    [
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{},"clientInfo":{"name":"é"}}}',
        ' {"jsonrpc": "2.0", "id": "a\\n", "result": {"x": [1, -2.5, true, null]}}\n',
        "{}",
    ],
)
def test_messages_as_clients_send_them_are_read_here(text: str) -> None:
    assert agrees(text) and agrees(text.encode())


@pytest.mark.parametrize(
    "text", ['{"a":"\\u00e9"}', "[1]", "1", "", '{"a":' * 60 + "1" + "}" * 60, "{" + " " * 70_000 + "}"]
)
def test_unusual_deep_and_long_text_is_left_alone(text: str) -> None:
    assert not agrees(text)


@given(VALUES)
def test_the_canonical_form_has_the_same_bytes(value: Any) -> None:
    try:
        found = smalljson.dumps(value, sort_keys=True)
    except UnsureError:
        return
    assert found == orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


@given(VALUES)
def test_a_value_is_written_with_the_same_bytes(value: Any) -> None:
    try:
        found = smalljson.dumps(value)
    except UnsureError:
        return
    assert found == orjson.dumps(value)


@pytest.mark.parametrize("value", ["\ud800", {"\udc00": 1}, {1: 2}, 10**20, 1.5, float("nan"), (1,), [[[]]] * 2])
def test_values_that_are_written_in_more_than_one_way_are_left_alone_or_the_same(value: Any) -> None:
    try:
        assert smalljson.dumps(value, sort_keys=True) == orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except UnsureError:
        pass


LIGHTLY = """
import sys
from mcp_tape.wire import jsontext
assert jsontext.loads(b'{"a":1}') == {"a": 1}
assert jsontext.canonical_bytes({"b": 1, "a": [None]}) == b'{"a":[null],"b":1}'
assert "orjson" not in sys.modules and "json" not in sys.modules and "re" not in sys.modules
"""


@pytest.mark.parametrize("text", ["{...}", '{"a"}', '{"a":}', '{"a":[1,]}', '{"a":"\n"}', '{"a":1', "{,}", '{"a":tru}'])
def test_malformed_text_is_left_alone_before_the_other_parsers_are_loaded(text: str) -> None:
    tried = f"""
try:
    jsontext.smalljson.loads({text!r})
except jsontext.smalljson.UnsureError:
    pass
else:
    raise AssertionError
"""
    assert run(python(LIGHTLY + tried)).stderr == b""


def test_plain_texts_need_no_other_parser() -> None:
    assert run(python(LIGHTLY)).stderr == b""


def test_unusual_text_loads_the_other_parser() -> None:
    done = run(python(LIGHTLY + """assert jsontext.loads('{"a":1e2}') == {"a": 100.0} and "orjson" in sys.modules"""))
    assert done.stderr == b""


@pytest.mark.slow
def test_many_texts_load_the_other_parser() -> None:
    many = "for n in range(20000): assert jsontext.loads('{\"a\":%d}' % n) == {'a': n}\nassert 'orjson' in sys.modules"
    assert run(python(f"{LIGHTLY}\n{many}")).stderr == b""
