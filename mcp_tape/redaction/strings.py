"""Strings of a JSON text with the keys above them, and JSON within a string: redaction reads and replaces these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ..light import pattern
from ..wire import jsontext, protocol
from ..wire.jsontext import Splice

_BYTES = pattern("[\udc80-\udcff]")
_STRING = pattern(f"(?s){jsontext.STRING}")
_GAP = r"[ \t\r\n]*"
# A string in a list, a key, or a key with its string: the last group shows which. Or a bracket, in a group if it opens.
_PIECE = pattern(rf"(?s)({jsontext.STRING})(?:{_GAP}(:){_GAP}({jsontext.STRING})?)?|([{{\[])|[}}\]]")
_IN_LIST, _UNDER_KEY, _OPENED = 1, 3, 4
_LONG = 1 << 15  # characters; the strings of a longer text are not kept in a list

_MOST_NAMES = 8  # more than in any path that the protocol needs

# The keys above a value. Beyond _MOST_NAMES, only the first ones and the last are kept, and between them the key of an
# enclosing JSON Schema, if there is one: nothing else matters, and each level has a bounded cost.
Names = tuple[str, ...]
Hide = Callable[[str, int, Names], str]  # takes a value, its start and the keys above it

# A string that is a value: the start and end of its token, the keys above it, and whether it is in a list.
StringValue = tuple[int, int, Names, bool]


class StringValues:
    """The strings that are values in a valid JSON text, in order. May be iterated several times.

    The same strings as jsontext.walk yields, found faster: every document that may hold a secret is scanned.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        found = _scan_escaped if "\\" in source else _scan_unescaped
        self._found = list(found(source)) if len(source) <= _LONG else None

    def __iter__(self) -> Iterator[StringValue]:
        return iter(self._found) if self._found is not None else _scan_escaped(self._source)


def _scan_unescaped(source: str) -> Iterator[StringValue]:
    """Scan a text without backslashes: each quotation mark begins or ends a string."""
    parts = iter(source.split('"'))
    within: Names = ()  # the keys above the open container
    under: Names = ()  # the keys above the next value
    outer: list[Names] = []
    end, gap = 0, next(parts)
    for text in parts:
        start = end + len(gap)
        end = start + len(text) + 2
        for mark in gap if gap not in (": ", ":", ", ", ",") else ():
            if mark in "{[":
                outer.append(within)
                within = under
            elif mark in "}]":
                within = under = outer.pop()
        before, gap = gap, next(parts)
        if gap[:1] == ":" or gap.lstrip()[:1] == ":":
            under = _append_name(within, text)
        else:
            yield start, end, under, before not in (": ", ":") and before.strip() != ":"


def _scan_escaped(source: str) -> Iterator[StringValue]:
    """Scan any text."""
    within: Names = ()
    under: Names = ()
    outer: list[Names] = []
    for piece in _PIECE.finditer(source):
        kind = piece.lastindex
        if kind is None:
            within = under = outer.pop()
        elif kind == _OPENED:
            outer.append(within)
            within = under
        elif kind == _IN_LIST:
            yield *piece.span(_IN_LIST), under, True
        else:
            under = _append_name(within, jsontext.unquote(piece[1]))
            if kind == _UNDER_KEY:
                yield *piece.span(_UNDER_KEY), under, False


def _append_name(names: Names, name: str) -> Names:
    """Return the keys above a value, with one more key."""
    if len(names) < _MOST_NAMES:
        return (*names, name)
    *first, between, last = names
    return (*first, between if between in protocol.SCHEMA_KEYS else last, name)


def strings(source: str) -> Iterator[str]:
    """Yield each string of a JSON text, keys included."""
    return map(jsontext.unquote, _STRING.findall(source))


def replace_strings(source: str, values: Iterable[StringValue], within: Names, hide: Hide) -> str:
    """Replace the strings of a JSON text, except those that the protocol needs."""
    splices: list[Splice] = []
    for start, end, names, _ in values:
        named = within + names if within else names
        if named not in protocol.UNTOUCHED:
            token = source[start:end]
            value = jsontext.unquote(token)
            hidden = hide(value, start, named)
            if hidden != value:
                splices.append((start, end, _quote(hidden, token)))
    return jsontext.splice(source, splices)


def _quote(text: str, token: str) -> str:
    """Return the token that replaces another. Invalid UTF-8, which is lone surrogates here, is not escaped."""
    if _BYTES.search(token):
        import json

        return json.dumps(text, ensure_ascii=False)
    return jsontext.quote(text)


def json_within(text: str) -> tuple[int, int]:
    """Return the span of a JSON object in a text, or of a text that is an array; an empty span without either."""
    if text.startswith("[") and is_json(text, deep=False):
        return 0, len(text)
    start, end = text.find("{"), text.rfind("}") + 1
    return (start, end) if 0 <= start < end and is_json(text[start:end], deep=False) else (0, 0)


def is_json(source: str, deep: bool = True) -> bool:
    """Return whether a text is a JSON object or array. `deep`: also one nested too deep to parse."""
    if not source.lstrip(" \t\r\n").startswith(("{", "[")):
        return False
    try:
        jsontext.loads(source)
    except ValueError:
        return False
    except RecursionError:  # too deep to parse, not to scan
        return deep and jsontext.is_well_formed(source)
    return True
