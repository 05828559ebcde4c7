"""Real servers' schemas with one change at a time, checked against values: no false error, and none missed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from mcp_tape.compare.changes import Difference
from mcp_tape.compare.rule_table import RULES
from mcp_tape.compare.schemas import compare_input, compare_output
from tests.support.real_schemas import WRITTEN, changed, fits, values

PAIRS = [(f"{name}: {what}", old, new) for name, old in WRITTEN.items() for what, new in changed(old)]
# Errors that a validator cannot show: a server may refuse an unknown member, or require a known one.
_UNSEEN = {"input-property-removed"}


def levels(found: Iterable[Difference]) -> set[tuple[str, str]]:
    return {(one.rule, one.level or RULES[one.rule].level) for one in found}


def check(claimed: set[tuple[str, str]], wide: Any, narrow: Any) -> None:
    """Each value that fits only one schema is reported, and each error has such a value."""
    tried = values(wide)
    assert tried
    misfits = [value for value in tried if not fits(narrow, value)]
    errors = {rule for rule, level in claimed if level == "error"} - _UNSEEN
    if misfits:
        assert any(level != "info" for _, level in claimed), misfits[0]
    else:
        assert not errors


@pytest.mark.slow(quick=30)
@pytest.mark.parametrize(("what", "old", "new"), PAIRS, ids=[pair[0] for pair in PAIRS])
def test_an_error_has_a_value_that_no_longer_fits_and_the_reverse(what: str, old: Any, new: Any) -> None:
    for one, other in ((old, new), (new, old)):
        check(levels(compare_input(one, other)), one, other)
        check(levels(compare_output(other, one)), one, other)  # results that the old schema did not allow
