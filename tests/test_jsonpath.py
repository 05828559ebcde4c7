"""The small JSONPath that rules and redactions are named by."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.jsonpath import compile_path
from mcp_tape.jsontext import Path

FITS = [
    ("$", ()),
    ("$.params.arguments.now", ("params", "arguments", "now")),
    ("$.a-b.c_d.$x", ("a-b", "c_d", "$x")),
    ("$.naïve", ("naïve",)),
    ("$.items[0].id", ("items", 0, "id")),
    ("$.items[*].id", ("items", 7, "id")),
    ("$.*.id", ("anything", "id")),
    ("$[*]", ("key",)),
    ("$['a b'][\"c.d\"]", ("a b", "c.d")),
    ("$['']", ("",)),
    (r"$['it\'s']", ("it's",)),
    ("$['*']", ("*",)),
    ("$['..'].x", ("..", "x")),
    ("$..token", ("token",)),
    ("$..token", ("a", 0, "b", "token")),
    ("$.params..token", ("params", "x", "token")),
    ("$..a..b", ("a", "x", "b")),
    ("$..['api key']", ("params", "api key")),
    ("$..[0]", ("a", "b", 0)),
    ("$..*", ("a", "b")),
]
FITS_NOT = [
    ("$", ("a",)),
    ("$.a", ()),
    ("$.a", ("a", "b")),
    ("$.a.b", ("a",)),
    ("$.a", ("A",)),
    ("$.items[0]", ("items", 1)),
    ("$.items[0]", ("items", "0")),
    ("$.items['0']", ("items", 0)),
    ("$['*']", ("a",)),
    ("$['..'].x", ("a", "x")),
    ("$..token", ("token", "a")),
    ("$..a.b", ("a", "x", "b")),
    ("$.params..token", ("token",)),
]


@pytest.mark.parametrize(("source", "path"), FITS)
def test_a_jsonpath_fits_the_place_it_names(source: str, path: Path) -> None:
    assert compile_path(source)(path)


@pytest.mark.parametrize(("source", "path"), FITS_NOT)
def test_a_jsonpath_fits_no_other_place(source: str, path: Path) -> None:
    assert not compile_path(source)(path)


@pytest.mark.parametrize(
    "source", ["", "a", ".a", "$.", "$a", "$..", "$[", "$[-1]", "$['a]", "$.a.", "$...a", "$[1", "$.a b"]
)
def test_what_is_not_a_jsonpath_is_refused_with_its_text(source: str) -> None:
    with pytest.raises(ValueError, match="JSONPath") as refused:
        compile_path(source)
    assert repr(source) in str(refused.value)


@given(st.lists(st.text() | st.integers(min_value=0), max_size=5))
def test_any_path_can_be_written_with_brackets(path: list[str | int]) -> None:
    steps = (
        f"[{s}]" if isinstance(s, int) else "['" + s.replace("\\", "\\\\").replace("'", "\\'") + "']" for s in path
    )
    fits = compile_path("$" + "".join(steps))
    assert fits(tuple(path))
    assert not fits((*path, "more"))
