"""Differences in skills: listed or requested one by one, compared by the digests of their files."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.diffs import Case, Talk, changes, compared, discovered, exchange, expect, listing, name_of, rules

SMALL = {"SKILL.md": "a"}
DECLARED = {"extensions": {"io.modelcontextprotocol/skills": {}}, "resources": {}}


def digest(letter: str) -> str:
    return f"sha256:{letter * 64}"


def skill(name: str = "pdf", files: Any = SMALL, **frontmatter: Any) -> dict[str, Any]:
    """An entry of a list. `files`: a letter for each, repeated as its digest."""
    at = f"skill://acme/{name}"
    if isinstance(files, dict):
        files = [{"uri": f"{at}/{path}", "digest": digest(letter), "size": 9} for path, letter in files.items()]
    front = {"name": name, "description": "Fill in forms."} | frontmatter
    return {"uri": f"{at}/SKILL.md", "frontmatter": front, "resources": files}


def serving(*skills: Any) -> Talk:
    return [discovered(capabilities=DECLARED), listing("skills/list", *skills)]


def asked(entry: Any) -> Talk:
    """A server that was asked for one skill, which it may not list."""
    got = exchange("skills/get", {"uri": "skill://acme/pdf/SKILL.md"}, {"skill": entry, "resultType": "complete"})
    return [discovered(capabilities=DECLARED), got]


TWO_FILES = {"SKILL.md": "a", "templates/invoice.md": "b"}
CASES = [
    Case("skill-removed", serving(skill(), skill("xls")), serving(skill()), True),
    Case("skill-removed", serving(skill()), [discovered()], True),
    Case("skill-removed", serving(skill()), serving(skill(files={"SKILL.md": "b"})), False),
    Case("skill-added", serving(), serving(skill()), True),
    Case("skill-added", serving(skill()), serving(), False),
    Case("skill-description-changed", serving(skill()), serving(skill(description="Do more.")), True),
    Case("skill-description-changed", serving(skill()), serving(skill(license="MIT")), False),
    Case("skill-frontmatter-changed", serving(skill()), serving(skill(license="MIT")), True),
    Case("skill-frontmatter-changed", serving(skill()), serving(skill(description="Do more.")), False),
    Case(
        "skill-file-changed", serving(skill(files=TWO_FILES)), serving(skill(files=TWO_FILES | {"SKILL.md": "c"})), True
    ),
    Case("skill-file-changed", serving(skill()), serving(skill(files=TWO_FILES)), False),
    Case("skill-file-changed", asked(skill()), asked(skill(files={"SKILL.md": "c"})), True),
    Case("skill-file-removed", serving(skill(files=TWO_FILES)), serving(skill()), True),
    Case("skill-file-removed", serving(skill()), serving(skill(files=TWO_FILES)), False),
    Case("skill-file-added", serving(skill()), serving(skill(files=TWO_FILES)), True),
    Case("skill-file-added", serving(skill(files=TWO_FILES)), serving(skill()), False),
    Case("skill-file-added", serving(skill(files="dynamic")), serving(skill()), False),
    Case("skill-became-dynamic", serving(skill()), serving(skill(files="dynamic")), True),
    Case("skill-became-dynamic", serving(skill()), serving(skill(files=7)), True),
    Case("skill-became-dynamic", serving(skill(files="dynamic")), serving(skill(files="dynamic")), False),
]


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_a_rule_finds_its_case_and_no_other(case: Case) -> None:
    expect(case)


def test_a_changed_file_is_named_by_its_path_within_the_skill() -> None:
    old, new = serving(skill(files=TWO_FILES)), serving(skill(files=TWO_FILES | {"templates/invoice.md": "c"}))
    (change,) = changes(old, new, "skill-file-changed")
    assert str(change.subject) == "skill skill://acme/pdf/SKILL.md"
    assert change.path == "$.resources['templates/invoice.md']"
    assert (change.before, change.after) == (digest("b"), digest("c"))


def test_an_entry_that_was_asked_for_is_compared_as_one_of_a_list() -> None:
    assert rules(asked(skill()), asked(skill(files=TWO_FILES))) == ["skill-file-added"]
    assert rules(asked(skill()), asked(skill())) == []


@pytest.mark.parametrize(
    ("rule", "old", "new", "level"),
    [
        ("skill-frontmatter-changed", skill(), skill(**{"allowed-tools": "Bash"}), "warn"),
        ("skill-frontmatter-changed", skill(), skill(license="MIT"), "info"),
        ("skill-became-dynamic", skill(), skill(files="dynamic"), "warn"),
        ("skill-became-dynamic", skill(files="dynamic"), skill(), "info"),
    ],
)
def test_some_rules_have_a_second_level(rule: str, old: Any, new: Any, level: str) -> None:
    assert [change.level for change in changes(serving(old), serving(new), rule)] == [level]


@pytest.mark.parametrize(
    "odd",
    [{}, {"frontmatter": []}, {"resources": [1, {}, {"uri": 1}]}, {"resources": [{"uri": "x"}]}, {"resources": 1}],
)
def test_odd_entries_are_compared_as_far_as_they_go(odd: dict[str, Any]) -> None:
    entry = {"uri": "skill://acme/pdf/SKILL.md"} | odd
    assert rules(serving(entry), serving(entry)) == []
    compared(serving(skill()), serving(entry))
    compared(serving(entry), serving(skill()))


def test_a_list_of_skills_on_one_side_only_is_unknown() -> None:
    listed, silent = serving(skill()), [discovered(capabilities=DECLARED)]
    assert [(one.what, one.grave) for one in compared(listed, silent).unknown if one.what == "skills"] == [
        ("skills", True)
    ]
    assert "skills" not in {one.what for one in compared(silent, silent).unknown}
