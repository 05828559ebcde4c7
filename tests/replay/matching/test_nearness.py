"""How similar values are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.replay.matching.nearness import similarity

LEAVES = st.text("abc ", max_size=6) | st.integers() | st.floats(allow_nan=False) | st.booleans() | st.none()
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner))


@given(VALUES, VALUES)
def test_it_is_from_0_to_1_and_has_no_direction(one: Any, other: Any) -> None:
    found = similarity(one, other)
    assert 0 <= found <= 1
    assert found == similarity(other, one)


@given(VALUES)
def test_a_value_is_1_with_itself(value: Any) -> None:
    assert similarity(value, value) == 1


@pytest.mark.parametrize(
    ("one", "other", "least", "most"),
    [
        ("weather in Bern today", "today's weather in Bern", 0.7, 0.95),
        ("weather in Bern", "stock prices", 0.0, 0.3),
        ({"q": "bern", "n": 10}, {"q": "bern", "n": 9}, 0.9, 0.999),
        ({"q": "bern", "n": 10}, {"q": "bern"}, 0.5, 0.5),
        ({"q": "bern"}, {}, 0.0, 0.0),
        ([1, 2, 3, 4], [1, 2, 3], 0.75, 0.75),
        (True, 1, 0.0, 0.0),
        ("1", 1, 0.0, 0.0),
        (-5, 5, 0.0, 0.0),
        (10**400, 1.5, 0.0, 0.0),
        (10**30, 10**30 + 1, 0.99, 0.999),
        ("aab" * 3000 + "x", "aab" * 3000 + "y", 0.9, 0.999),
        ("a" * 9000 + "b" + "a" * 9000, "a" * 18001, 0.9, 0.999),  # what is not looked at differs
        ("a" * 10_000, "a" * 20_000, 0.4, 0.5),
        (["a"] * 5000, ["b"] * 5000, 0.0, 0.0),
        ("abab ba", "ab baba", 0.5, 0.999),  # the same pairs in another order
    ],
)
def test_how_similar(one: Any, other: Any, least: float, most: float) -> None:
    assert least <= similarity(one, other) <= most


def test_what_counts_as_equal_is() -> None:
    same = {"a": "x", "b": 1}, {"a": "y", "b": 1}
    assert similarity(*same, lambda one, other, key: (one, one) if key == "a" else (one, other)) == 1


def test_huge_values_take_little_time_and_the_leaves_behind_the_first_are_equal_or_not() -> None:
    one, other = [f"line {n}" for n in range(100_000)], [f"line {n + 1}" for n in range(100_000)]
    assert similarity(one, other) < 0.05
    assert similarity("ab" * 10**6, "ba" * 10**6) > 0.9
