"""The architecture page matches the code."""

from __future__ import annotations

import re

from tests.support.docs import DOCS, ROOT

PLAN = (DOCS / "architecture.md").read_text("utf-8")
GUIDE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
PLACES = (
    "mcp_tape",
    ".",
    "mcp_tape/transports",
    "mcp_tape/replay",
    "mcp_tape/compare",
    "mcp_tape/cassette",
    "mcp_tape/cli",
    "tests",
)


def test_the_plan_names_every_room_and_file_at_the_top() -> None:
    drawn = re.findall(r"^  (\w+(?:\.py|/)) {2,}\w", PLAN, re.M)
    there = [path for path in (ROOT / "mcp_tape").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    assert sorted(drawn) == sorted(f"{path.name}/" if path.is_dir() else path.name for path in there)


def test_every_file_that_is_named_is_there() -> None:
    named = set(re.findall(r"(?<![\w/.:])([a-z_]+(?:/[a-z_]+)*(?:\.py|/))", PLAN + GUIDE))
    assert {"replay/deck.py", "cassette/schema.py", "wire/"} <= named
    missing = {name for name in named if not any((ROOT / place / name).exists() for place in PLACES)}
    assert missing == set()


def test_the_five_walks_and_every_kind_of_change_are_there() -> None:
    walks = re.search(r"^## Five walks\n(.*?)^## ", PLAN, re.S | re.M)
    changes = re.search(r"^## Where do I change what\n(.*)", PLAN, re.S | re.M)
    assert walks and len(re.findall(r"^### ", walks[1], re.M)) == 5
    assert changes and len(re.findall(r"^\| (?!change |---)", changes[1], re.M)) == 16
