"""Rows for people: which HTTP events add no information."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_tape.cassette.query.timeline import TimelineRow, is_plumbing

ROW = TimelineRow(1, 1, None, 0, "server", "post-1", "control", *[None] * 8, 0, "", 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "is_left_out"),
    [
        ({"event": "request", "verb": "POST"}, True),
        ({"event": "request", "verb": "DELETE"}, False),
        ({"event": "response", "status": 199}, False),
        ({"event": "response", "status": 200}, True),
        ({"event": "response", "status": 299}, True),
        ({"event": "response", "status": 300}, False),
        ({"event": "response", "status": "200"}, False),
        ({"event": "response"}, False),
        ({"event": "close"}, True),
        ({"event": "abort"}, False),
        ({}, False),
    ],
)
def test_a_post_its_success_and_its_end_tell_nothing(facts: dict[str, Any], is_left_out: bool) -> None:
    assert is_plumbing(ROW, facts) is is_left_out


def test_the_end_of_a_process_is_shown() -> None:
    assert not is_plumbing(ROW._replace(channel="stdio"), {"event": "close"})
