"""The strings of a JSON text: the quick walks find the same as the slow one."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_tape.redaction import strings
from mcp_tape.redaction.strings import StringValue, StringValues
from mcp_tape.wire import jsontext, protocol
from tests.support.texts import documents, layouts


def slowly(text: str) -> list[StringValue]:
    found = [(path, start, end) for path, start, end in jsontext.values(text, sys.maxsize) if text[start] == '"']
    return [(start, end, names(path), not path or isinstance(path[-1], int)) for path, start, end in found]


def names(path: jsontext.Path) -> tuple[str, ...]:
    """The keys of a path: all, or of many the first six, one word for the middle, and the last."""
    keys = [step for step in path if isinstance(step, str)]
    if len(keys) <= 8:
        return tuple(keys)
    between = [key for key in keys[6:-1] if key in protocol.SCHEMA_KEYS]
    return (*keys[:6], between[0] if between else keys[-2], keys[-1])


@given(documents, layouts)
@example({"a": ["x", {"b": "y", "c": {}}, "z", []], "d": [[], "v"], "e": "w"}, {"separators": (" ,\r\n", "\t: ")})
@example(["x", "y"], {})
@example("x", {})
@example({"": {"": "x"}, ":": ": ", ",": "}"}, {})
def test_each_string_is_found_with_its_place_its_keys_and_whether_it_is_in_a_list(document: Any, layout: Any) -> None:
    text = json.dumps(document, **layout)
    expected = slowly(text)
    assert list(StringValues(text)) == expected
    assert list(strings._scan_escaped(text)) == expected
    if "\\" not in text:
        assert list(strings._scan_unescaped(text)) == expected


@pytest.mark.parametrize("more", ["", "\\n"])
def test_the_strings_of_a_long_text_can_be_gone_through_twice(more: str) -> None:
    text = json.dumps({"a": ["x" * 40_000, {"b": "y", "c": 1}], "d": more})
    values = StringValues(text)
    assert list(values) == list(values) == slowly(text)


def test_strings_at_any_depth_are_found() -> None:
    text = '{"a":[' * 3_000 + '"x"' + "]}" * 3_000
    assert list(StringValues(text)) == [(18_000, 18_003, ("a",) * 8, True)]


@given(st.lists(st.sampled_from(["a", "b", "inputSchema", "outputSchema"]), max_size=30))
def test_of_many_keys_those_are_kept_that_matter(keys: list[str]) -> None:
    text = "".join(json.dumps({key: [0]})[:-2] + "," for key in keys) + '"x"' + "]}" * len(keys)
    ((start, _, kept, listed),) = StringValues(text) if keys else [(0, 0, (), True)]
    assert kept == names(tuple(keys))
    assert listed and (not keys or text[start] == '"')
    assert protocol.SCHEMA_KEYS.isdisjoint(kept) == protocol.SCHEMA_KEYS.isdisjoint(keys)
    assert kept[-1:] == tuple(keys[-1:])
