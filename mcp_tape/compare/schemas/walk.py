"""The walk through two JSON Schemas side by side, place by place.

Owns the pairing of places, recursion and its end, and the budget. The checks report the differences at a place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from ...wire import jsontext
from ...wire.jsontext import Path
from .facts import SchemaFact
from .nodes import Schema, SchemaNode
from .references import Document
from .schema_reader import SchemaReader

DEEPEST = 40  # nested places
MOST = 20_000  # schemas read, of both documents
MOST_ONCE = 50_000  # if each is reported once

_Pair = tuple[bytes, bytes]
Check = Callable[["SchemaWalk", SchemaNode, SchemaNode, Path], Iterator[SchemaFact]]


class BudgetSpentError(Exception):
    """The budget of a walk is spent."""


def may_refer(canonical: bytes) -> bool:
    """Return whether a schema may contain a reference: if not, its text is its meaning."""
    return b'$ref":' in canonical or b'Ref":' in canonical


class SchemaWalk:
    """Compares the schemas of two documents. `each_once`: the target of several references is reported once.

    `checks` compare two nodes; `choose` decides, by their alternatives, which nodes to compare.
    """

    def __init__(self, old: Schema, new: Schema, checks: tuple[Check, ...], choose: Check, each_once: bool) -> None:
        self.old_node = SchemaReader(Document(old), self.spend).node
        self.new_node = SchemaReader(Document(new), self.spend).node
        self._checks = checks
        self._choose = choose
        self._each_once = each_once
        self._left = MOST_ONCE if each_once else MOST
        self._met: set[_Pair] = set()
        self._later: deque[tuple[Schema, Schema, Path]] = deque()
        self._known: dict[_Pair, list[SchemaFact]] = {}
        self._depth = 0

    def compare_whole(self, old: Schema, new: Schema, path: Path) -> list[SchemaFact]:
        """Compare two schemas, with everything that they refer to."""
        return self._run_with_later(lambda: self.compare(old, new, path))

    def compare(self, old: Schema, new: Schema, path: Path) -> list[SchemaFact]:
        """Compare two schemas. The targets of references may be left for later."""
        pair = jsontext.canonical_bytes(old), jsontext.canonical_bytes(new)
        if may_refer(pair[0]) or may_refer(pair[1]):
            return self._compare_referring(pair, old, new, path)
        if pair[0] == pair[1]:
            return []
        if pair not in self._known:  # without references, the result is the same everywhere
            self._known[pair] = self._compare_deeper(old, new, ())
        self.spend(4 * len(self._known[pair]))  # bounds the number of findings
        return [fact._replace(path=(*path, *fact.path)) for fact in self._known[pair]]

    def _compare_referring(self, pair: _Pair, old: Schema, new: Schema, path: Path) -> list[SchemaFact]:
        # A recursive schema would repeat for ever. Only the first visit counts.
        if pair in self._met:
            return []
        self._met.add(pair)
        if self._each_once:  # by the shortest path: along another it may be too deep
            self._later.append((old, new, path))
            return []
        found = self._compare_deeper(old, new, path)
        self._met.discard(pair)
        return found

    def _run_with_later(self, look: Callable[[], list[SchemaFact]]) -> list[SchemaFact]:
        outer, self._later = self._later, deque()
        found = look()
        while self._later:
            found += self._compare_deeper(*self._later.popleft())
        self._later = outer
        return found

    def _compare_deeper(self, old: Schema, new: Schema, path: Path) -> list[SchemaFact]:
        if self._depth > DEEPEST:
            if not self._each_once:
                raise BudgetSpentError
            return [SchemaFact("changed", "other", path, note="nested too deep to compare")]
        self._depth += 1
        found = self.nodes(self.old_node(old), self.new_node(new), path)
        self._depth -= 1
        return found

    def nodes(self, old: SchemaNode, new: SchemaNode, path: Path) -> list[SchemaFact]:
        self.spend(2)
        return list(self._choose(self, old, new, path))

    def plain(self, old: SchemaNode, new: SchemaNode, path: Path) -> list[SchemaFact]:
        """Compare two nodes without their alternatives."""
        return [fact for check in self._checks for fact in check(self, old, new, path)]

    def attempt(self, old: SchemaNode, new: SchemaNode) -> list[SchemaFact]:
        """Compare two nodes on trial; later visits to the same schemas still count."""
        met = set(self._met)
        found = self._run_with_later(lambda: self.nodes(old, new, ()))
        self._met = met
        return found

    def means_same(self, old: Schema, new: Schema) -> bool:
        met = set(self._met)
        found = self.compare_whole(old, new, ())
        self._met = met
        return all(fact.way == "words" for fact in found)

    def is_unchanged(self, old: Schema, new: Schema) -> bool:
        """Return whether two schemas are obviously equal, including annotations."""
        written = jsontext.canonical_bytes(old)
        return not may_refer(written) and written == jsontext.canonical_bytes(new)

    def spend(self, count: int = 1) -> None:
        """Spend from the budget; TooLargeError if nothing is left."""
        self._left -= count
        if self._left < 0:
            raise BudgetSpentError
