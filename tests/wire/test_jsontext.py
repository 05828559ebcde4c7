"""Verbatim JSON text: spans, splices, and comparison by value."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.wire import jsontext
from tests.support.fuzzing import examples
from tests.support.texts import documents, layouts, lone_surrogates

DEEP = 5_000


def leaves(value: Any, path: jsontext.Path = ()) -> dict[jsontext.Path, Any]:
    """Every value in a document by its path, found by walking the parsed document."""
    found = {path: value}
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in steps:
        found |= leaves(inner, (*path, step))
    return found


@given(documents, layouts)
def test_each_span_holds_the_text_of_the_value_at_its_path(document: Any, layout: Any) -> None:
    text = json.dumps(document, **layout)
    spans = {path: json.loads(text[start:end]) for path, start, end in jsontext.values(text, sys.maxsize)}
    assert spans == leaves(document)


@given(documents, st.integers(min_value=0, max_value=3))
def test_a_depth_leaves_out_only_deeper_values(document: Any, depth: int) -> None:
    text = json.dumps(document)
    shallow = list(jsontext.values(text, depth))
    assert shallow == [found for found in jsontext.values(text, sys.maxsize) if len(found[0]) <= depth]


@given(documents, layouts, st.data())
def test_a_splice_replaces_one_value_only(document: Any, layout: Any, data: st.DataObject) -> None:
    text = json.dumps(document, **layout)
    path = data.draw(st.sampled_from(list(leaves(document))))
    span = jsontext.find(text, path)
    assert span is not None
    spliced = jsontext.splice(text, [(*span, '"new"')])
    assert spliced == text[: span[0]] + '"new"' + text[span[1] :]
    assert leaves(json.loads(spliced))[path] == "new"


@given(documents, layouts)
def test_the_output_of_json_is_well_formed(document: Any, layout: Any) -> None:
    assert jsontext.is_well_formed(json.dumps(document, **layout))


@given(st.text(st.sampled_from('{}[],:"\\ \n1e-.0truefalsnlaué\x01'), max_size=20))
@examples(500)
def test_a_text_is_well_formed_exactly_when_a_parser_accepts_it(text: str) -> None:
    try:
        jsontext.loads(text)
        accepted = True
    except ValueError:
        accepted = False
    assert jsontext.is_well_formed(text) == accepted


@pytest.mark.parametrize("text", ["", " ", "[1,]", "{,}", "[1 2]", '{"a"}', '{"a":}', "{1:2}", "[}", "]", "[]]", "nul"])
def test_broken_json_is_not_well_formed(text: str) -> None:
    assert not jsontext.is_well_formed(text)


def test_nesting_is_no_limit() -> None:
    text = '{"a":' * DEEP + '"x"' + "}" * DEEP
    assert jsontext.is_well_formed(text)
    assert not jsontext.is_well_formed(text[:-1])
    assert not jsontext.is_well_formed(text + "}")
    places = jsontext.PathNumbers()
    spans = list(jsontext.walk(text, 0, places.number_below))
    assert len(spans) == DEEP + 1
    place, start, end = spans[0]
    assert places.path(place) == ("a",) * DEEP
    assert text[start:end] == '"x"'


def test_too_deep_to_parse_is_a_recursion_error_and_not_a_crash() -> None:
    with pytest.raises(RecursionError):
        jsontext.loads("[" * 100_000 + "]" * 100_000)


def test_of_duplicate_keys_the_last_one_counts() -> None:
    text = '{"a":1,"b":{"c":2},"a":3,"b":{"d":4}}'
    assert jsontext.find(text, ("a",)) == (text.index("3"), text.index("3") + 1)
    assert jsontext.find(text, ("b", "d")) == (text.index("4"), text.index("4") + 1)
    assert jsontext.find(text, ("b", "c")) is None  # replaced with the object around it
    assert jsontext.find('{"b":{"c":2},"b":5}', ("b", "c")) is None


@pytest.mark.parametrize("path", [("x",), (0,), ("a", "b"), ("a", 5), ("a", 0, 0)])
def test_a_path_that_is_not_there_has_no_span(path: jsontext.Path) -> None:
    assert jsontext.find('{"a":[1,"b"]}', path) is None


def test_keys_are_compared_decoded() -> None:
    text = r'{"\u0061\"\\":1,"é":2,"\u00e9\ud800":3}'
    assert jsontext.find(text, ('a"\\',)) is not None
    assert jsontext.find(text, ("é",)) is not None
    assert jsontext.find(text, ("é\ud800",)) is not None


def test_of_nested_splices_the_outer_one_counts() -> None:
    text = '{"a":{"b":1},"c":2}'
    outer, inner, other = (jsontext.find(text, path) for path in (("a",), ("a", "b"), ("c",)))
    assert outer and inner and other
    assert jsontext.splice(text, [(*other, "z"), (*inner, "x"), (*outer, "y")]) == '{"a":y,"c":z}'


@given(st.text() | lone_surrogates)
def test_quoting_is_undone_by_unquoting(text: str) -> None:
    token = jsontext.quote(text)
    assert jsontext.unquote(token) == text
    assert json.loads(token) == text
    token.encode()  # a lone surrogate is escaped


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a":-Infinity}', "{'a':1}", "\ufeff{}", '"\x01"', "01"])
def test_invalid_json_is_not_read_as_json(text: str) -> None:
    with pytest.raises(ValueError, match=r"not JSON|line 1|Expecting|BOM"):
        jsontext.loads(text)


def test_lone_surrogates_and_invalid_utf8_are_read() -> None:
    assert jsontext.loads(r'"\ud800"') == "\ud800"
    assert jsontext.loads(b'{"a":"\xff"}') == {"a": "\ufffd"}


@pytest.mark.parametrize("text", ["1", "-1", "123456789012345", '{"a":1,"b":"c"}', "true"])
def test_small_integers_are_exact_as_read(text: str) -> None:
    assert jsontext.loads(text) == jsontext.loads_exact(text)


@given(st.integers())
def test_integers_are_exact_at_any_size(number: int) -> None:
    assert jsontext.loads_exact(f"[{number}]") == [number]


@pytest.mark.parametrize(
    "same", [("1", "1.0", "1e0", "1E+0", "10e-1"), ("100", "1e2"), ("-0", "0", "0.0"), ("0.5", "5e-1")]
)
def test_equal_numbers_have_one_canonical_form(same: tuple[str, ...]) -> None:
    assert len({jsontext.canonical_bytes(jsontext.loads_exact(text)) for text in same}) == 1


@pytest.mark.parametrize(
    "other",
    [
        ("1", "true"),
        ("1", '"1"'),
        ("0", "null"),
        ("100000000000000000000000000001", "100000000000000000000000000002"),
        ("9007199254740993", "9007199254740992.0"),
        ("1e400", "1e401"),
        ("9" * 5000, "8" * 5000),
        ('"\\ud800"', '"\\ud801"'),
    ],
    ids=str,
)
def test_different_values_have_different_canonical_forms(other: tuple[str, str]) -> None:
    one, two = (jsontext.canonical_bytes(jsontext.loads_exact(text)) for text in other)
    assert one != two


@given(documents, documents)
def test_canonical_forms_are_equal_exactly_when_values_are(one: Any, two: Any) -> None:
    def strict(value: Any) -> str:
        return json.dumps(value, sort_keys=True)

    def form(value: Any) -> bytes:
        return jsontext.canonical_bytes(json.loads(json.dumps(value)))

    assert (form(one) == form(two)) == (strict(one) == strict(two))


def test_a_canonical_form_does_not_depend_on_key_order_at_any_depth_or_size() -> None:
    for wide in (1, 10**30, "\ud800"):
        one = {"a": wide, "b": {"c": [1], "d": None}}
        two = {"b": {"d": None, "c": [1]}, "a": wide}
        assert jsontext.canonical_bytes(one) == jsontext.canonical_bytes(two)
        assert jsontext.canonical_bytes([one]) != jsontext.canonical_bytes([two, 1])
    deep: Any = {"x": 1, "y": 2}
    turned: Any = {"y": 2, "x": 1}
    for _ in range(DEEP):
        deep, turned = [deep], [turned]
    assert jsontext.canonical_bytes(deep) == jsontext.canonical_bytes(turned)
    assert jsontext.canonical_bytes(deep) != jsontext.canonical_bytes([deep])


@pytest.mark.parametrize(("value", "text"), [(1, "1"), (1.0, "1"), (1.5, "1.5"), (-0.0, "0"), (2**80, str(2**80))])
def test_a_number_is_written_by_its_value(value: float, text: str) -> None:
    assert jsontext.number_text(value) == text


def of_bytes(text: str) -> Any:
    return jsontext.loads(text.encode())


@pytest.mark.parametrize("read", [jsontext.loads, of_bytes, jsontext.loads_exact, jsontext.loads_frugally])
@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}"), ('{"a":[', "]}")])
@pytest.mark.parametrize("core", ["1", r'"\ud800"', '"["'])
def test_the_depth_that_is_parsed_is_the_same_everywhere(read: Any, begin: str, end: str, core: str) -> None:
    def nested(levels: int) -> str:
        times = levels // len(end)
        return begin * times + core + end * times

    assert read(nested(jsontext.DEEPEST))
    with pytest.raises(RecursionError):
        read(nested(jsontext.DEEPEST + len(end)))
    wide = "[" + ",".join(["[{}]"] * 1000) + "]"
    assert len(read(wide)) == 1000


@pytest.mark.parametrize("number", ["1e-99999999999999999999", "0E-99999999999999999999", "-1e-99999999999999999999"])
def test_a_number_with_an_exponent_beyond_all_bounds_is_as_good_as_nothing(number: str) -> None:
    assert jsontext.loads_exact(f"[{number}]") == [0]
    assert jsontext.loads(f"[{number}]") == [0]
