"""Alternatives: pairs of old and new ones, and those that were lost or gained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from ...wire.jsontext import Path
from ..changes import ABSENT, comparable_bytes
from .assertions import differ, nulls, words
from .facts import SchemaFact, Spared, Way, narrows, spare, way, widens
from .nodes import (
    NULL,
    NUMBER,
    TYPES,
    Alternative,
    AlternativeChoice,
    AlternativeGroup,
    Schema,
    SchemaNode,
    describe,
    open_both,
    type_names,
)
from .overlaps import are_tagged_apart, divide, overlapping_pairs, overlaps, tags
from .schema_reader import only_choice
from .walk import SchemaWalk, may_refer

_Fits = Callable[[AlternativeGroup, AlternativeGroup], bool]
_NARROWER: Spared = ("narrower",)
_WIDER: Spared = ("wider",)
_KINDS = {"anyOf": "any-of", "oneOf": "one-of"}
_Unpaired = tuple[Alternative, SchemaFact]
Weight = Literal["all", "names", "nothing"]


def choose(walk: SchemaWalk, old: SchemaNode, new: SchemaNode, path: Path) -> Iterator[SchemaFact]:
    """Compare two nodes, with their alternatives if there are any."""
    if old.groups and new.groups:
        types = (old.reach | new.reach) - NULL
        yield from walk.plain(_base(old, types), _base(new, types), path)
        yield from _groups(walk, old, new, path)
    elif old.groups or new.groups:
        yield from _one_sided(walk, old, new, path)
    else:
        yield from walk.plain(old, new, path)


def _base(node: SchemaNode, types: frozenset[str]) -> SchemaNode:
    """A node without its alternatives. They compare their own types, except null."""
    return node._replace(groups=(), types=types | (node.reach & NULL))


def _groups(walk: SchemaWalk, old: SchemaNode, new: SchemaNode, path: Path) -> Iterator[SchemaFact]:
    mine, yours = list(old.groups), list(new.groups)

    def same_meaning(one: AlternativeGroup, other: AlternativeGroup) -> bool:
        alone = len(old.groups) == len(new.groups) == 1  # only one pair is possible
        return alone or all(fact.way == "words" for fact in _try_pair(walk, old, new, one, other))

    passes: tuple[_Fits, ...] = (lambda one, other: one.key == other.key, same_meaning, lambda one, other: True)
    for fits in passes:
        for one in list(mine):
            other = next((other for other in yours if fits(one, other)), None)
            if other is not None:
                mine.remove(one)
                yours.remove(other)
                if one.key != other.key or may_refer(one.key) or old.types != new.types:
                    yield from _compare_choices(walk, _choice(old, one), _choice(new, other), path)
    # A group that follows from the others is not a condition of its own.
    yours = [one for one in yours if all(narrows(_try_pair(walk, old, new, kept, one)) for kept in old.groups)]
    mine = [one for one in mine if all(widens(_try_pair(walk, old, new, one, kept)) for kept in new.groups)]
    for one in yours:
        yield from _condition(one, "all", "narrower", path)
    for one in mine:
        yield from _condition(one, "all", "wider", path)


def _try_pair(
    walk: SchemaWalk, old: SchemaNode, new: SchemaNode, one: AlternativeGroup, other: AlternativeGroup
) -> list[SchemaFact]:
    return walk.attempt(SchemaNode(types=old.types, groups=(one,)), SchemaNode(types=new.types, groups=(other,)))


def _condition(group: AlternativeGroup, weight: Weight, way: Way, path: Path) -> Iterator[SchemaFact]:
    """Report an unpaired group as a condition. One that only names members excludes nothing."""
    if weight == "nothing":
        return
    at, written = (*path, group.keyword), [one.written for one in group.alternatives]
    if way == "narrower":
        found = SchemaFact("condition-added", way, at, after=written, note=f"new condition ({group.keyword})")
    else:
        found = SchemaFact("condition-removed", way, at, before=written, note=f"a condition is gone ({group.keyword})")
    yield found._replace(way="neutral", doubt=True, spared=_NARROWER) if weight == "names" else found


def _one_sided(walk: SchemaWalk, old: SchemaNode, new: SchemaNode, path: Path) -> Iterator[SchemaFact]:
    """Compare if only one side has alternatives: they are an extra condition, or another form of the rest."""
    bases = [node._replace(groups=(), types=node.reach) for node in (old, new)]
    facts = walk.plain(bases[0], bases[1], path)
    grouped, plain = (new, old) if new.groups else (old, new)
    way: Way = "narrower" if new.groups else "wider"
    if all(fact.way in (way, "words") for fact in facts) and not _one_for_each_type(grouped, plain):
        yield from facts
        for group in grouped.groups:
            yield from _condition(group, _weight(walk, bases, group, way), way, path)
    elif len(grouped.groups) == 1:
        yield from nulls(bases[0], bases[1], path)
        yield from words(walk, old, new, path)
        yield from _compare_choices(walk, _split(old), _split(new), path)
    else:
        yield from facts
        yield SchemaFact("changed", "other", (*path, grouped.groups[0].keyword), note="alternatives differ")


def _one_for_each_type(grouped: SchemaNode, plain: SchemaNode) -> bool:
    """True if the alternatives may be another form of a list of types."""
    several = len(type_names(plain.types - NULL)) > 1 and plain.types != TYPES
    return (
        several
        and len(grouped.groups) == 1
        and grouped._replace(groups=(), notes={}) == SchemaNode(types=grouped.types)
    )


def _weight(walk: SchemaWalk, bases: list[SchemaNode], group: AlternativeGroup, way: Way) -> Weight:
    """How much a group restricts: nothing if one of its alternatives always holds."""
    old, new = bases
    choice = _choice(new if way == "narrower" else old, group)
    if overlapping_pairs(choice, walk.new_node if way == "narrower" else walk.old_node):
        return "all"
    weight: Weight = "all"
    for one in choice.alternatives:
        pair = (old, open_both(new, one.node)) if way == "narrower" else (open_both(old, one.node), new)
        facts = walk.attempt(*pair)
        if all(fact.way == "words" for fact in facts):
            return "nothing"
        if not (narrows if way == "narrower" else widens)(facts):
            weight = "names"
    return weight


def _choice(node: SchemaNode, group: AlternativeGroup) -> AlternativeChoice:
    """Alternatives of a group, limited to the types of their node."""
    allowed = SchemaNode(types=node.types - NULL)
    found = (one._replace(node=open_both(one.node, allowed)) for one in group.alternatives)
    return AlternativeChoice(group.keyword, tuple(one for one in found if one.node.reach))


def _split(node: SchemaNode) -> AlternativeChoice:
    """Split a node into alternatives: its own, each merged with the rest of the node, or else one for each type."""
    silent = node._replace(notes={}, groups=())
    if node.groups:
        group = node.groups[0]
        found = (one._replace(node=open_both(one.node, silent)) for one in group.alternatives)
        return AlternativeChoice(group.keyword, tuple(one for one in found if one.node.reach))
    kinds = [frozenset({name}) for name in sorted(node.types - NULL - NUMBER)]
    kinds += [node.types & NUMBER] if node.types & NUMBER else []
    parts = (open_both(silent, SchemaNode(types=kind)) for kind in kinds)
    return AlternativeChoice("", tuple(Alternative((), {"type": describe(part)}, part) for part in parts))


def _compare_choices(
    walk: SchemaWalk, old: AlternativeChoice, new: AlternativeChoice, path: Path
) -> Iterator[SchemaFact]:
    old, new = _unfold(old, walk.old_node), _unfold(new, walk.new_node)
    old, new = divide(old, new, walk.old_node, walk.new_node), divide(new, old, walk.new_node, walk.old_node)
    yield from _once(_compare_paired(walk, old, new, path))


def _once(facts: Iterable[SchemaFact]) -> Iterator[SchemaFact]:
    """Merge repeated facts, keeping the worst: the parts of a divided alternative have much in common."""
    found: dict[tuple[str, Path, bytes, bytes], SchemaFact] = {}
    for fact in facts:
        key = fact.kind, fact.path, comparable_bytes(fact.before), comparable_bytes(fact.after)
        found[key] = min(found.get(key, fact), fact, key=lambda one: len(one.spared))
    return iter(found.values())


def _unfold(choice: AlternativeChoice, read: Callable[[Schema], SchemaNode]) -> AlternativeChoice:
    """Replace an alternative by its own alternatives, unless two of these accept the same value."""
    found: list[Alternative] = []
    for one in choice.alternatives:
        inner = only_choice(one.node._replace(types=TYPES))
        if inner is None or choice.keyword != "anyOf" or overlapping_pairs(_choice(one.node, inner), read):
            found.append(one)
        else:
            parts = _choice(one.node, inner).alternatives
            found += [part._replace(path=(*one.path, *part.path)) for part in parts]
    return choice._replace(alternatives=tuple(found))


def _compare_paired(
    walk: SchemaWalk, old: AlternativeChoice, new: AlternativeChoice, path: Path
) -> Iterator[SchemaFact]:
    mine, yours = old.alternatives, new.alternatives
    walk.spend(len(mine) * len(yours) // 4)  # a comparison is cheaper than reading a schema
    tried: dict[tuple[int, int], list[SchemaFact]] = {}

    def facts(i: int, j: int) -> list[SchemaFact]:
        if (i, j) not in tried:
            tried[i, j] = walk.attempt(mine[i].node, yours[j].node)
        return tried[i, j]

    pairs = _pairs(walk, mine, yours, facts)
    found = {}
    for i, j in pairs.items():
        found[i] = walk.nodes(mine[i].node, yours[j].node, (*path, *(yours[j].path or mine[i].path)))
        # A value that one alternative no longer accepts, or newly accepts, may be covered by another alternative.
        taken = narrows(found[i]) and any(not narrows(facts(i, k)) for k in range(len(yours)) if k != j)
        known = widens(found[i]) and any(not widens(facts(k, j)) for k in range(len(mine)) if k != i)
        spared: Spared = (*(_NARROWER if taken else ()), *(_WIDER if known else ()))
        found[i] = [spare(fact, spared) for fact in found[i]]
    yield from (fact for each in found.values() for fact in each)
    lost = [i for i in range(len(mine)) if i not in pairs]
    gained = [j for j in range(len(yours)) if j not in pairs.values()]
    yield from _report_unpaired(
        [_lost_fact(mine[i], old.keyword or new.keyword, [facts(i, j) for j in range(len(yours))], path) for i in lost],
        [_new(yours[j], new.keyword or old.keyword, [facts(i, j) for i in range(len(mine))], path) for j in gained],
        (*path, old.keyword or new.keyword),
    )
    if "oneOf" in (old.keyword, new.keyword):
        yield from overlaps(walk, old, new, pairs, found, path)


def _lost_fact(one: Alternative, keyword: str, tried: list[list[SchemaFact]], path: Path) -> _Unpaired:
    """A lost alternative, unless another one accepts all its values and names all its members."""
    taken, doubt = _is_covered(tried, narrows, "property-removed")
    note = f"alternative is gone ({describe(one.node)})" + ("; another alternative takes it" if taken else "")
    ends = (*path, *one.path), one.written, ABSENT, note, doubt, _NARROWER if taken else ()
    return one, SchemaFact(f"{_KINDS[keyword]}-lost", "words" if taken else way(not doubt, False), *ends)


def _new(one: Alternative, keyword: str, tried: list[list[SchemaFact]], path: Path) -> _Unpaired:
    """A gained alternative, unless an old one accepted all its values and named all its members."""
    known, doubt = _is_covered(tried, widens, "property-added")
    note = f"new alternative ({describe(one.node)})" + ("; another alternative took it" if known else "")
    ends = (*path, *one.path), ABSENT, one.written, note, doubt, _WIDER if known else ()
    return one, SchemaFact(f"{_KINDS[keyword]}-gained", "words" if known else way(False, not doubt), *ends)


def _is_covered(
    tried: list[list[SchemaFact]], breaks: Callable[[list[SchemaFact]], bool], unknown: str
) -> tuple[bool, bool]:
    """Return whether an alternative of the other side covers one, and whether it may (all but some members)."""
    made_up = not all(
        breaks(facts) or any(fact.kind.endswith(unknown) and not fact.spared for fact in facts) for facts in tried
    )
    return made_up, not made_up and not all(map(breaks, tried))


def _report_unpaired(lost: list[_Unpaired], gained: list[_Unpaired], at: Path) -> Iterator[SchemaFact]:
    """Report unpaired alternatives. If new types replace old ones, report that as one fact."""
    gone, new = ([pair for pair in side if pair[1].way in ("narrower", "wider")] for side in (lost, gained))
    before, after = (frozenset[str]().union(*(one.node.reach for one, _ in side)) for side in (gone, new))
    replaced = gone + new if before and after and not before & after else []
    yield from (fact for pair in lost + gained if pair not in replaced for fact in pair[1:])
    if replaced:
        ends = [one.written for one, _ in gone], [one.written for one, _ in new]
        note = f"{describe(SchemaNode(types=before))} → {describe(SchemaNode(types=after))}"
        yield SchemaFact(f"{_KINDS[str(at[-1])]}-replaced", "other", at, *ends, note)


def _pairs(
    walk: SchemaWalk,
    mine: tuple[Alternative, ...],
    yours: tuple[Alternative, ...],
    facts: Callable[[int, int], list[SchemaFact]],
) -> dict[int, int]:
    """Pair alternatives: by equal text, by equal meaning, by what they accept, then by likeness."""
    pairs: dict[int, int] = {}
    old, new = [tags(one.node, walk.old_node) for one in mine], [tags(one.node, walk.new_node) for one in yours]

    def like(i: int, j: int) -> int:
        return 0 if are_tagged_apart(old[i], new[j]) else likeness(mine[i].node, yours[j].node)

    def pair(fits: Callable[[int, int], bool]) -> None:
        for i in (i for i in range(len(mine)) if i not in pairs):
            alike = {j: like(i, j) for j in range(len(yours)) if j not in pairs.values()}
            likely = [j for j in alike if alike[j] and alike[j] == max(alike.values())]  # only the most alike are tried
            best = next((j for j in sorted(likely, key=lambda j: abs(i - j)) if fits(i, j)), None)
            pairs.update({} if best is None else {i: best})

    pair(lambda i, j: not differ(mine[i].written, yours[j].written))
    pair(lambda i, j: all(fact.way == "words" for fact in facts(i, j)))
    pair(lambda i, j: not narrows(facts(i, j)))
    pair(lambda i, j: True)
    return pairs


def likeness(one: SchemaNode, other: SchemaNode) -> int:
    """The likeness of two alternatives; 0 if they cannot correspond."""
    common = one.reach & other.reach
    if not common:
        return 0
    shared = len(one.properties.keys() & other.properties.keys())
    named = one.notes.get("name") is not None and one.notes.get("name") == other.notes.get("name")
    if common == {"object"} and one.properties and other.properties and not shared and not named:
        return 0
    return 1 + 1000 * named + 100 * (one.reach == other.reach) + shared
