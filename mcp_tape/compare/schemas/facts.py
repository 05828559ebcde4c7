"""Facts: differences between two JSON Schemas, and their rules.

A fact is neutral: a schema has become narrower or wider. Which of the two breaks a client depends on the sender of the
values: the client sends arguments, the server sends results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

from ...wire.jsontext import Path
from ..changes import ABSENT, Difference
from ..rule_table import RULES, Level

# narrower: a value that used to fit may not fit now. wider: the reverse. other: both, or unknown. neutral: neither, if
# only members named in the schema are sent. words: an annotation, which validators ignore.
Way = Literal["narrower", "wider", "other", "neutral", "words"]
Spared = tuple[Literal["narrower", "wider"], ...]


def way(narrows: bool, widens: bool) -> Way:
    if narrows:
        return "other" if widens else "narrower"
    return "wider" if widens else "neutral"


class SchemaFact(NamedTuple):
    """One difference between two schemas."""

    kind: str
    way: Way
    path: Path
    before: Any = ABSENT
    after: Any = ABSENT
    note: str = ""
    doubt: bool = False  # it may break nothing, despite its rule
    spared: Spared = ()  # the ways in which another alternative covers it


def narrows(facts: Iterable[SchemaFact]) -> bool:
    return any(fact.way in ("narrower", "other") for fact in facts)


def widens(facts: Iterable[SchemaFact]) -> bool:
    return any(fact.way in ("wider", "other") for fact in facts)


def spare(fact: SchemaFact, spared: Spared) -> SchemaFact:
    """A fact that another alternative covers, in some ways."""
    left = way(narrows([fact]) and "narrower" not in spared, widens([fact]) and "wider" not in spared)
    if fact.way in ("neutral", "words") or left == fact.way:
        return fact
    note = f"{fact.note}; another alternative takes it" if "narrower" in spared else fact.note
    return fact._replace(way=left, note=note, spared=tuple({*fact.spared, *spared}))


# For each kind of fact: the rule for the schema of arguments, and the one for results. No model reads the descriptions
# and defaults of results.
_RULES: dict[str, tuple[str, str | None]] = {
    "required-property-added": ("input-required-property-added", "output-property-added"),
    "optional-property-added": ("input-optional-property-added", "output-property-added"),
    "required-property-removed": ("input-property-removed", "output-required-property-removed"),
    "optional-property-removed": ("input-property-removed", "output-optional-property-removed"),
    "became-required": ("input-property-became-required", "output-type-narrowed"),
    "became-optional": ("input-property-became-optional", "output-property-became-optional"),
    "type-changed": ("input-type-changed", "output-type-changed"),
    "type-narrowed": ("input-type-narrowed", "output-type-narrowed"),
    "type-widened": ("input-type-widened", "output-type-widened"),
    "null-lost": ("input-became-not-nullable", "output-type-narrowed"),
    "null-gained": ("input-type-widened", "output-became-nullable"),
    "value-lost": ("input-enum-value-removed", "output-constraint-tightened"),
    "value-gained": ("input-enum-value-added", "output-enum-value-added"),
    "became-enum": ("input-became-enum", "output-constraint-tightened"),
    "became-const": ("input-const-added", "output-constraint-tightened"),
    "values-dropped": ("input-enum-value-added", "output-enum-value-added"),
    "limit-tightened": ("input-constraint-tightened", "output-constraint-tightened"),
    "limit-changed": ("input-constraint-tightened", "output-constraint-loosened"),
    "limit-set": ("input-constraint-set", "output-constraint-tightened"),
    "exact-limit-set": ("input-constraint-set", "output-constraint-tightened"),
    "exact-limit-loosened": ("input-constraint-loosened", "output-constraint-loosened"),
    "limit-loosened": ("input-constraint-loosened", "output-constraint-loosened"),
    "pattern-added": ("input-pattern-added", "output-constraint-tightened"),
    "pattern-changed": ("input-pattern-changed", "output-schema-changed"),
    "pattern-removed": ("input-pattern-removed", "output-constraint-loosened"),
    "closed": ("input-additional-properties-forbidden", "output-constraint-tightened"),
    "opened": ("input-additional-properties-allowed", "output-property-added"),
    "any-of-lost": ("input-any-of-removed", "output-type-narrowed"),
    "any-of-gained": ("input-type-widened", "output-any-of-added"),
    "one-of-lost": ("input-one-of-removed", "output-type-narrowed"),
    "one-of-gained": ("input-type-widened", "output-one-of-added"),
    "any-of-replaced": ("input-any-of-removed", "output-any-of-added"),
    "one-of-replaced": ("input-one-of-removed", "output-one-of-added"),
    "condition-added": ("input-all-of-added", "output-constraint-tightened"),
    "condition-removed": ("input-constraint-loosened", "output-constraint-loosened"),
    "if-added": ("input-if-then-added", "output-constraint-tightened"),
    "if-removed": ("input-constraint-loosened", "output-constraint-loosened"),
    "dependency-added": ("input-dependent-required-added", "output-constraint-tightened"),
    "dependency-removed": ("input-constraint-loosened", "output-constraint-loosened"),
    "changed": ("input-schema-changed", "output-schema-changed"),
    "default-changed": ("input-default-changed", None),
    "default-reordered": ("input-default-changed", None),
    "header-changed": ("input-header-mapping-changed", None),
    "dialect-changed": ("schema-dialect-changed", "schema-dialect-changed"),
    "description-changed": ("input-property-description-changed", None),
}


def to_differences(facts: Iterable[SchemaFact], *, of_results: bool) -> Iterator[Difference]:
    """Convert facts to differences, under the rules for arguments or for results."""
    for fact in facts:
        rule = _RULES[fact.kind][of_results]
        if rule is not None:
            level = "info" if ("wider" if of_results else "narrower") in fact.spared else _level(rule, fact)
            common = fact.kind.startswith("exact-limit") or (fact.kind == "dialect-changed" and level == "info")
            yield Difference(rule, fact.path, fact.before, fact.after, fact.note, level, common=common)


def _level(rule: str, fact: SchemaFact) -> Level | None:
    """The level of a fact, if it differs from its rule's."""
    if fact.kind == "default-reordered":
        return "info"
    if fact.doubt and RULES[rule].level == "error":
        return "warn"
    if fact.kind == "dialect-changed" and (ABSENT in (fact.before, fact.after) or not fact.doubt):
        return "info"  # only the declaration changed, or it matters to neither
    if fact.kind.startswith("exact-limit"):
        return "info"
    # An argument that used to be required is meaningful, and may be refused now even if the schema allows it.
    ignored = rule == "input-property-removed" and not narrows([fact]) and fact.kind.startswith("optional")
    unheard_of = rule == "output-property-added" and widens([fact])
    return "warn" if ignored or unheard_of else None
