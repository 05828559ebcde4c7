"""The table of rules matches the documented one, and each rule is tested both ways."""

from __future__ import annotations

import pytest

from mcp_tape.compare.rule_table import CATEGORIES, LEVELS, RULES, SECTIONS, Level, raise_level
from mcp_tape.verify.play_findings import Failure, FailureKind, VerifiedSession, failure_differences
from tests.compare import test_surface
from tests.compare.checks import test_answers, test_app_pages, test_model_texts, test_recorded_calls, test_skills
from tests.compare.schemas import test_schemas

# The documented levels, categories and rules; those with a dagger rise if models read the text.
DOCUMENTED = """
error wire  protocol-version-removed capability-removed capability-subscribe-removed extension-removed
info  wire  protocol-version-added capability-added
warn  wire  capability-list-changed-removed extension-settings-changed
warn  call  server-name-changed
info  model server-info-changed†
info  call  server-version-not-bumped server-version-decreased server-major-not-bumped
warn  model instructions-changed† instructions-removed†
error call  tool-removed tool-renamed
info  call  tool-added
info  model tool-order-changed†
warn  wire  tool-list-nondeterministic
error call  input-required-property-added input-property-became-required input-property-removed
info  call  input-optional-property-added† input-property-became-optional†
error call  input-type-changed input-type-narrowed input-became-not-nullable
info  call  input-type-widened
error call  input-enum-value-removed input-became-enum input-const-added
info  call  input-enum-value-added†
error call  input-constraint-tightened input-constraint-set
info  call  input-constraint-loosened
error call  input-pattern-added
warn  call  input-pattern-changed
info  call  input-pattern-removed
error call  input-additional-properties-forbidden
info  call  input-additional-properties-allowed
error call  input-any-of-removed input-one-of-removed input-all-of-added input-if-then-added
error call  input-dependent-required-added
warn  call  input-default-changed
warn  wire  input-header-mapping-changed
warn  call  schema-dialect-changed
info  model input-property-description-changed†
error call  output-schema-removed output-required-property-removed output-property-became-optional
error call  output-became-nullable output-type-changed output-type-widened
info  call  output-schema-added output-type-narrowed output-property-added
warn  call  output-optional-property-removed output-enum-value-added
error call  output-any-of-added output-one-of-added output-constraint-loosened
warn  model tool-description-changed†
info  model tool-title-changed tool-icons-changed tool-meta-changed
error call  tool-became-destructive tool-lost-read-only
warn  call  tool-lost-idempotent tool-became-open-world
info  call  tool-hint-relaxed
error call  resource-removed resource-template-removed template-variable-added
warn  call  resource-mime-type-changed
error call  prompt-removed prompt-argument-required-added prompt-argument-became-required
warn  call  prompt-argument-removed
info  model prompt-description-changed† prompt-messages-changed†
error call  skill-removed
info  call  skill-added
warn  model skill-description-changed† skill-file-changed† skill-file-removed†
info  model skill-file-added† skill-frontmatter-changed
warn  call  skill-became-dynamic
warn  model text-steers-model text-has-hidden-characters name-looks-like-another text-carries-data-out
info  model definitions-grew schema-text-changed†
error call  call-ok-to-error
info  call  call-error-to-ok
warn  wire  call-error-code-changed
info  model call-error-message-changed†
error wire  call-result-type-changed
error call  call-structured-shape-changed
info  model call-structured-value-changed† call-text-changed† resource-text-changed† call-meta-changed†
warn  call  call-content-type-changed
error call  call-violates-output-schema
error wire  server-request-added
warn  call  server-request-changed
info  wire  server-request-removed
warn  wire  notification-missing
info  wire  notification-added notification-reordered
warn  wire  pagination-changed cache-scope-widened
info  wire  cache-ttl-changed
info  call  call-slower
warn  call  call-missing
info  call  call-added
"""
# The second level of rules whose findings differ.
SECOND = {
    "input-property-removed": "warn",
    "output-property-added": "warn",
    "call-error-code-changed": "info",
    "call-structured-shape-changed": "info",
    "server-request-changed": "info",
    "skill-frontmatter-changed": "warn",
    "skill-became-dynamic": "info",
}
PROMISED = [
    (level, category, rule.rstrip("†"), rule.endswith("†"))
    for level, category, *names in map(str.split, DOCUMENTED.strip().splitlines())
    for rule in names
]
# Found only when a recorded client plays against a live server, by the outcome.
PLAYED = [
    ("server-crashed", "", "crashed", True),
    ("server-crashed", "", "hung", True),
    ("server-crashed", "", "unanswered", False),
    ("server-exit-code-changed", "", "exit code", True),
    ("server-exit-code-changed", "", "unanswered", False),
]
ALL_CASES = [
    *test_surface.CASES,
    *test_recorded_calls.CASES,
    *test_answers.CASES,
    *test_app_pages.CASES,
    *test_skills.CASES,
    *test_model_texts.CASES,
    *test_schemas.CASES,
    *PLAYED,
]


def test_every_documented_rule_is_as_documented() -> None:
    for level, category, rule, rises in PROMISED:
        assert (*RULES[rule][:3], RULES[rule].rises) == (rule, level, category, rises)


@pytest.mark.parametrize(("rule", "level"), SECOND.items())
def test_a_documented_second_level_is_reported(rule: str, level: Level) -> None:
    assert RULES[rule].otherwise == level and RULES[rule].when


@pytest.mark.parametrize("expected", [True, False], ids=["positive", "negative"])
def test_every_rule_has_a_positive_and_a_negative_case(expected: bool) -> None:
    assert RULES.keys() - {case[0] for case in ALL_CASES if case[3] is expected} == set()


@pytest.mark.parametrize(("rule", "_", "kind", "expected"), PLAYED)
def test_the_end_of_a_play_is_reported(rule: str, _: str, kind: FailureKind, expected: bool) -> None:
    verified = VerifiedSession(
        "a.db", 1, "b.db", (1,), 1, 1, 1, failures=(Failure(kind, None, "no answer", ("oops",)),)
    )
    told = [difference for _, difference in failure_differences(verified)]
    assert [one.rule for one in told] == [rule] * expected
    assert all("oops" in one.note for one in told)


def test_every_case_is_of_a_rule() -> None:
    assert {case[0] for case in ALL_CASES} <= RULES.keys()


def test_each_rule_is_in_one_section() -> None:
    names = [rule.id for rules in SECTIONS.values() for rule in rules]
    assert len(names) == len(set(names)) == len(RULES)
    assert all(RULES[rule.id].section == section for section, rules in SECTIONS.items() for rule in rules)


def test_every_rule_is_well_formed() -> None:
    for entry in RULES.values():
        assert entry.level in LEVELS and entry.category in CATEGORIES, entry.id
        assert entry.says.endswith(".") and entry.says[0].isupper(), entry.id
        assert (entry.otherwise is None) == (entry.when == "") and entry.otherwise != entry.level, entry.id


def test_error_is_the_highest_level() -> None:
    assert [raise_level(level) for level in ("info", "warn", "error")] == ["warn", "error", "error"]
