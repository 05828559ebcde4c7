"""The lines of an ignore file: what each hides, which are refused, and how lines are added."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.compare.changes import Change, Difference, Subject, change
from mcp_tape.compare.judging import IGNORE_HEADER, added_lines, ignore_line, parse_ignores
from mcp_tape.errors import SettingsError


def found(subject: str, rule: str = "tool-description-changed", *path: str | int, **more: Any) -> Change:
    kind, _, name = subject.partition(" ")
    return change(Subject(kind, name), Difference(rule, path, **more))


PRINT = found("tool x").fingerprint
OWNER = found("tool search", "input-type-changed", "inputSchema", "properties", "owner", "type")
ODD = found("tool search", "input-type-changed", "a b #c", "d")


@pytest.mark.parametrize(
    ("line", "one"),
    [
        (PRINT, found("tool x")),
        (f"  {PRINT}\t# because", found("tool x")),
        (f"{PRINT}\r", found("tool x")),
        ("tool-removed tool list_labels", found("tool list_labels", "tool-removed")),
        ("tool-removed\t  tool list_labels # old", found("tool list_labels", "tool-removed")),
        ("tool-removed *", found("tool list_labels", "tool-removed")),
        ("tool-removed tool list_*", found("tool list_labels", "tool-removed")),
        ("tool-removed tool [*]", found("tool *", "tool-removed")),
        ("instructions-changed server", found("server", "instructions-changed")),
        ("resource-removed resource file:///a#b?c=[1]", found("resource file:///a#b?c=[1]", "resource-removed")),
        ("call-ok-to-error call tools/call *", found("call tools/call search a b", "call-ok-to-error", "result")),
        ("$.inputSchema", OWNER),
        ("$.inputSchema.properties.owner.type", OWNER),
        ("$.inputSchema.properties.*  # all of them", OWNER),
        ("$..owner tool search", OWNER),
        ("$..owner tool s*  # why", OWNER),
        ("$ tool search", OWNER),
        ("$['a b #c']", ODD),
        ("$['a b #c'].d tool search # why", ODD),
        ('$["a b #c"] tool search', ODD),
    ],
)
def test_a_line_hides_the_changes_that_it_names(line: str, one: Change) -> None:
    ignores = parse_ignores(f"# above\n\n{line}\n", "x")
    assert ignores.hides(one)
    assert ignores.unused_lines((one,)) == ()
    assert ignores.lines[0].number == 3


@pytest.mark.parametrize(
    ("line", "one"),
    [
        (PRINT, found("tool y")),
        ("tool-removed tool list", found("tool list_labels", "tool-removed")),
        ("tool-removed tool list_labels", found("tool list_labels", "tool-renamed")),
        ("tool-removed tool [*]", found("tool x", "tool-removed")),
        ("tool-removed tool ?", found("tool x", "tool-removed")),
        ("tool-removed list_labels", found("tool list_labels", "tool-removed")),
        ("$.inputSchema.properties.owner.type.x", OWNER),
        ("$.input", OWNER),
        ("$.inputSchema tool other", OWNER),
    ],
)
def test_a_line_hides_no_other_change_and_is_then_unused(line: str, one: Change) -> None:
    ignores = parse_ignores(line, "x")
    assert not ignores.hides(one)
    assert ignores.unused_lines((one,)) == (line,)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("tool-removed", r"tool-removed needs a subject, as in: .*\nFor all subjects: tool-removed \*"),
        ("tool-remove tool x", r"'tool-remove' is not a rule; did you mean tool-removed\?"),
        ("quite something else", r"'quite' is not a rule\nA line is a fingerprint, a rule"),
        ("a3f8c21b9d0", r"a fingerprint has 12 small hex digits, and 'a3f8c21b9d0' has 11"),
        ("$.a[", r"cannot read the JSONPath '\$\.a\['"),
        ("$['a b tool x", r"cannot read the JSONPath"),
    ],
)
def test_an_invalid_line_is_refused_with_file_and_line(line: str, why: str) -> None:
    with pytest.raises(SettingsError, match=rf"(?s)my/file, line 2: {why}"):
        parse_ignores(f"\n{line} # reason", "my/file")


@pytest.mark.parametrize(
    ("one", "line"),
    [
        (OWNER, "$.inputSchema.properties.owner.type tool search"),
        (found("tool x", "tool-removed"), "tool-removed tool x"),
        (found("server", "instructions-changed", "instructions"), "$.instructions server"),
        (found("tool *", "tool-removed"), "tool-removed tool [*]"),
    ],
)
def test_ignoring_a_change_is_a_line_for_its_place(one: Change, line: str) -> None:
    assert ignore_line(one) == line


@given(st.text(), st.lists(st.text() | st.integers(0, 9), max_size=2))
def test_the_line_for_a_change_hides_it_whatever_its_name(name: str, path: list[str | int]) -> None:
    one = found(f"tool {name}", "tool-description-changed", *path)
    (line,) = parse_ignores(added_lines("", [(ignore_line(one), "why")]), "x").lines
    assert line.hides(one)


@pytest.mark.parametrize("name", ["x\ntool-removed *", "a\u2028b", "a #b", "two  spaces", "\x1b[31m"])
def test_a_name_that_cannot_be_written_in_a_line_is_ignored_by_its_fingerprint(name: str) -> None:
    one = found(f"tool {name}", "tool-removed")
    assert ignore_line(one) == one.fingerprint


def test_lines_are_appended_once() -> None:
    text = added_lines("", [("a3f8c21b9d04", "accepted")])
    assert text == f"{IGNORE_HEADER}a3f8c21b9d04  # accepted\n"
    assert added_lines(text, [("a3f8c21b9d04", "again")]) == ""
    assert added_lines("x", [("a3f8c21b9d04", ""), ("a3f8c21b9d04", "")]) == "\na3f8c21b9d04\n"
