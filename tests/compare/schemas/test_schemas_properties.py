"""Properties of the schema comparison, over generated schemas and checked with a validator.

A client that follows a schema sends only members that the schema names; so do the values here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from mcp_tape.compare.changes import Difference
from mcp_tape.compare.rule_table import LEVELS, RULES, Level
from mcp_tape.compare.schemas import compare_input, compare_output
from tests.support.fuzzing import examples
from tests.support.schema_strategies import (
    FAMILIES,
    ROOTS,
    SCHEMAS,
    Family,
    altered,
    fits,
    instances,
    placed,
    rewritten,
    shuffled,
)

SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
steady = settings(derandomize=True, database=None, suppress_health_check=SLOW)


def worst(found: Iterable[Difference]) -> Level:
    levels = {difference.level or RULES[difference.rule].level for difference in found}
    return next((level for level in LEVELS if level in levels), "info")


def grave(found: Iterable[Difference]) -> set[str]:
    return {one.rule for one in found if (one.level or RULES[one.rule].level) != "info"}


def rules(found: Iterable[Difference]) -> set[str]:
    return {difference.rule for difference in found}


def nothing(old: Any, new: Any) -> bool:
    return not list(compare_input(old, new)) and not list(compare_output(old, new))


@steady
@given(SCHEMAS)
def test_a_schema_has_not_changed_against_itself(schema: Any) -> None:
    assert nothing(schema, schema)
    assert nothing(schema, shuffled(schema))


@pytest.mark.slow
@examples(120, steady)
@given(ROOTS, st.data())
def test_the_same_schema_written_in_another_way_has_not_changed(schema: Any, data: st.DataObject) -> None:
    other = data.draw(rewritten(schema))
    assert nothing(schema, other)
    assert nothing(other, schema)


@pytest.mark.slow(quick=5)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_narrower_one_way_is_wider_the_other_way(family: Family) -> None:
    @settings(steady, max_examples=10)
    @given(placed(family))
    def check(pair: tuple[Any, Any]) -> None:
        wide, narrow = pair
        assert family.input in rules(compare_input(wide, narrow))
        assert family.back in rules(compare_input(narrow, wide))
        assert family.output in rules(compare_output(narrow, wide))
        if family.one_way:
            assert grave(compare_input(narrow, wide)) <= {"input-property-removed"}  # ignored, or refused
            assert grave(compare_output(wide, narrow)) <= {"output-optional-property-removed"}  # perhaps missed

    check()


@pytest.mark.slow(quick=4)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_values_that_no_longer_fit_are_found_at_the_level_of_the_rule(family: Family) -> None:
    broken = {"input": 0, "output": 0}

    @settings(steady, max_examples=25)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        wide, narrow = data.draw(placed(family))
        sent = data.draw(instances(wide))
        if fits(wide, sent) and not fits(narrow, sent):
            broken["input"] += 1
            assert worst(compare_input(wide, narrow)) == RULES[family.input].level
            broken["output"] += 1
            assert worst(compare_output(narrow, wide)) == _output_level(family)

    check()
    assert all(broken.values())  # otherwise nothing was tried


def _output_level(family: Family) -> Level:
    """A member in a closed schema counts more than in an open one."""
    rule = RULES[family.output]
    return (rule.otherwise or rule.level) if family.output == "output-property-added" else rule.level


@pytest.mark.slow
@examples(120, steady)
@given(ROOTS, ROOTS, st.data())
def test_values_that_no_longer_fit_are_found_between_any_two_schemas(old: Any, new: Any, data: st.DataObject) -> None:
    _check(old, new, data)


@pytest.mark.slow
@examples(200, steady)
@given(SCHEMAS, st.data())
def test_values_that_no_longer_fit_are_found_if_one_part_changed(old: Any, data: st.DataObject) -> None:
    new = data.draw(altered(old))
    _check(old, new, data)
    _check(new, old, data)


def _check(old: Any, new: Any, data: st.DataObject) -> None:
    sent = data.draw(instances(old))
    assume(fits(old, sent))
    event("breaks" if not fits(new, sent) else "fits both")
    if not fits(new, sent):
        assert worst(compare_input(old, new)) in ("error", "warn")
        assert worst(compare_output(new, old)) in ("error", "warn")
