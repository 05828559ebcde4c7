"""The terms of a contract, as people write them."""

from __future__ import annotations

import pytest

from mcp_tape.cassette.query.filters import FilterError, parse
from mcp_tape.contracts.terms import limit, parse_terms, term


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("tools/call", "method:tools/call"),
        ("resources/*", "method:resources/*"),
        ("notifications/tools/list_changed", "method:notifications/tools/list_changed"),
        ("tools/call status:error", "method:tools/call status:error"),
        ("-tools/call", "-method:tools/call"),
        ("tool:search", "tool:search"),
        ('"tools/call"', '"tools/call"'),  # the literal text
        ("ping", "ping"),
    ],
)
def test_a_bare_word_with_a_slash_is_a_method(written: str, meant: str) -> None:
    assert term(written).kept == parse(meant)


def test_show_takes_a_bare_word_with_a_slash_as_text() -> None:
    assert parse("tools/call") == parse('"tools/call"') != term("tools/call").kept


@pytest.mark.parametrize(
    ("written", "filter_", "most"),
    [
        ("tools/call<=20", "tools/call", 20),
        ("tool:search <= 0", "tool:search", 0),
        ("tool:a dur:<=50<=3", "tool:a dur:<=50", 3),
    ],
)
def test_a_limit_is_a_filter_and_a_number(written: str, filter_: str, most: int) -> None:
    assert limit(written) == (term(filter_), most)


@pytest.mark.parametrize(
    "written", ["", "tools/call", "<=3", "tools/call<=", "tools/call<=x", "tools/call<3", "dur:<=5"]
)
def test_an_invalid_limit_is_refused(written: str) -> None:
    with pytest.raises(FilterError):
        limit(written)


@pytest.mark.parametrize("written", ["", "  "])
def test_a_term_must_say_something(written: str) -> None:
    with pytest.raises(FilterError, match="keeps everything"):
        term(written)


def test_a_test_may_give_numbers() -> None:
    assert parse_terms([], "tool:a", [("tools/call", 2)], 0.5, 40_000) == parse_terms(
        [], ["tool:a"], [("tools/call", 2)], "500ms", "40k"
    )


@pytest.mark.parametrize(
    "given", [{"expect": ["tol:a"]}, {"forbid": 'a:"'}, {"duration": "2 weeks"}, {"definitions": "x"}]
)
def test_an_invalid_argument_of_a_test_is_reported(given: dict[str, object]) -> None:
    usual: dict[str, object] = {"expect": [], "forbid": [], "limits": [], "duration": None, "definitions": None}
    with pytest.raises(ValueError, match=r"is not a (filter|duration|size)"):
        parse_terms(**(usual | given))  # type: ignore[arg-type]
