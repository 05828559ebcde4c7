"""What changed between two versions of a tool's input or output schema, by rule.

One walk finds neutral facts; input schemas break when they become narrower, output schemas when they
become wider. Paths are those of the meaning: through a `$ref` and into an `allOf` as if all were
written in one place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..changes import ABSENT, Difference
from .alternatives import choose
from .assertions import conditions, differ, multiples, opaques, patterns, ranges, types, values, words
from .facts import Fact, of_input, of_output
from .members import dependencies, items, members, others
from .walk import TooLargeError, Walk

CHECKS = (types, values, ranges, multiples, patterns, members, others, dependencies, items, conditions, opaques, words)
_DIALECT = "json-schema.org/draft/2020-12/schema"  # what a schema is written in that does not say


def compare_input(old: Any, new: Any) -> Iterator[Difference]:
    """What changed in the schema of a tool's arguments; paths start at the schema."""
    return of_input(facts(old, new))


def compare_output(old: Any, new: Any) -> Iterator[Difference]:
    """What changed in the schema of a tool's results; paths start at the schema."""
    return of_output(facts(old, new))


def facts(old: Any, new: Any) -> list[Fact]:
    """What changed between two schemas, whichever way."""
    if not differ(old, new):
        return []
    return [*_dialects(old, new), *_walked(old, new)]


def _walked(old: Any, new: Any) -> list[Fact]:
    # What two places refer to is told for both, unless there are too many such places.
    for each_once in (False, True):
        try:
            return Walk(old, new, CHECKS, choose, each_once).whole(old, new, ())
        except (TooLargeError, RecursionError):  # one as hostile as the other
            continue
    return [Fact("changed", "other", (), note="too large to compare")]


def _dialects(old: Any, new: Any) -> Iterator[Fact]:
    before, after = (schema.get("$schema", ABSENT) if isinstance(schema, dict) else ABSENT for schema in (old, new))
    if _dialect(before) != _dialect(after):
        yield Fact("dialect-changed", "words", ("$schema",), before, after, "another dialect of JSON Schema")


def _dialect(uri: Any) -> str:
    return _DIALECT if uri is ABSENT else str(uri).split("://")[-1].rstrip("#")
