"""Columns as bytes: every number survives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.viewer.columns import packed, unpacked

NUMBERS = st.lists(st.none() | st.integers(-(2**52), 2**52))


@given(NUMBERS)
def test_what_is_packed_comes_back(numbers: list[int | None]) -> None:
    columns = {"a": numbers, "b": list(range(len(numbers)))}
    assert unpacked(packed({"x": "y\nz"}, columns)) == ({"x": "y\nz"}, columns)


def test_what_is_alike_takes_no_room() -> None:
    assert len(packed({}, {"a": [None] * 1000})) < 100
    assert len(packed({}, {"a": [100] * 1000})) < 1100
