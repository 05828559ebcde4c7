"""Sizes and durations, as options and filters accept them."""

from __future__ import annotations

import pytest

from mcp_tape.values import parse_duration, parse_size, size_text


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("512b", 512), ("800k", 800_000), ("64M", 64_000_000), ("1.5 gb", 1_500_000_000), ("0.0001M", 100)],
)
def test_a_size_is_a_number_and_a_unit(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "M", "-1", "0", "0.1", "1x", "1e3", "64M 2", "nan", "٣", "1" * 5000, " 1"])
def test_an_invalid_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="64M"):
        parse_size(text)


def test_a_size_is_written_so_that_it_reads_back() -> None:
    assert [size_text(size) for size in (999, 1500, 64_000_000, 2_000_000_000)] == ["999", "1.5k", "64.0M", "2.0G"]
    assert parse_size(size_text(64_000_000)) == 64_000_000


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [("1us", 1), ("7 µs", 7), ("500ms", 500_000), ("2s", 2_000_000), ("1.5m", 90_000_000), ("0.5ms", 500)],
)
def test_a_duration_is_a_number_and_a_unit(text: str, microseconds: int) -> None:
    assert parse_duration(text) == microseconds


@pytest.mark.parametrize("text", ["", "2", "s", "-1s", "0s", "0.1us", "2h", "1e3s", "٣s"])
def test_an_invalid_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="500ms"):
        parse_duration(text)
