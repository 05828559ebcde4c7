"""Judgement of changes: fingerprints, categories, levels, and omissions."""

from __future__ import annotations

import pytest

from mcp_tape.compare.changes import ABSENT, Difference, Subject, change
from mcp_tape.compare.judging import JudgingSettings, judge, parse_ignores
from mcp_tape.compare.rule_table import Level
from tests.support.diffs import call, compared, gave, hello, listing, refused, tool, tools, wrote

# Fingerprints -------------------------------------------------------------------------------------------

TOOL = Subject("tool", "t")
BASE = Difference("input-type-changed", ("a", 0), "string", {"b": 1, "c": 2}, "our words")


def mark(found: Difference = BASE, subject: Subject = TOOL) -> str:
    return change(subject, found).fingerprint


def test_a_fingerprint_never_changes() -> None:
    """Projects keep fingerprints in files."""
    assert mark() == "84a6b22b68bb"


@pytest.mark.parametrize(
    "same",
    [
        BASE._replace(note="other words"),
        BASE._replace(level="info"),
        BASE._replace(after={"c": 2, "b": 1}),
    ],
)
def test_rewording_a_note_or_another_level_keeps_a_fingerprint(same: Difference) -> None:
    assert mark(same) == mark()


@pytest.mark.parametrize(
    "other",
    [
        BASE._replace(rule="input-type-narrowed"),
        BASE._replace(path=("a", 1)),
        BASE._replace(path=("a",)),
        BASE._replace(before="number"),
        BASE._replace(before=None),
        BASE._replace(before=ABSENT),
        BASE._replace(after=ABSENT),
        BASE._replace(after={"b": 1, "c": "2"}),
    ],
)
def test_another_change_has_another_fingerprint(other: Difference) -> None:
    assert mark(other) != mark()


def test_the_same_change_of_something_else_has_another_fingerprint() -> None:
    assert len({mark(subject=subject) for subject in (TOOL, Subject("tool", "u"), Subject("prompt", "t"))}) == 3


def test_the_parts_of_a_fingerprint_do_not_run_into_each_other() -> None:
    assert mark(Difference("tool-added"), Subject("tool", "ab")) != mark(
        Difference("tool-added"), Subject("toola", "b")
    )
    one, other = Difference("tool-added", (), "a", ABSENT), Difference("tool-added", (), ABSENT, "a")
    assert mark(one) != mark(other)


@pytest.mark.parametrize("odd", ["\ud800", 10**400, {"\udfff": None}, [[[[]]]], 1e300, "\0", -0.0])
def test_any_value_has_a_fingerprint(odd: object) -> None:
    assert len(mark(BASE._replace(before=odd, path=("\ud800",)), Subject("tool", "\ud800"))) == 12


def test_a_found_change_has_the_same_fingerprint_in_every_run() -> None:
    def prints() -> list[str]:
        return [one.fingerprint for one in compared([gave({"a": 1}), wrote("x")], [gave({"a": 2}), wrote("y")]).changes]

    assert prints() == prints() and len(set(prints())) == 2


# Judging ------------------------------------------------------------------------------------------------

REWORDED = (TOOL, Difference("tool-description-changed", ("description",), "a", "b"))
REMOVED = (TOOL, Difference("tool-removed"))
ORDER = (Subject("server", ""), Difference("tool-order-changed", ("tools",), ["a", "b"], ["b", "a"]))
CAPABLE = (Subject("server", ""), Difference("capability-removed", ("capabilities", "logging"), {}, ABSENT))
FOUND = [REWORDED, ORDER, REMOVED, CAPABLE]


def levels(settings: JudgingSettings) -> dict[str, str]:
    return {one.rule: one.level for one in judge(FOUND, settings)[0]}


def test_category_call_shows_every_rule_at_its_own_level() -> None:
    assert levels(JudgingSettings()) == {
        "capability-removed": "error",
        "tool-removed": "error",
        "tool-description-changed": "warn",
        "tool-order-changed": "info",
    }


def test_category_wire_shows_only_rules_of_the_protocol() -> None:
    assert levels(JudgingSettings("wire")) == {"capability-removed": "error"}


def test_category_model_raises_texts_for_a_model() -> None:
    assert levels(JudgingSettings("model")) == {
        "capability-removed": "error",
        "tool-removed": "error",
        "tool-description-changed": "error",
        "tool-order-changed": "warn",
    }


def test_category_model_keeps_the_level_of_other_changes() -> None:
    found = (TOOL, Difference("tool-became-open-world", ("annotations", "openWorldHint"), False, True))
    assert judge([found], JudgingSettings("model"))[0][0].level == "warn"


def test_a_second_level_rises_too() -> None:
    found = (TOOL, Difference("call-text-changed", (), "a", "b", level="info"))
    assert judge([found], JudgingSettings("model"))[0][0].level == "warn"


def test_a_project_sets_levels_and_turns_rules_off() -> None:
    chosen: dict[str, Level | None] = {"tool-removed": "info", "tool-description-changed": None}
    for category in ("call", "model"):
        assert levels(JudgingSettings(category, chosen))["tool-removed"] == "info"
        assert "tool-description-changed" not in levels(JudgingSettings(category, chosen))


def test_the_worst_comes_first_then_removals_and_each_subject_together() -> None:
    more = [
        (Subject("tool", "s"), Difference("tool-removed")),
        (TOOL, Difference("input-default-changed", ("a",), 1, 2)),
    ]
    found = judge([*more, *FOUND], JudgingSettings())[0]
    assert [(one.level, str(one.subject)) for one in found] == [
        ("error", "tool s"),
        ("error", "tool t"),
        ("error", "server"),
        ("warn", "tool t"),
        ("warn", "tool t"),
        ("info", "server"),
    ]


def test_the_order_in_which_changes_are_found_does_not_matter() -> None:
    assert judge(FOUND, JudgingSettings()) == judge(FOUND[::-1], JudgingSettings())


def test_the_same_change_is_counted_and_reported_once() -> None:
    (one,) = judge([REMOVED, REMOVED, REMOVED], JudgingSettings())[0]
    assert one.times == 3


def test_an_ignored_change_is_kept_apart_and_an_unused_line_is_reported() -> None:
    gone = tools(), tools(tool("a"))
    ignores = parse_ignores("tool-added tool a  # wanted\ntool-removed *\n", "ignores")
    found = compared(*gone, JudgingSettings(ignores=ignores))
    assert [one.rule for one in found.ignored] == ["tool-added"] and not found.changes
    assert found.unused == ("tool-removed *",)


def test_an_ignored_break_needs_no_other_version_number() -> None:
    ignores = parse_ignores("tool-removed tool a", "ignores")
    assert not compared(tools(tool("a")), tools(), JudgingSettings(ignores=ignores)).changes


@pytest.mark.parametrize(
    ("path", "left"),
    [
        ("$.result.structuredContent.a", ["$.result.structuredContent.b[0]"]),
        ("$.result.structuredContent.b", ["$.result.structuredContent.a"]),
        ("$..b[*]", ["$.result.structuredContent.a"]),
        ("$.result", []),
        ("$.params.a", ["$.result.structuredContent.a", "$.result.structuredContent.b[0]"]),
    ],
)
def test_a_place_can_be_left_out(path: str, left: list[str]) -> None:
    found = compared([gave({"a": 1, "b": [1]})], [gave({"a": 2, "b": [2]})], JudgingSettings(ignore_paths=(path,)))
    assert [one.path for one in found.changes] == left


def test_an_argument_that_is_left_out_does_not_tell_calls_apart() -> None:
    old, new = [call(now=1, city="Bern")], [call(now=2, city="Bern")]
    assert not compared(old, new, JudgingSettings(ignore_paths=("$.params.arguments.now",))).changes
    assert compared(old, new).changes


def test_surface_and_calls_can_be_compared_apart() -> None:
    old = [hello(), listing("tools/list", tool("a")), call()]
    new = [hello(), listing("tools/list"), refused()]
    surface, calls = (compared(old, new, parts=[part]) for part in ("surface", "calls"))
    assert {one.rule for one in surface.changes} == {"tool-removed", "server-version-not-bumped"}
    assert {one.rule for one in calls.changes} == {"call-ok-to-error", "server-version-not-bumped"}
    assert "calls" not in surface.compared and list(calls.compared) == ["calls"]


def test_a_change_as_json_has_all_that_is_there() -> None:
    one = change(*REWORDED)
    assert one.as_dict() == {
        "rule": "tool-description-changed",
        "level": "warn",
        "category": "model",
        "subject": {"kind": "tool", "name": "t"},
        "path": "$.description",
        "before": "a",
        "after": "b",
        "note": "",
        "fingerprint": one.fingerprint,
        "times": 1,
    }


# Security -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "level"),
    [
        (Difference("text-steers-model", ("description",), ABSENT, "pretends"), "error"),
        (Difference("tool-added", (), ABSENT, {"description": "Adds."}), "error"),
        (Difference("schema-text-changed", ("inputSchema", "title"), ABSENT, "A"), "error"),
        (Difference("tool-lost-idempotent", ("annotations", "idempotentHint"), True, False), "error"),
        (Difference("tool-description-changed", ("description",), "Adds.", ABSENT), None),  # no new text
        (Difference("input-type-changed", ("inputSchema",), "string", "integer"), None),
        (Difference("tool-removed"), None),
        (Difference("input-all-of-added", ("inputSchema",), ABSENT, [{"not": {"const": "a b"}}]), "error"),
        (Difference("input-all-of-added", ("inputSchema",), ABSENT, [{"not": {"const": 1}}]), None),
        (Difference("input-all-of-added", ("inputSchema",), ABSENT, [{"minLength": 1, "description": "A"}]), "error"),
        (Difference("input-all-of-added", ("inputSchema",), ABSENT, [{"minLength": 1}]), None),
        (Difference("input-additional-properties-forbidden", ("inputSchema",), ABSENT, {"title": "A"}), "error"),
        (Difference("input-additional-properties-forbidden", ("inputSchema",), ABSENT, False), None),
        (Difference("input-const-added", ("inputSchema", "const"), ABSENT, "send it"), "error"),
        (Difference("output-constraint-tightened", ("outputSchema", "pattern"), ABSENT, "send it"), "error"),
        (Difference("output-constraint-tightened", ("outputSchema", "maximum"), 5, 4), None),
    ],
)
def test_security_is_about_suspicions_and_new_text_at_error(found: Difference, level: Level | None) -> None:
    shown, _ = judge([(TOOL, found)], JudgingSettings("security"))
    assert [one.level for one in shown] == [level] * (level is not None)


def test_a_project_chooses_levels_in_security_too() -> None:
    settings = JudgingSettings("security", {"tool-added": "info"})
    assert [one.level for one in judge([(TOOL, Difference("tool-added", (), ABSENT, {}))], settings)[0]] == ["info"]
