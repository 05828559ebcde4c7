"""Marks that have no effect, as no test under them uses a tape: what such a test talks to is live."""

from __future__ import annotations

from typing import Any

import pytest

from .settings import refuse

_TAPES = {"mcp_tape", "mcp_tape_factory"}
_NO_EFFECT = """the marker mcp_tape has no effect: this test uses no tape, so what it talks to is live
Give the test the argument mcp_tape, and its client mcp_tape.streams(), .transport, .command or .url
Or take the marker off"""


def check_own(item: pytest.Item, request: Any) -> None:
    """Refuse a test with a mark of its own that has asked for no tape, or cannot; marks above it are defaults."""
    if item in _marked_nodes(item) and not _TAPES & set(getattr(request, "fixturenames", _TAPES)):
        refuse(_NO_EFFECT)


def check_before(item: pytest.Item) -> None:
    """Refuse it before it runs, unless it may ask for a tape as it does."""
    if "request" not in getattr(item, "fixturenames", ()):
        check_own(item, item)


def scopes_of(item: pytest.Item) -> list[str]:
    """Return the ids of the classes, modules and packages with a mark that a test is in."""
    return [node.nodeid for node in _marked_nodes(item) if node is not item]


def is_selective(config: pytest.Config) -> bool:
    """Whether single tests were chosen, so that the others of their module say nothing."""
    return any("::" in str(argument) for argument in config.args) or bool(config.getoption("lf", False))


def _marked_nodes(item: pytest.Item) -> list[Any]:
    return [node for node, _ in item.iter_markers_with_node("mcp_tape")]
