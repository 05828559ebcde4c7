"""Known values to hide, in all their spellings: those of the environment, and those seen under secret keys.

Thousands may be known, and nearly every text contains none. So a text is first compared with the beginnings of all
values at once, eight bytes at a time: fast, with false positives but no false negatives.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..light import NamedTuple
from .hiding_rules import mark, outside_marks

SHORTEST = 8  # characters of a value
_FEW = 40  # spellings to try one by one
_WORD, _WIDEST = 8, 4  # bytes compared as one integer, and the widest step between two samples
_CHUNK = 1 << 16
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.~-")
_IN_URL = [chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in range(256)]


class _Spelling(NamedTuple):
    """One spelling of a value to hide."""

    text: str
    wire: str  # as UTF-8, one character per byte
    placeholder: str
    value: str
    order: int  # in which values were added


class Literals:
    """Values to hide, each at least SHORTEST characters long. Beyond `most`, the oldest are forgotten."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[str, list[_Spelling]] = {}
        self._spelled: list[_Spelling] = []  # if few, longest first: one value may contain another
        self._index: _Index | None = None  # if many; it may contain forgotten values
        self._added = self._forgotten = 0
        self._changed = False
        self._escapable = False

    def __bool__(self) -> bool:
        return bool(self._known)

    def add(self, value: str, source: str) -> None:
        if value in self._known:
            return
        if len(self._known) >= self._most:
            del self._known[next(iter(self._known))]
            self._forgotten += 1
        self._added += 1
        facts = mark(source), value, self._added
        self._known[value] = new = [_Spelling(how, _on_the_wire(how), *facts) for how in _spellings(value)]
        self._escapable = self._escapable or not (_is_plain(value) or _quote_json(value) == f'"{value}"')
        if self._index is None or self._forgotten > self._most or not self._index.add(new):
            self._changed = True

    def occur(self, text: bytes) -> bool:
        """Return whether a text may contain a value: fast, with false positives but no false negatives."""
        if not self._known:
            return False
        index = self._prepare_index()
        if index is not None:
            return index.may_be_in(text) or (self._escapable and b"\\" in text)
        wire = text.decode("latin-1")  # `in` is several times faster on str
        for spelling in self._spelled:
            if spelling.wire in wire:
                return True
        return self._escapable and "\\" in wire

    def hide(self, text: str) -> str:
        for how, _, placeholder, *_ in self._candidates(text):
            if how in text:
                text = outside_marks(text, lambda part: part.replace(how, placeholder))  # noqa: B023  # used at once
        return text

    def _candidates(self, text: str) -> list[_Spelling]:
        """Return the spellings that a text may contain, longest first."""
        if len(text) < SHORTEST or not self._known:
            return []
        index = self._prepare_index()
        if index is None:
            return self._spelled
        return sorted((how for how in index.candidates(text) if how in self._known.get(how.value, ())), key=_rank)

    def _prepare_index(self) -> _Index | None:
        if self._changed:
            spelled = [how for hows in self._known.values() for how in hows]
            many = len(spelled) > _FEW
            self._spelled = [] if many else sorted(spelled, key=_rank)
            self._index = _Index(spelled) if many else None
            self._forgotten, self._changed = 0, False
        return self._index


class _Beginning(NamedTuple):
    """Spellings that begin with the same characters: their lengths, and the spellings by text."""

    lengths: set[int]
    spelled: dict[str, list[_Spelling]]


class _Index:
    """Many spellings, by their beginnings.

    A text is sampled one word per step. The index holds the words at the first offsets of each spelling, as many as a
    step is wide. So wherever a spelling occurs in a text, one of its words is sampled.
    """

    def __init__(self, spelled: list[_Spelling]) -> None:
        spare = min(len(how.wire) for how in spelled) - _WORD + 1
        self._step = max(step for step in (1, 2, _WIDEST) if step <= max(spare, 1))
        self._words: set[int] = set()
        self._beginnings: dict[str, _Beginning] = {}
        self.add(spelled)

    def add(self, spelled: Iterable[_Spelling]) -> bool:
        """Add spellings; return False if one is too short for the step."""
        needed = _WORD + self._step - 1
        for how in spelled:
            if len(how.wire) < needed:
                return False
            wire = how.wire[:needed].encode("latin-1")
            words = b"".join([wire[at : at + _WORD] for at in range(self._step)])
            self._words.update(memoryview(words).cast("Q"))
            first = how.text[:SHORTEST]
            beginning = self._beginnings.get(first)
            if beginning is None:
                beginning = self._beginnings[first] = _Beginning(set(), {})
            beginning.lengths.add(len(how.text))
            beginning.spelled.setdefault(how.text, []).append(how)
        return True

    def may_be_in(self, text: bytes) -> bool:
        view = memoryview(text)
        for start in range(0, _WORD, self._step):
            whole = max(0, len(text) - start) // _WORD * _WORD
            if not self._words.isdisjoint(view[start : start + whole].cast("Q")):
                return True
        return False

    def candidates(self, text: str) -> Iterable[_Spelling]:
        try:
            if not self.may_be_in(text.encode()):
                return ()
        except UnicodeEncodeError:  # lone surrogates
            pass
        found: set[str] = set()
        for start in range(0, len(text), _CHUNK):
            places = range(start, min(start + _CHUNK, len(text) - SHORTEST + 1))
            found |= {text[at : at + SHORTEST] for at in places} & self._beginnings.keys()
        return [how for first in found for how in _find_spellings(text, first, self._beginnings[first])]


def _find_spellings(text: str, first: str, beginning: _Beginning) -> Iterable[_Spelling]:
    """Return the spellings with this beginning that occur in a text, or all where trying each is as fast."""
    lengths, spelled = beginning
    if text.count(first) * len(lengths) >= len(spelled):
        return [how for hows in spelled.values() for how in hows]
    found: dict[str, list[_Spelling]] = {}
    at = text.find(first)
    while at >= 0:
        for part in (text[at : at + length] for length in lengths):
            if part in spelled:
                found[part] = spelled[part]
        at = text.find(first, at + 1)
    return [how for hows in found.values() for how in hows]


def _rank(spelling: _Spelling) -> tuple[int, int]:
    return -len(spelling.text), spelling.order


def _is_plain(value: str) -> bool:
    """Return whether JSON leaves a value unescaped."""
    return value.isascii() and value.isprintable() and '"' not in value and "\\" not in value


def _spellings(value: str) -> Iterable[str]:
    """Return a value unchanged, escaped once and twice as JSON, and percent-encoded."""
    hows = [value, value.replace("/", "\\/"), "".join([_IN_URL[byte] for byte in _encode(value)])]
    if not _is_plain(value):
        once = _quote_json(value, ensure_ascii=False)[1:-1], _quote_json(value)[1:-1]
        hows += [*once, *(_quote_json(how, ensure_ascii=False)[1:-1] for how in once)]
    return dict.fromkeys(hows)


def _quote_json(value: str, ensure_ascii: bool = True) -> str:
    from json import dumps  # imported late: few values need it

    return dumps(value, ensure_ascii=ensure_ascii)


def _on_the_wire(text: str) -> str:
    return text if text.isascii() else _encode(text).decode("latin-1")


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can spell
        return text.encode("utf-8", "surrogatepass")
