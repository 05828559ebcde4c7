"""Facts: differences between two JSON Schemas, and the rules that they come under.

A fact is neutral: a schema has become narrower or wider. Which of the two breaks a client depends on who must fit the
schema: the sender of arguments, or the sender of results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

from ...wire.jsontext import Path
from ..changes import ABSENT, Difference
from ..rules import RULES, Level

# narrower: something that fitted may not fit now. wider: the reverse. other: both, or unknown. neutral: neither, as
# long as only members are sent that the schema knows. words: an annotation, which no validator looks at.
Way = Literal["narrower", "wider", "other", "neutral", "words"]


_WAYS: dict[tuple[bool, bool], Way] = {
    (True, False): "narrower",
    (False, True): "wider",
    (True, True): "other",
    (False, False): "neutral",
}


def way(narrows: bool, widens: bool) -> Way:
    return _WAYS[narrows, widens]


class Fact(NamedTuple):
    """One difference between two schemas."""

    kind: str
    way: Way
    path: Path
    before: Any = ABSENT
    after: Any = ABSENT
    note: str = ""
    doubt: bool = False  # it may break nothing, though its rule says so

    @property
    def narrows(self) -> bool:
        return self.way in ("narrower", "other")

    @property
    def widens(self) -> bool:
        return self.way in ("wider", "other")


def narrows(facts: Iterable[Fact]) -> bool:
    return any(fact.narrows for fact in facts)


def widens(facts: Iterable[Fact]) -> bool:
    return any(fact.widens for fact in facts)


_INPUT = {
    "required-property-added": "input-required-property-added",
    "optional-property-added": "input-optional-property-added",
    "required-property-removed": "input-property-removed",
    "optional-property-removed": "input-property-removed",
    "became-required": "input-property-became-required",
    "became-optional": "input-property-became-optional",
    "type-changed": "input-type-changed",
    "type-narrowed": "input-type-narrowed",
    "type-widened": "input-type-widened",
    "null-lost": "input-became-not-nullable",
    "null-gained": "input-type-widened",
    "value-lost": "input-enum-value-removed",
    "value-gained": "input-enum-value-added",
    "became-enum": "input-became-enum",
    "became-const": "input-const-added",
    "values-dropped": "input-enum-value-added",
    "limit-tightened": "input-constraint-tightened",
    "limit-changed": "input-constraint-tightened",
    "limit-set": "input-constraint-set",
    "limit-loosened": "input-constraint-loosened",
    "pattern-added": "input-pattern-added",
    "pattern-changed": "input-pattern-changed",
    "pattern-removed": "input-pattern-removed",
    "closed": "input-additional-properties-forbidden",
    "opened": "input-additional-properties-allowed",
    "any-of-lost": "input-any-of-removed",
    "any-of-gained": "input-type-widened",
    "one-of-lost": "input-one-of-removed",
    "one-of-gained": "input-type-widened",
    "condition-added": "input-all-of-added",
    "condition-removed": "input-constraint-loosened",
    "if-added": "input-if-then-added",
    "if-removed": "input-constraint-loosened",
    "dependency-added": "input-dependent-required-added",
    "dependency-removed": "input-constraint-loosened",
    "changed": "input-schema-changed",
    "default-changed": "input-default-changed",
    "header-changed": "input-header-mapping-changed",
    "dialect-changed": "schema-dialect-changed",
    "description-changed": "input-property-description-changed",
}
_OUTPUT = {
    "required-property-added": "output-property-added",
    "optional-property-added": "output-property-added",
    "required-property-removed": "output-required-property-removed",
    "optional-property-removed": "output-optional-property-removed",
    "became-required": "output-type-narrowed",
    "became-optional": "output-property-became-optional",
    "type-changed": "output-type-changed",
    "type-narrowed": "output-type-narrowed",
    "type-widened": "output-type-widened",
    "null-lost": "output-type-narrowed",
    "null-gained": "output-became-nullable",
    "value-lost": "output-constraint-tightened",
    "value-gained": "output-enum-value-added",
    "became-enum": "output-constraint-tightened",
    "became-const": "output-constraint-tightened",
    "values-dropped": "output-enum-value-added",
    "limit-tightened": "output-constraint-tightened",
    "limit-changed": "output-constraint-loosened",
    "limit-set": "output-constraint-tightened",
    "limit-loosened": "output-constraint-loosened",
    "pattern-added": "output-constraint-tightened",
    "pattern-changed": "output-schema-changed",
    "pattern-removed": "output-constraint-loosened",
    "closed": "output-constraint-tightened",
    "opened": "output-property-added",
    "any-of-lost": "output-type-narrowed",
    "any-of-gained": "output-any-of-added",
    "one-of-lost": "output-type-narrowed",
    "one-of-gained": "output-one-of-added",
    "condition-added": "output-constraint-tightened",
    "condition-removed": "output-constraint-loosened",
    "if-added": "output-constraint-tightened",
    "if-removed": "output-constraint-loosened",
    "dependency-added": "output-constraint-tightened",
    "dependency-removed": "output-constraint-loosened",
    "changed": "output-schema-changed",
    "dialect-changed": "schema-dialect-changed",
}


def of_input(facts: Iterable[Fact]) -> Iterator[Difference]:
    """Rules for the schema of arguments."""
    for fact in facts:
        ignored = _INPUT[fact.kind] == "input-property-removed" and not fact.narrows
        yield _difference(_INPUT[fact.kind], fact, "warn" if ignored else None)


def of_output(facts: Iterable[Fact]) -> Iterator[Difference]:
    """Rules for the schema of results; no model reads its descriptions."""
    for fact in facts:
        if fact.kind in _OUTPUT:
            unheard_of = _OUTPUT[fact.kind] == "output-property-added" and fact.widens
            yield _difference(_OUTPUT[fact.kind], fact, "warn" if unheard_of else None)


def _difference(rule: str, fact: Fact, level: Level | None) -> Difference:
    if fact.kind == "dialect-changed" and ABSENT in (fact.before, fact.after):
        level = "info"  # to name what was meant, or not to name it any more
    doubtful = fact.doubt and RULES[rule].level == "error"
    return Difference(rule, fact.path, fact.before, fact.after, fact.note, "warn" if doubtful else level)
