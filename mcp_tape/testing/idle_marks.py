"""Marks without effect: no test under them uses a tape, so the test's server is live."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from .tape_settings import refuse

_TAPES = {"mcp_tape", "mcp_tape_factory"}
_NO_EFFECT = """the marker mcp_tape has no effect: this test uses no tape, so it talks to live servers
Give the test the argument mcp_tape, and its client mcp_tape.streams(), .transport, .command or .url
Or take the marker off"""


def check_own(item: pytest.Item) -> None:
    """Refuse a test that has its own mark but uses no tape. Marks of its class or module are defaults."""
    if _is_own_idle(item):
        refuse(_NO_EFFECT)


def check_before(item: pytest.Item) -> None:
    """Refuse such a test before it runs, unless it may request a tape while running."""
    if _is_own_idle(item) and not _may_ask_later(item):
        refuse(_NO_EFFECT)


def _is_own_idle(item: pytest.Item) -> bool:
    return is_idle(item) and item in _marked_nodes(item)


def _may_ask_later(item: pytest.Item) -> bool:
    """Return whether the test, or a fixture of its project, takes `request`. Fixtures of plugins request no tape."""
    known = getattr(item, "_fixtureinfo", None)
    if known is None:
        return "request" in getattr(item, "fixturenames", ())
    fixtures = (fixture for several in known.name2fixturedefs.values() for fixture in several)
    asking = [inspect.unwrap(fixture.func) for fixture in fixtures if "request" in fixture.argnames]
    return "request" in known.argnames or any(_is_of_project(function, item.config.rootpath) for function in asking)


def _is_of_project(function: Callable[..., Any], root: Path) -> bool:
    place = Path(inspect.getfile(function)).resolve()
    return place.is_relative_to(root.resolve()) and "site-packages" not in place.parts


def is_idle(item: pytest.Item) -> bool:
    """Return whether a test is under a mark and used no tape, not even through a dynamically requested fixture."""
    request = getattr(item, "_request", item)
    return _TAPES.isdisjoint(getattr(request, "fixturenames", _TAPES)) and bool(_marked_nodes(item))


def by_scope(items: Iterable[pytest.Item]) -> dict[str, set[str]]:
    """Return the tests of each marked class and module, by id, if all of them were collected."""
    found: dict[str, set[str]] = defaultdict(set)
    for item in items:
        for node in _marked_nodes(item):
            if isinstance(node, pytest.Class | pytest.Module) and not _is_selective(item.config):
                found[node.nodeid].add(item.nodeid)
    return found


def _is_selective(config: pytest.Config) -> bool:
    """Return whether single tests were selected, so that the other tests of their module are unknown."""
    return any("::" in str(argument) for argument in config.args) or bool(config.getoption("lf", False))


def _marked_nodes(item: pytest.Item) -> list[Any]:
    return [node for node, _ in item.iter_markers_with_node("mcp_tape")]
