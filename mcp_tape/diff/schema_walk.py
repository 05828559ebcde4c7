"""The walk through two JSON Schemas side by side, place by place.

Owns what is compared with what: recursion, its end, and how much may be looked at. What differs at one
place is for the checks to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .. import jsontext
from ..jsontext import Path
from .schema_documents import Document
from .schema_facts import Fact
from .schema_nodes import Node, Schema
from .schema_reading import Reader

DEEPEST = 40  # places within each other
MOST = 20_000  # schemas that are read, of both

Check = Callable[["Walk", Node, Node, Path], Iterator[Fact]]


class TooLargeError(Exception):
    """There is more to compare than anybody wants to wait for."""


def refer(canonical: bytes) -> bool:
    """Whether there may be a reference in a schema: if not, the text is all there is to it."""
    return b'$ref":' in canonical or b'Ref":' in canonical


class Walk:
    """Compares the schemas of two documents. `each_once`: what is referred to from two places is told once.

    `checks` look at two nodes; the last word has `choose`, because alternatives decide what is compared at all.
    """

    def __init__(self, old: Schema, new: Schema, checks: tuple[Check, ...], choose: Check, each_once: bool) -> None:
        self._old = Reader(Document(old), self.spend)
        self._new = Reader(Document(new), self.spend)
        self._checks = checks
        self._choose = choose
        self._each_once = each_once
        self._met: set[tuple[bytes, bytes]] = set()
        self._depth = 0
        self._spent = 0

    def compare(self, old: Schema, new: Schema, path: Path) -> list[Fact]:
        """The facts about two schemas as they are written."""
        met = jsontext.canonical(old), jsontext.canonical(new)
        refers = refer(met[0]) or refer(met[1])
        if met in self._met or (met[0] == met[1] and not refers):
            return []
        if self._depth > DEEPEST:
            return [Fact("changed", "other", path, note="nested too deep to compare")]
        # A schema that contains itself comes by again, and would for ever. The first time counts.
        self._met |= {met} if refers else set()
        self._depth += 1
        found = self.nodes(self._old.node(old), self._new.node(new), path)
        self._depth -= 1
        if not self._each_once:
            self._met.discard(met)
        return found

    def nodes(self, old: Node, new: Node, path: Path) -> list[Fact]:
        """The facts about two nodes."""
        return list(self._choose(self, old, new, path))

    def plain(self, old: Node, new: Node, path: Path) -> list[Fact]:
        """The facts about two nodes, their alternatives left aside."""
        return [fact for check in self._checks for fact in check(self, old, new, path)]

    def attempt(self, old: Node, new: Node) -> list[Fact]:
        """What the facts would be; what has been met on the way may be met again."""
        met = set(self._met)
        found = self.nodes(old, new, ())
        self._met = met
        return found

    def same(self, old: Schema, new: Schema) -> bool:
        """Whether two schemas mean the same."""
        met = set(self._met)
        found = self.compare(old, new, ())
        self._met = met
        return all(fact.way == "words" for fact in found)

    def new_node(self, schema: Schema) -> Node:
        return self._new.node(schema)

    def old_node(self, schema: Schema) -> Node:
        return self._old.node(schema)

    def spend(self, count: int = 1) -> None:
        """Count what is looked at, and stop where it is too much."""
        self._spent += count
        if self._spent > MOST:
            raise TooLargeError
