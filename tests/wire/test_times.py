"""Times as text parse alike in every version of Python."""

from __future__ import annotations

import pytest

from mcp_tape.wire.times import read_time


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-11-17T23:59:59.5Z", "2026-11-17T23:59:59.500000"),
        ("2026-11-17T23:59:59.123456789Z", "2026-11-17T23:59:59.123456"),
        ("2026-11-17t23:59:59z", "2026-11-17T23:59:59"),
        ("2026-11-18T00:30:00+01:00", "2026-11-17T23:30:00"),
        ("2026-11-17 18:30:00.25-0500", "2026-11-17T23:30:00.250000"),
        (" 2026-11-17T23:59:59 ", "2026-11-17T23:59:59"),
        ("2026-11-17T23:59", "2026-11-17T23:59:00"),
        ("2026-11-17", "2026-11-17T00:00:00"),
    ],
)
def test_a_time_is_read_with_any_fraction_and_zone(text: str, utc: str) -> None:
    found = read_time(text)
    assert found is not None and found.utcoffset() is not None
    assert (found - found.utcoffset()).replace(tzinfo=None).isoformat() == utc


@pytest.mark.parametrize(
    "text",
    [
        None, "", "yesterday", "20261117T235959Z", "2026-W47-2", "2026-11-17T25:00:00Z", "2026-13-01",
        "0000-01-01T00:00:00Z", "2026-11-17T23:59:59+99:99", "٢٠٢٦-11-17", "2026-11-17T23:59:59Z and more",
    ],
)  # fmt: skip
def test_an_invalid_time_is_none(text: str | None) -> None:
    assert read_time(text) is None
