"""Comparison of two JSON Schemas: the input or output schema of a tool, in two versions.

Theory of operation. One schema can be written in many ways, so meanings are compared and not texts, in three steps:

1. Read. The assertions of a schema at one place become a node, a normal form: `$ref` is followed, `allOf` merged,
keywords of older drafts translated, and simple alternatives reduced to types and values. Equivalent ways to write a
schema give one node. Schemas of members and items stay as written until they are reached.
2. Walk. Two documents are walked side by side, and each pair of nodes is checked, keyword by keyword. A keyword applies
to its own types only (https://json-schema.org/draft/2020-12/json-schema-validation, section 6), so limits count if
both nodes allow such a type. Alternatives are paired first: by text, by meaning, then with one that accepts all that
the other accepted, then by likeness. A recursive schema is visited once. A budget ends walks that would take too long.
3. Judge. The walk yields neutral facts: narrower, if a value that used to fit may not fit now; wider, the reverse.
Clients send arguments, so an input schema breaks them when it becomes narrower; clients read results, so an output
schema breaks them when it becomes wider.

An undecidable difference is a fact of its own, and never silent: two patterns, or two `not`, are equal or changed. A
`format` need not be checked by validators (section 7), so a format that few check is in doubt.

Paths follow the meaning: through a `$ref` and into an `allOf`, as if all were written in one place.

    schema_reader   from a written schema to a node
    nodes           the node, and the merge of two nodes
    references      the target of a `$ref`, within the document
    limits          ranges, lengths, counts and multiples
    property_names  names of members that match a pattern
    implied         limits that follow from the rest of a node
    walk            the walk, its recursion and its budget
    assertions      checks of types, values, limits, patterns and conditions
    members         checks of members and items
    alternatives    checks of `anyOf` and `oneOf`
    overlaps        values that fit two alternatives at once
    facts           facts, and their rules
    readable_facts  facts, prepared for readers
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...model.texts import subschemas
from ..changes import ABSENT, Difference
from .alternatives import choose
from .assertions import conditions, differ, multiples, opaques, patterns, ranges, types, values, words
from .facts import SchemaFact, to_differences
from .members import dependencies, items, members, others
from .readable_facts import prepare_facts
from .walk import BudgetSpentError, SchemaWalk

CHECKS = (types, values, ranges, multiples, patterns, members, others, dependencies, items, conditions, opaques, words)
_OF_DIALECTS = frozenset(
    """prefixItems additionalItems dependencies dependentRequired dependentSchemas unevaluatedItems
    unevaluatedProperties minContains maxContains $dynamicRef $dynamicAnchor $recursiveRef $recursiveAnchor""".split()
)
_BESIDE_REFERENCES = {
    "$ref",
    "$schema",
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    "$comment",
}
_DIALECT = "json-schema.org/draft/2020-12/schema"  # the default dialect


def compare_input(old: Any, new: Any) -> Iterator[Difference]:
    """Compare the schemas of a tool's arguments; paths start at the schema."""
    facts = _facts(old, new)
    if isinstance(new, dict) and "additionalProperties" not in new:
        # A tool without declared arguments has none; any other object without declared members allows all.
        facts = [fact._replace(spared=()) if _is_argument(fact) else fact for fact in facts]
    return to_differences(facts, of_results=False)


def compare_output(old: Any, new: Any) -> Iterator[Difference]:
    """Compare the schemas of a tool's results; paths start at the schema."""
    return to_differences(_facts(old, new), of_results=True)


def _is_argument(fact: SchemaFact) -> bool:
    return fact.kind.endswith("property-removed") and len(fact.path) == 2


def _facts(old: Any, new: Any) -> list[SchemaFact]:
    """Compare two schemas, for arguments or results."""
    if not differ(old, new):
        return []
    found = list(_dialects(old, new))
    # The target of two references is reported for both, unless there are too many.
    for each_once in (False, True):
        try:
            return prepare_facts(
                found + SchemaWalk(old, new, CHECKS, choose, each_once).compare_whole(old, new, ()), old, new
            )
        except (BudgetSpentError, RecursionError):  # both mean a hostile schema
            continue
    return [*found, SchemaFact("changed", "other", (), note="too large to compare")]


def _dialects(old: Any, new: Any) -> Iterator[SchemaFact]:
    before, after = (schema.get("$schema", ABSENT) if isinstance(schema, dict) else ABSENT for schema in (old, new))
    if _dialect(before) != _dialect(after):
        matters = any(map(_depends_on_dialect, (old, new)))
        note = "another dialect of JSON Schema" + (", which changes its meaning" if matters else "")
        yield SchemaFact("dialect-changed", "words", ("$schema",), before, after, note, doubt=matters)


def _depends_on_dialect(schema: Any) -> bool:
    """Return whether a schema has keywords that mean something else, or nothing, in another dialect:
    https://json-schema.org/draft/2020-12/release-notes, and earlier ones
    """
    return any(
        one.keys() & _OF_DIALECTS
        or isinstance(one.get("items"), list)
        or any(isinstance(one.get(keyword), bool) for keyword in ("exclusiveMinimum", "exclusiveMaximum"))
        or ("$ref" in one and one.keys() - _BESIDE_REFERENCES)  # ignored by older dialects
        for _, one in subschemas(schema)
    )


def _dialect(uri: Any) -> str:
    return _DIALECT if uri is ABSENT else str(uri).split("://")[-1].rstrip("#")
