"""The walk through two JSON Schemas side by side, place by place.

Owns what is compared with what: recursion, its end, and how much may be looked at. What differs at one
place is for the checks to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ... import jsontext
from ...jsontext import Path
from .documents import Document
from .facts import Fact
from .nodes import Node, Schema
from .reading import Reader

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
        self._known: dict[tuple[bytes, bytes], list[Fact]] = {}
        self._depth = 0
        self._spent = 0

    def compare(self, old: Schema, new: Schema, path: Path) -> list[Fact]:
        """The facts about two schemas as they are written."""
        pair = jsontext.canonical(old), jsontext.canonical(new)
        if refer(pair[0]) or refer(pair[1]):
            return self._referring(pair, old, new, path)
        if pair[0] == pair[1]:
            return []
        if pair not in self._known:  # where nothing is referred to, the place does not matter
            self._known[pair] = self._deeper(old, new, ())
        self.spend(len(self._known[pair]) // 4)  # nobody reads thousands of findings
        return [fact._replace(path=(*path, *fact.path)) for fact in self._known[pair]]

    def _referring(self, pair: tuple[bytes, bytes], old: Schema, new: Schema, path: Path) -> list[Fact]:
        # A schema that contains itself comes by again, and would for ever. The first time counts.
        if pair in self._met:
            return []
        self._met.add(pair)
        found = self._deeper(old, new, path)
        if not self._each_once:
            self._met.discard(pair)
        return found

    def _deeper(self, old: Schema, new: Schema, path: Path) -> list[Fact]:
        if self._depth > DEEPEST:
            return [Fact("changed", "other", path, note="nested too deep to compare")]
        self._depth += 1
        found = self.nodes(self._old.node(old), self._new.node(new), path)
        self._depth -= 1
        return found

    def nodes(self, old: Node, new: Node, path: Path) -> list[Fact]:
        """The facts about two nodes."""
        self.spend(2)
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
