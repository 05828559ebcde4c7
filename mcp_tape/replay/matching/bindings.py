"""Pairs live values with recorded ones, and puts the live values into outgoing text.

Pairs are one to one for all requests of a client: one directory stays one, and two stay two. So two tests, or two files
of one test, never get each other's answers. A session that extends another has directories of its own, so there a live
value may be paired again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from ...wire import jsontext
from .normal import HOSTS, Pair, VaryingValue

_STRING = re.compile(jsontext.STRING, re.S)
_PRIVATE = "/private"  # the real parent of /tmp and /var on macOS
_MAC = re.compile(r"(?:/private)?/var/folders/")
_UNBOUND = ("number", "day")  # never paired
_PATHS = ("run", "temporary", "home")
# Characters that would continue the name: /tmp/tmpab must not match in /tmp/tmpabc or /tmp/tmpab.txt.
_BEFORE, _BEHIND = r"(?<![\w.~-])", r"(?![\w~+@%-]|\.\w)"


class Bindings:
    """The pairs of values so far."""

    def __init__(self) -> None:
        self._live: dict[tuple[str, str], str] = {}  # by kind and recorded value
        self._recorded: dict[tuple[int, str, str], str] = {}  # by addition, kind and live value

    def allow(self, pairs: Iterable[Pair], addition: int = 0) -> bool:
        """Return whether pairs contradict neither each other nor earlier pairs.

        `addition`: the extending session that the recorded values are from, if any.
        """
        return self.describe_contradiction(pairs, addition) is None

    def describe_contradiction(self, pairs: Iterable[Pair], addition: int = 0) -> str | None:
        """Describe the first pair that contradicts another; None if none does."""
        live, recorded = dict[tuple[str, str], str](), dict[tuple[str, str], str]()
        for one, other in pairs:
            if one.kind in _UNBOUND:
                continue
            kind = _space(one.kind)
            bound = self._live.get((kind, one.text)) or live.setdefault((kind, one.text), other.text)
            of = self._recorded.get((addition, kind, other.text)) or recorded.setdefault((kind, other.text), one.text)
            if bound != other.text:
                return f"{bound} stands for the recorded {one.text} already, so {other.text} cannot"
            if of != one.text:
                return f"{other.text} stands for the recorded {of} already, and not for {one.text}"
        return None

    def knows_any(self, values: Iterable[VaryingValue]) -> bool:
        """Return whether any of the live values is paired."""
        live = {(kind, text) for _, kind, text in self._recorded}
        return any((_space(value.kind), value.text) in live for value in values)

    def are_named(self, asked: bytes) -> bool:
        """Return whether a text contains a paired live value."""
        text = asked.decode("utf-8", "replace").replace("\\/", "/")
        return any(value in text for _, _, value in self._recorded)

    def add(self, pairs: Iterable[Pair], addition: int = 0) -> None:
        """Add pairs, unless their values are paired already."""
        for one, other in pairs:
            here, there = (_space(one.kind), one.text), (addition, _space(one.kind), other.text)
            is_free = self._live.get(here, other.text) == other.text and self._recorded.get(there, one.text) == one.text
            if one.kind not in _UNBOUND and is_free:
                self._live[here], self._recorded[there] = other.text, one.text

    @property
    def are_needed(self) -> bool:
        """True if a live value differs from its recorded one."""
        return any(text != live for (_, text), live in self._live.items())

    def put_back(self, text: bytes, asked: bytes = b"") -> bytes:
        """Return a recorded JSON text with the live values. Recorded values that the request `asked` contains stay.

        Strings are unquoted and quoted again, so that escapes are right; all else stays unchanged.
        """
        source = text.decode("utf-8", "surrogateescape")
        said = source
        if "\\/" in source or "\\u" in source:  # values may be escaped
            said = "\n".join(jsontext.unquote(token[0]) for token in _STRING.finditer(source))
        there = [(kind, value) for kind, value in self._live if value in said]
        if all(self._live[bound] == bound[1] for bound in there):
            return text
        pattern = _compile_pattern(there)
        named = {self._bare(hit[0]) for hit in pattern.finditer(asked.decode("utf-8", "replace"))}
        splices = []
        for token in _STRING.finditer(source):
            value = jsontext.unquote(token[0])
            new = pattern.sub(lambda hit: hit[0] if self._bare(hit[0]) in named else self._put(hit[0]), value)
            if new != value:
                splices.append((*token.span(), jsontext.quote(new)))
        return jsontext.splice(source, splices).encode("utf-8", "surrogateescape") if splices else text

    def _bare(self, hit: str) -> str:
        """A match as it is paired: a path without the /private of macOS."""
        return hit if ("path", hit) in self._live else hit.removeprefix(_PRIVATE)

    def _put(self, hit: str) -> str:
        if hit.startswith("/"):
            bare = self._bare(hit)
            live = self._live["path", bare]
            is_real = len(bare) < len(hit) and _MAC.match(live) and not live.startswith(_PRIVATE)
            return _PRIVATE + live if is_real else live
        host, colon, port = hit.rpartition(":")
        return f"{host}:{self._live['port', port]}" if colon else self._live["uuid", hit]


class Days:
    """The days in requests that differ only in days: live days must be in the same order as recorded ones.

    So the answers of two days can't swap. Days are not put back into outgoing text: two recorded days may be one live.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[bytes, int], set[tuple[int, int]]] = {}  # by shape and place: recorded and live days

    def allow(self, shape: bytes, pairs: Iterable[Pair]) -> bool:
        """Return whether the days of a request fit the order of earlier ones with this shape."""
        return not any(
            (recorded - then) * (live - now) < 0
            for place, recorded, live in _days(pairs)
            for then, now in self._seen.get((shape, place), ())
        )

    def add(self, shape: bytes, pairs: Iterable[Pair]) -> None:
        for place, recorded, live in _days(pairs):
            self._seen.setdefault((shape, place), set()).add((recorded, live))


def _days(pairs: Iterable[Pair]) -> Iterator[tuple[int, int, int]]:
    """Yield each pair of days: its index, the recorded and the live day."""
    days = ((one.text, other.text) for one, other in pairs if one.kind == "day")
    return ((place, *pair) for place, pair in enumerate(days) if None not in pair)


def _compile_pattern(bound: Sequence[tuple[str, str]]) -> re.Pattern[str]:
    """Match paired values, the longest first; unchanged ones too, so that no shorter value matches inside them."""
    of = {kind: _one_of(value for space, value in bound if space == kind) for kind in ("path", "uuid", "port")}
    return re.compile(
        f"{_BEFORE}(?:{_PRIVATE})?{of['path']}{_BEHIND}"
        f"|(?<![0-9A-Za-z-]){of['uuid']}(?![0-9A-Za-z-])"
        rf"|{HOSTS}:{of['port']}(?!\d)"
    )


def _space(kind: str) -> str:
    """The namespace of a kind: within it, pairs are one to one."""
    return "path" if kind in _PATHS else kind


def _one_of(values: Iterable[str]) -> str:
    found = sorted(values, key=len, reverse=True)
    return f"(?:{'|'.join(map(re.escape, found))})" if found else r"(?!)"
