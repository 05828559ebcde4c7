"""Alternatives: pairs of old and new ones, and those that are lost or gained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ...wire.jsontext import Path
from ..changes import canonical
from .assertions import differ, nulls, words
from .facts import Fact, Spared, Way, narrows, spare, way, widens
from .nodes import NULL, NUMBER, TYPES, Alternative, Choice, Group, Node, Schema, both, describe, type_names
from .overlaps import divided, overlapping, overlaps, tagged_apart, tags
from .reader import only_choice
from .walk import Walk, refer

_Fits = Callable[[Group, Group], bool]
_NARROWER: Spared = ("narrower",)
_WIDER: Spared = ("wider",)
_KINDS = {"anyOf": "any-of", "oneOf": "one-of"}


def choose(walk: Walk, old: Node, new: Node, path: Path) -> Iterator[Fact]:
    """Compare two nodes, with their alternatives if there are any."""
    if old.groups and new.groups:
        types = (old.reach | new.reach) - NULL
        yield from walk.plain(_base(old, types), _base(new, types), path)
        yield from _groups(walk, old, new, path)
    elif old.groups or new.groups:
        yield from _one_sided(walk, old, new, path)
    else:
        yield from walk.plain(old, new, path)


def _base(node: Node, types: frozenset[str]) -> Node:
    """A node without its alternatives, which compare their types themselves, but not null."""
    return node._replace(groups=(), types=types | (node.reach & NULL))


def _groups(walk: Walk, old: Node, new: Node, path: Path) -> Iterator[Fact]:
    mine, yours = list(old.groups), list(new.groups)

    def same_meaning(one: Group, other: Group) -> bool:
        alone = len(old.groups) == len(new.groups) == 1  # then there is no choice
        return alone or all(fact.way == "words" for fact in _tried(walk, old, new, one, other))

    passes: tuple[_Fits, ...] = (lambda one, other: one.key == other.key, same_meaning, lambda one, other: True)
    for fits in passes:
        for one in list(mine):
            other = next((other for other in yours if fits(one, other)), None)
            if other is not None:
                mine.remove(one)
                yours.remove(other)
                if one.key != other.key or refer(one.key) or old.types != new.types:
                    yield from _alternatives(walk, _choice(old, one), _choice(new, other), path)
    # A group that follows from the others is no condition of its own.
    yours = [one for one in yours if all(narrows(_tried(walk, old, new, kept, one)) for kept in old.groups)]
    mine = [one for one in mine if all(widens(_tried(walk, old, new, one, kept)) for kept in new.groups)]
    yield from _conditions(yours, "narrower", path)
    yield from _conditions(mine, "wider", path)


def _tried(walk: Walk, old: Node, new: Node, one: Group, other: Group) -> list[Fact]:
    return walk.attempt(Node(types=old.types, groups=(one,)), Node(types=new.types, groups=(other,)))


def _conditions(groups: list[Group], way: Way, path: Path) -> Iterator[Fact]:
    """Groups without a counterpart, as conditions."""
    for group in groups:
        at, written = (*path, group.keyword), [one.written for one in group.alternatives]
        if way == "narrower":
            yield Fact("condition-added", way, at, after=written, note=f"new condition ({group.keyword})")
        else:
            yield Fact("condition-removed", way, at, before=written, note=f"a condition is gone ({group.keyword})")


def _one_sided(walk: Walk, old: Node, new: Node, path: Path) -> Iterator[Fact]:
    """Compare where only one side has alternatives: a condition on top of the rest, or the rest in another form."""
    bases = [node._replace(groups=(), types=node.reach) for node in (old, new)]
    facts = walk.plain(bases[0], bases[1], path)
    grouped, plain, way = (new, old, "narrower") if new.groups else (old, new, "wider")
    if all(fact.way in (way, "words") for fact in facts) and not _one_for_each_type(grouped, plain):
        yield from facts
        real = [group for group in grouped.groups if not _vacuous(walk, bases, group, way)]
        yield from _conditions(real, "narrower" if new.groups else "wider", path)
    elif len(grouped.groups) == 1:
        yield from nulls(bases[0], bases[1], path)
        yield from words(walk, old, new, path)
        yield from _alternatives(walk, _split(old), _split(new), path)
    else:
        yield from facts
        yield Fact("changed", "other", (*path, grouped.groups[0].keyword), note="alternatives differ")


def _one_for_each_type(grouped: Node, plain: Node) -> bool:
    """True if alternatives may be a list of types in another form."""
    several = len(type_names(plain.types - NULL)) > 1 and plain.types != TYPES
    return several and len(grouped.groups) == 1 and grouped._replace(groups=(), notes={}) == Node(types=grouped.types)


def _vacuous(walk: Walk, bases: list[Node], group: Group, way: str) -> bool:
    """True if one of the alternatives always holds, so that the others do not matter."""
    old, new = bases
    choice = _choice(new if way == "narrower" else old, group)
    if overlapping(choice, walk.new_node if way == "narrower" else walk.old_node):
        return False
    if way == "narrower":
        return any(not narrows(walk.attempt(old, both(new, one.node))) for one in choice.alternatives)
    return any(not widens(walk.attempt(both(old, one.node), new)) for one in choice.alternatives)


def _choice(node: Node, group: Group) -> Choice:
    """Alternatives of a group, limited to the types of their node."""
    allowed = Node(types=node.types - NULL)
    found = (one._replace(node=both(one.node, allowed)) for one in group.alternatives)
    return Choice(group.keyword, tuple(one for one in found if one.node.reach))


def _split(node: Node) -> Choice:
    """Split a node into alternatives: its own with all that holds besides, else one for each type."""
    silent = node._replace(notes={}, groups=())
    if node.groups:
        group = node.groups[0]
        found = (one._replace(node=both(one.node, silent)) for one in group.alternatives)
        return Choice(group.keyword, tuple(one for one in found if one.node.reach))
    kinds = [frozenset({name}) for name in sorted(node.types - NULL - NUMBER)]
    kinds += [node.types & NUMBER] if node.types & NUMBER else []
    parts = (both(silent, Node(types=kind)) for kind in kinds)
    return Choice("", tuple(Alternative((), {"type": describe(part)}, part) for part in parts))


def _alternatives(walk: Walk, old: Choice, new: Choice, path: Path) -> Iterator[Fact]:
    old, new = _unfolded(old, walk.old_node), _unfolded(new, walk.new_node)
    old, new = divided(old, new, walk.old_node, walk.new_node), divided(new, old, walk.new_node, walk.old_node)
    yield from _once(_compared(walk, old, new, path))


def _once(facts: Iterable[Fact]) -> Iterator[Fact]:
    """Each fact once, as it is worst: the parts of an alternative that was divided have much in common."""
    found: dict[tuple[str, Path, bytes, bytes], Fact] = {}
    for fact in facts:
        key = fact.kind, fact.path, canonical(fact.before), canonical(fact.after)
        found[key] = min(found.get(key, fact), fact, key=lambda one: len(one.spared))
    return iter(found.values())


def _unfolded(choice: Choice, read: Callable[[Schema], Node]) -> Choice:
    """Put alternatives of an alternative in its place, where no two of them take the same."""
    found: list[Alternative] = []
    for one in choice.alternatives:
        inner = only_choice(one.node._replace(types=TYPES))
        if inner is None or choice.keyword != "anyOf" or overlapping(_choice(one.node, inner), read):
            found.append(one)
        else:
            parts = _choice(one.node, inner).alternatives
            found += [part._replace(path=(*one.path, *part.path)) for part in parts]
    return choice._replace(alternatives=tuple(found))


def _compared(walk: Walk, old: Choice, new: Choice, path: Path) -> Iterator[Fact]:
    mine, yours = old.alternatives, new.alternatives
    walk.spend(len(mine) * len(yours) // 4)  # to look at two is less than to read one
    tried: dict[tuple[int, int], list[Fact]] = {}

    def facts(i: int, j: int) -> list[Fact]:
        if (i, j) not in tried:
            tried[i, j] = walk.attempt(mine[i].node, yours[j].node)
        return tried[i, j]

    pairs = _pairs(walk, mine, yours, facts)
    found = {}
    for i, j in pairs.items():
        found[i] = walk.nodes(mine[i].node, yours[j].node, (*path, *(yours[j].path or mine[i].path)))
        # What one alternative does not take any more, or takes as well, another may take still, or have taken before.
        taken = narrows(found[i]) and any(not narrows(facts(i, k)) for k in range(len(yours)) if k != j)
        known = widens(found[i]) and any(not widens(facts(k, j)) for k in range(len(mine)) if k != i)
        spared: Spared = (*(_NARROWER if taken else ()), *(_WIDER if known else ()))
        found[i] = [spare(fact, spared) for fact in found[i]]
    yield from (fact for each in found.values() for fact in each)
    for i in (i for i in range(len(mine)) if i not in pairs):
        tries = [facts(i, j) for j in range(len(yours))]
        yield from _unpaired(mine[i], old.keyword or new.keyword, tries, path, lost=True)
    for j in (j for j in range(len(yours)) if j not in pairs.values()):
        tries = [facts(i, j) for i in range(len(mine))]
        yield from _unpaired(yours[j], new.keyword or old.keyword, tries, path, lost=False)
    if "oneOf" in (old.keyword, new.keyword):
        yield from overlaps(walk, old, new, pairs, found, path)


def _unpaired(one: Alternative, keyword: str, tried: list[list[Fact]], path: Path, *, lost: bool) -> Iterator[Fact]:
    """Report an alternative, if none of the other side takes what it takes, or at least knows all of its members."""
    breaks, unknown = (narrows, "property-removed") if lost else (widens, "property-added")
    if not all(
        breaks(facts) or any(fact.kind.endswith(unknown) and not fact.spared for fact in facts) for facts in tried
    ):
        return
    doubt = not all(map(breaks, tried))
    kind, at, what = _KINDS[keyword], (*path, *one.path), describe(one.node)
    if lost:
        note = f"alternative is gone ({what})"
        yield Fact(f"{kind}-lost", way(not doubt, False), at, before=one.written, note=note, doubt=doubt)
    else:
        note = f"new alternative ({what})"
        yield Fact(f"{kind}-gained", way(False, not doubt), at, after=one.written, note=note, doubt=doubt)


def _pairs(
    walk: Walk, mine: tuple[Alternative, ...], yours: tuple[Alternative, ...], facts: Callable[[int, int], list[Fact]]
) -> dict[int, int]:
    """Pair alternatives: of equal text first, then of equal meaning, then those that take the old one, then alike."""
    pairs: dict[int, int] = {}
    old, new = [tags(one.node, walk.old_node) for one in mine], [tags(one.node, walk.new_node) for one in yours]

    def like(i: int, j: int) -> int:
        return 0 if tagged_apart(old[i], new[j]) else likeness(mine[i].node, yours[j].node)

    def pair(fits: Callable[[int, int], bool]) -> None:
        for i in (i for i in range(len(mine)) if i not in pairs):
            alike = {j: like(i, j) for j in range(len(yours)) if j not in pairs.values()}
            likely = [j for j in alike if alike[j] and alike[j] == max(alike.values())]  # the others are not tried
            best = next((j for j in sorted(likely, key=lambda j: abs(i - j)) if fits(i, j)), None)
            pairs.update({} if best is None else {i: best})

    pair(lambda i, j: not differ(mine[i].written, yours[j].written))
    pair(lambda i, j: all(fact.way == "words" for fact in facts(i, j)))
    pair(lambda i, j: not narrows(facts(i, j)))
    pair(lambda i, j: True)
    return pairs


def likeness(one: Node, other: Node) -> int:
    """Degree of likeness of two alternatives; 0 if one cannot be the other."""
    common = one.reach & other.reach
    if not common:
        return 0
    shared = len(one.properties.keys() & other.properties.keys())
    named = one.notes.get("name") is not None and one.notes.get("name") == other.notes.get("name")
    if common == {"object"} and one.properties and other.properties and not shared and not named:
        return 0
    return 1 + 1000 * named + 100 * (one.reach == other.reach) + shared
