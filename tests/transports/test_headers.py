"""Arguments that a tool wants in headers, too."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_tape.transports.headers import tool_headers


def nested(depth: int) -> dict[str, Any]:
    """A schema with a marked property, nested `depth` objects deep."""
    schema: dict[str, Any] = {"x-mcp-header": "Deep"}
    for _ in range(depth):
        schema = {"properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(("depth", "expected"), [(1, 1), (10, 1), (11, 1), (12, 0)])
def test_a_marked_property_is_found_to_a_depth(depth: int, expected: int) -> None:
    found = tool_headers({"result": {"tools": [{"name": "t", "inputSchema": nested(depth)}, {"name": 7}, "odd"]}})
    assert found == {"t": {("a",) * depth: "Deep"} if expected else {}}
