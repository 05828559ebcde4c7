"""Checks of the assertions of two nodes: types, values, limits, patterns and conditions; and of descriptions.

https://json-schema.org/draft/2020-12/json-schema-validation, sections 6 and 7
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...wire import jsontext
from ...wire.jsontext import Path
from ..changes import ABSENT, comparable_bytes
from .facts import SchemaFact, way
from .implied import all_fit, all_multiples, effective
from .limits import LIMITS, SchemaLimit, common_multiple, is_of_numbers, multiple, multiple_value, to_whole
from .nodes import BOOLEANS, NULL, NUMBER, TYPES, SchemaNode, by_value, describe, type_value
from .schema_reader import DEEPER
from .walk import SchemaWalk, may_refer

# The formats of the specification (section 7.3). Validators ignore others.
FORMATS = frozenset(
    """date-time date time duration email idn-email hostname idn-hostname ipv4 ipv6 uri uri-reference iri
    iri-reference uuid uri-template json-pointer relative-json-pointer regex""".split()
)
_SCHEMAS = ("not", "contains", "unevaluatedProperties", "unevaluatedItems", DEEPER)  # opaque, and schemas themselves
_Opaque = Mapping[bytes, tuple[str, Any]]
_NULL_KEY = next(iter(by_value([None])))


def types(walk: SchemaWalk, old: SchemaNode, new: SchemaNode, path: Path) -> Iterator[SchemaFact]:
    """Types that were lost or gained; null separately, if there are other types."""
    mine, yours = old.types, new.types
    if mine - NULL and yours - NULL and TYPES not in (mine, yours):
        yield from nulls(old, new, path)
        mine, yours = mine - NULL, yours - NULL
    lost, gained = mine - yours, yours - mine
    if choices(old) is not None and choices(new) is not None and mine and yours:
        return  # values are compared instead
    if choices(new) is not None and mine & yours:
        lost = frozenset()  # values again: it has become an enum
    if choices(old) is not None and mine & yours:
        gained = frozenset()
    if lost or gained:
        kind = "changed" if lost and gained else "narrowed" if lost else "widened"
        ends = (*path, "type"), type_value(old.types), type_value(new.types)
        yield SchemaFact(f"type-{kind}", way(bool(lost), bool(gained)), *ends, f"{describe(old)} → {describe(new)}")


def nulls(old: SchemaNode, new: SchemaNode, path: Path) -> Iterator[SchemaFact]:
    """Null that was lost or gained, whatever the other types."""
    ends = (*path, "type"), type_value(old.types), type_value(new.types)
    if "null" in old.types - new.types:
        yield SchemaFact("null-lost", "narrower", *ends, "may not be null any more")
    elif "null" in new.types - old.types:
        yield SchemaFact("null-gained", "wider", *ends, "may be null")


def choices(node: SchemaNode) -> Mapping[bytes, Any] | None:
    """The values of an enum without null; None if there is none."""
    found = {key: value for key, value in (node.values or {}).items() if key != _NULL_KEY}
    return found or None


def values(walk: SchemaWalk, old: SchemaNode, new: SchemaNode, path: Path) -> Iterator[SchemaFact]:
    mine, yours = choices(old), choices(new)
    if mine is not None and yours is not None:
        at = (*path, "enum")
        for key in (key for key in mine if key not in yours):
            yield SchemaFact("value-lost", "narrower", at, before=mine[key], note=f"{short(mine[key])} is gone")
        for key in (key for key in yours if key not in mine):
            yield SchemaFact("value-gained", "wider", at, after=yours[key], note=f"{short(yours[key])} is new")
    elif (old.types & new.types) - NULL and not _every(old.types & new.types, mine or yours or {}):
        yield from _choice(mine, yours, path)


def _every(types: frozenset[str], listed: Mapping[bytes, Any]) -> bool:
    """True if all values of the common types are listed."""
    return types - NULL == {"boolean"} and listed.keys() >= BOOLEANS


def _choice(mine: Mapping[bytes, Any] | None, yours: Mapping[bytes, Any] | None, path: Path) -> Iterator[SchemaFact]:
    """A node that became an enum, or no longer is one."""
    if yours is not None and len(yours) == 1:
        value = next(iter(yours.values()))
        yield SchemaFact("became-const", "narrower", (*path, "const"), after=value, note=f"must be {short(value)}")
    elif yours is not None:
        listed = list(yours.values())
        yield SchemaFact(
            "became-enum", "narrower", (*path, "enum"), after=listed, note=f"must be one of {short(listed)}"
        )
    elif mine is not None:
        listed = list(mine.values())
        yield SchemaFact("values-dropped", "wider", (*path, "enum"), before=listed, note="may be any value")


def ranges(walk: SchemaWalk, old: SchemaNode, new: SchemaNode, path: Path) -> Iterator[SchemaFact]:
    """Ranges, lengths and counts."""
    common = old.types & new.types
    for name, (_, about) in LIMITS.items():
        if about & common:
            mine, yours = _limit(old, name, common), _limit(new, name, common)
            if _is_stricter(yours, effective(old, name, mine)) or _is_stricter(mine, effective(new, name, yours)):
                yield _limit_fact(mine, yours, path)


def _is_stricter(one: SchemaLimit | None, other: SchemaLimit | None) -> bool:
    return one is not None and (other is None or one.rank > other.rank)


def _limit(node: SchemaNode, name: str, common: frozenset[str]) -> SchemaLimit | None:
    limit = node.limits.get(name)
    return to_whole(limit) if limit and name in ("minimum", "maximum") and "fraction" not in common else limit


def _limit_fact(mine: SchemaLimit | None, yours: SchemaLimit | None, path: Path) -> SchemaFact:
    if mine is None and yours is not None:
        note, kind = f"{yours.keyword} {yours.value}", "exact-limit-set" if is_of_numbers(yours) else "limit-set"
        return SchemaFact(kind, "narrower", (*path, yours.keyword), after=yours.value, note=note)
    if mine is not None and yours is None:
        kind = "exact-limit-loosened" if is_of_numbers(mine) else "limit-loosened"
        note = f"{mine.keyword} {mine.value} is gone"
        return SchemaFact(kind, "wider", (*path, mine.keyword), before=mine.value, note=note)
    assert mine is not None and yours is not None
    tight = yours.rank > mine.rank
    kind = "limit-tightened" if tight else "limit-loosened"
    at, note = (*path, yours.keyword), f"{mine.keyword} {mine.value} → "
    if mine.keyword == yours.keyword:
        return SchemaFact(kind, way(tight, not tight), at, mine.value, yours.value, f"{note}{yours.value}")
    ends = {mine.keyword: mine.value}, {yours.keyword: yours.value}
    return SchemaFact(kind, way(tight, not tight), at, *ends, f"{note}{yours.keyword} {yours.value}")


def multiples(walk: SchemaWalk, old: SchemaNode, new: SchemaNode, path: Path) -> Iterator[SchemaFact]:
    common = old.types & new.types & NUMBER
    mine, yours = old.multiple, new.multiple
    if "fraction" not in common:  # every integer is a multiple of 1
        mine, yours = (common_multiple(one, multiple(1)) if one and one != 1 else None for one in (mine, yours))
        mine, yours = (None if one == 1 else one for one in (mine, yours))
    if not common or mine == yours:
        return
    before, after = (ABSENT if one is None else multiple_value(one) for one in (mine, yours))
    narrows = yours is not None and (mine is None or mine % yours != 0) and not all_multiples(old, yours)
    widens = mine is not None and (yours is None or yours % mine != 0) and not all_multiples(new, mine)
    if not narrows and not widens:
        return
    kind = "changed" if narrows and widens else "set" if mine is None else "tightened" if narrows else "loosened"
    note = _arrow("multipleOf", before, after)
    yield SchemaFact(f"limit-{kind}", way(narrows, widens), (*path, "multipleOf"), before, after, note)


def patterns(walk: SchemaWalk, old: SchemaNode, new: SchemaNode, path: Path) -> Iterator[SchemaFact]:
    if "string" in old.types & new.types:
        lost = frozenset(pattern for pattern in old.patterns - new.patterns if not all_fit(new, pattern))
        gained = frozenset(pattern for pattern in new.patterns - old.patterns if not all_fit(old, pattern))
        yield from _texts("pattern", lost, gained, path)
        yield from _texts("format", old.formats, new.formats, path)


def _texts(keyword: str, old: frozenset[str], new: frozenset[str], path: Path) -> Iterator[SchemaFact]:
    """Patterns and formats, which are equal or changed: their matches are not compared."""
    lost, gained = sorted(old - new), sorted(new - old)
    doubt = keyword == "format" and not FORMATS.issuperset(lost + gained)
    for before, after in zip(lost, gained, strict=False):
        note = _arrow(keyword, short(before), short(after))
        yield SchemaFact("pattern-changed", "other", (*path, keyword), before, after, note, doubt)
    for after in gained[len(lost) :]:
        note = f"{keyword} {short(after)}"
        yield SchemaFact("pattern-added", "narrower", (*path, keyword), after=after, note=note, doubt=doubt)
    for before in lost[len(gained) :]:
        note = f"{keyword} {short(before)} is gone"
        yield SchemaFact("pattern-removed", "wider", (*path, keyword), before=before, note=note, doubt=doubt)


def conditions(walk: SchemaWalk, old: SchemaNode, new: SchemaNode, path: Path) -> Iterator[SchemaFact]:
    """`if`, `then`, `else`: consequences are compared if the conditions mean the same."""
    mine, yours = list(old.conditions.values()), list(new.conditions.values())
    for one in list(mine):
        other = next((other for other in yours if walk.means_same(one.when, other.when)), None)
        if other is not None:
            mine.remove(one)
            yours.remove(other)
            yield from walk.compare(one.then, other.then, (*path, "then"))
            yield from walk.compare(one.otherwise, other.otherwise, (*path, "else"))
    before, after = [one.when for one in mine], [one.when for one in yours]
    if mine and yours:
        yield SchemaFact("changed", "other", (*path, "if"), before, after, "the condition differs")
    elif yours:
        yield SchemaFact("if-added", "narrower", (*path, "if"), after=after, note="new condition")
    elif mine:
        yield SchemaFact("if-removed", "wider", (*path, "if"), before=before, note="the condition is gone")


def opaques(walk: SchemaWalk, old: SchemaNode, new: SchemaNode, path: Path) -> Iterator[SchemaFact]:
    """Keywords that are compared only for equality."""
    mine, yours = _unmatched_entries(old.opaque, new.opaque), _unmatched_entries(new.opaque, old.opaque)
    for keyword in dict.fromkeys(name for name, _ in (*mine, *yours)):
        befores, afters = ([value for name, value in part if name == keyword] for part in (mine, yours))
        yield from _opaque(walk, keyword, befores, afters, path)


def _unmatched_entries(entries: _Opaque, others: _Opaque) -> list[tuple[str, Any]]:
    """Entries that the other side lacks, or that contain a reference and so may mean something else there."""
    return [entry for key, entry in entries.items() if key not in others or (entry[0] in _SCHEMAS and may_refer(key))]


def _opaque(walk: SchemaWalk, keyword: str, befores: list[Any], afters: list[Any], path: Path) -> Iterator[SchemaFact]:
    if keyword in _SCHEMAS:
        for before in list(befores):
            after = next((after for after in afters if walk.means_same(before, after)), ABSENT)
            if after is not ABSENT:
                befores.remove(before)
                afters.remove(after)
    if not befores and not afters:
        return
    ends = (*path, keyword), _single(befores), _single(afters)
    if keyword in ("not", "contains") and not befores:
        yield SchemaFact("condition-added", "narrower", *ends, f"new condition ({keyword})")
    elif keyword in ("not", "contains") and not afters:
        yield SchemaFact("condition-removed", "wider", *ends, f"a condition is gone ({keyword})")
    else:
        note = f"what lies {DEEPER} differs" if keyword == DEEPER else f"{keyword} differs"
        yield SchemaFact("changed", "other", *ends, note)


def words(walk: SchemaWalk, old: SchemaNode, new: SchemaNode, path: Path) -> Iterator[SchemaFact]:
    before, after = (node.notes.get("description", ABSENT) for node in (old, new))
    if differ(before, after):
        yield SchemaFact(
            "description-changed", "words", (*path, "description"), before, after, "the description differs"
        )


def differ(before: Any, after: Any) -> bool:
    """Return whether two values differ; either may be absent."""
    return comparable_bytes(before) != comparable_bytes(after)


def _single(entries: list[Any]) -> Any:
    return ABSENT if not entries else entries[0] if len(entries) == 1 else entries


def _arrow(keyword: str, before: Any, after: Any) -> str:
    if before is ABSENT or after is ABSENT:
        return f"{keyword} {after}" if before is ABSENT else f"{keyword} {before} is gone"
    return f"{keyword} {before} → {after}"


def short(value: Any) -> str:
    text = jsontext.compact_text(value)
    return text if len(text) <= 60 else text[:57] + "..."
