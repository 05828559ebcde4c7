"""Equal changes of several tools, reported once, with a fingerprint for each."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from typing import Any

import pytest

from mcp_tape.compare.changes import ABSENT, NOTHING, Change, Difference, Subject, change
from mcp_tape.compare.judging import Comparison, parse_ignores
from mcp_tape.compare.report import render
from mcp_tape.compare.report.groups import group_changes
from mcp_tape.errors import SettingsError

FORMS = ("text", "markdown", "github", "junit", "sarif")
PAGE = ("inputSchema", "properties", "pageId")


def required(tool: str, path: tuple[str, ...] = PAGE, note: str = "new required property (string)") -> Change:
    found = Difference("input-required-property-added", path, ABSENT, {"type": "string"}, note)
    return change(Subject("tool", tool), found)


def shown(form: str, *changes: Change, **options: Any) -> str:
    return render(Comparison("s 1", "s 2", "call", changes), form, **options)


SAME = tuple(required(f"tool_{letter}") for letter in "abcd")
OTHER = required("other", ("inputSchema", "properties", "q"))


@pytest.mark.parametrize("form", FORMS)
def test_equal_changes_of_several_tools_are_reported_once_with_all_fingerprints(form: str) -> None:
    text = shown(form, *SAME, OTHER)
    assert text.count("new required property") == (4 if form == "junit" else 2)  # JUnit repeats it as a message
    for one in (*SAME, OTHER):
        assert one.fingerprint in text


@pytest.mark.parametrize("form", FORMS)
def test_two_are_no_group(form: str) -> None:
    assert "same in" not in shown(form, *SAME[:2], OTHER).lower()


def test_a_text_in_full_has_no_groups() -> None:
    assert "same in" in shown("text", *SAME) and "same in" not in shown("text", *SAME, full=True)


@pytest.mark.parametrize("form", FORMS)
def test_a_change_elsewhere_is_reported_with_its_place(form: str) -> None:
    deeper = required("tool_c", ("inputSchema", "properties", "all", "items", "properties", "pageId"))
    assert f"tool tool_c $.inputSchema.properties.all.items.properties.pageId {deeper.fingerprint}" in shown(
        form, *SAME[:2], deeper
    ) or (form == "text" and f"pageId {deeper.fingerprint}" in shown(form, *SAME[:2], deeper))


@pytest.mark.parametrize("form", ["text", "markdown", "github"])
def test_one_line_accepts_a_group(form: str) -> None:
    line = " ".join(one.fingerprint for one in SAME)
    assert f"echo {line} >> .mcp-tape-ignore" in shown(form, *SAME, OTHER)
    ignores = parse_ignores(f"{line}  # why", "")
    assert [ignores.hides(one) for one in (*SAME, OTHER)] == [True] * 4 + [False]
    with pytest.raises(SettingsError, match="'nonsense' is not a fingerprint"):
        parse_ignores(f"{SAME[0].fingerprint} nonsense", "")


GONE = [
    change(
        Subject("tool", name), Difference("tool-removed", (), {"description": f"Does {name}."}, ABSENT, marks=NOTHING)
    )
    for name in ("a", "b", "c", "d")
]


def test_tools_that_are_gone_are_one_group_by_their_names() -> None:
    text = shown("text", OTHER, *GONE)
    assert "\n        and b, c, d\n" in text and "Does" not in text
    assert [len(group) for group in group_changes([*GONE, OTHER])] == [4, 1]
    assert "Does" in shown("text", *GONE[:2]) and "Does" in shown("text", *GONE, full=True)


def test_of_many_that_are_gone_a_line_has_as_many_as_fit() -> None:
    gone = [change(Subject("tool", f"tool_number_{n}"), Difference("tool-removed")) for n in range(50)]
    (line,) = (line for line in shown("text", *gone).splitlines() if line.startswith("        and "))
    assert len(line) <= 100 and line.endswith(" more; to see all: --full")
    shown_names = line.count("tool_number_")
    assert f"and {49 - shown_names} more" in line and shown_names > 2


@pytest.mark.parametrize("form", FORMS)
def test_yes_and_no_are_not_repeated_where_a_note_has_them_in_words(form: str) -> None:
    found = Difference("input-property-became-required", PAGE, False, True, "optional → required")
    text = shown(form, change(Subject("tool", "t"), found)).replace("\\u2192", "→").lower()
    assert "optional → required" in text and "true" not in text.replace('"true"', "")
    bare = change(Subject("tool", "t"), Difference("tool-lost-read-only", PAGE, True, False))
    assert "true" in shown(form, bare).lower()


def test_groups_are_of_one_level_rule_and_value() -> None:
    calls = [
        change(Subject("call", f"tools/call {n}"), Difference("call-ok-to-error", ("error",), 1, 2)) for n in "abc"
    ]
    added = [change(Subject("tool", name), Difference("tool-added")) for name in "abc"]
    milder = SAME[0]._replace(level="warn", fingerprint="0" * 12)
    noted = required("tool_e", note="another")
    found = [*SAME[:2], OTHER, SAME[2], *calls, *added, milder, noted]
    groups = group_changes(found)
    assert [len(group) for group in groups] == [3, *[1] * 9]
    assert sorted(map(id, (one for group in groups for one in group))) == sorted(map(id, found))
    firsts = [found.index(group[0]) for group in groups]
    assert all(one < other for one, other in pairwise(firsts))


def test_junit_has_one_case_for_a_group_and_counts_it_once() -> None:
    (suite,) = ElementTree.fromstring(shown("junit", *SAME, OTHER))
    assert (suite.get("tests"), suite.get("failures")) == ("2", "2")
    names = [(case.get("classname"), case.get("name")) for case in suite.iter("testcase")]
    place = "$.inputSchema.properties.pageId"
    assert names == [("tool", "other"), ("input-required-property-added", f"tool tool_a and 3 more {place}")]


def test_github_annotates_a_group_once() -> None:
    lines = shown("github", *SAME).splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["::error", "::notice"]
    assert "tool tool_a and 3 more" in lines[0]


def test_sarif_has_one_result_with_a_location_for_each() -> None:
    (run,) = json.loads(shown("sarif", *SAME, OTHER))["runs"]
    first, second = run["results"]
    assert (first["occurrenceCount"], len(first["locations"]), len(second["locations"])) == (4, 4, 1)
    assert first["partialFingerprints"] == {"mcpTape/v1": SAME[0].fingerprint} and "occurrenceCount" not in second
    accepted = Comparison("s 1", "s 2", "call", (), ignored=SAME)
    (result,) = json.loads(render(accepted, "sarif"))["runs"][0]["results"]
    assert result["suppressions"] == [{"kind": "external"}] and result["occurrenceCount"] == 4


def test_a_comment_counts_every_change_of_a_group_that_does_not_fit() -> None:
    large = {"description": "x" * 19_000}
    added = [change(Subject("tool", name), Difference("tool-added", (), ABSENT, large)) for name in "abcd"]
    assert "… and 5 changes more than fit here." in shown("markdown", *added, *SAME)
