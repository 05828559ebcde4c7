"""Changes by a library that writes all schemas: reported once, for the server. And the place of a title."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_tape.compare.changes import Change
from tests.support.diffs import Talk, compared, tool, tools
from tests.support.schemas import INTEGER, STRING, of

OLDER, NEWER = "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"
MOST = 9007199254740991
EXACT = {**INTEGER, "minimum": -MOST, "maximum": MOST}


def changes(old: Talk, new: Talk) -> tuple[Change, ...]:
    return compared(old, new).changes


def three(**schema: Any) -> Talk:
    return tools(*(tool(name, inputSchema=schema, outputSchema=schema) for name in "abc"))


def test_another_dialect_is_one_finding_of_the_server() -> None:
    (found,) = changes(three(**{"$schema": OLDER, **of(STRING)}), three(**{"$schema": NEWER, **of(STRING)}))
    assert (found.rule, found.level, str(found.subject)) == ("schema-dialect-changed", "info", "server")
    assert (found.before, found.after, found.note) == (OLDER, NEWER, "another dialect of JSON Schema, in 6 places")


def test_a_dialect_that_changes_a_meaning_is_a_warning_of_its_tool() -> None:
    pair = of({"type": "array", "prefixItems": [STRING]})
    found = changes(three(**{"$schema": OLDER, **pair}), three(**{"$schema": NEWER, **pair}))
    assert [(one.level, one.subject.kind) for one in found] == [("warn", "tool")] * 6


def test_limits_of_exact_integers_are_one_finding_of_the_server_for_each() -> None:
    for old, new in ((INTEGER, EXACT), (EXACT, INTEGER)):
        found = changes(three(**of(old)), three(**of(new)))
        assert {(one.level, str(one.subject)) for one in found} == {("info", "server")}
        assert sorted({one.path for one in found}) == ["$.tools.maximum", "$.tools.minimum"]
        assert all(one.note.endswith(", in 3 places") for one in found)


def test_how_many_tools_there_are_does_not_change_the_fingerprint() -> None:
    one, three_ = (
        changes(
            tools(tool("a", inputSchema=of(INTEGER)), *map(tool, more)),
            tools(tool("a", inputSchema=of(EXACT)), *map(tool, more)),
        )
        for more in ("", "bc")
    )
    assert [change.fingerprint for change in one] == [change.fingerprint for change in three_]


def test_other_limits_are_those_of_their_tools() -> None:
    found = changes(three(**of(INTEGER)), three(**of({**INTEGER, "maximum": 10})))
    limits = [(one.level, one.subject.kind) for one in found if one.rule == "input-constraint-set"]
    assert limits == [("error", "tool")] * 3


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ({"annotations": {"title": "A"}}, {"annotations": {"title": "B"}}, "$.annotations.title"),
        ({}, {"annotations": {"title": "B"}}, "$.annotations.title"),
        ({"title": "A"}, {"title": "B"}, "$.title"),
        ({"annotations": {"title": "A"}}, {"title": "B"}, "$.title"),
    ],
)
def test_the_title_of_a_tool_is_where_it_is_written(old: dict[str, Any], new: dict[str, Any], path: str) -> None:
    (found,) = changes(tools(tool(**old)), tools(tool(**new)))
    assert (found.rule, found.path) == ("tool-title-changed", path)
