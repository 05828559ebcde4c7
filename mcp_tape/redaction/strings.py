"""The strings of a JSON text, and JSON that stands within a string: what redaction looks at, and replaces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from ..wire import jsontext, protocol
from ..wire.jsontext import Splice

_BYTES = re.compile("[\udc80-\udcff]")
_STRING = re.compile(jsontext.STRING, re.S)
_GAP = r"[ \t\r\n]*"
# A string by itself, a key, or a key and the string under it: that many groups. Or a bracket, in a group if it opens.
_PIECE = re.compile(
    rf"({jsontext.STRING})(?:{_GAP}(:){_GAP}({jsontext.STRING})?)?|([{{\[])|[}}\]]", re.S
)  # fmt: skip
_IN_LIST, _UNDER_KEY, _OPENED = 1, 3, 4
_LONG = 1 << 15  # of which no list of strings is made

_MOST_NAMES = 8  # more than those of any path that the protocol needs

# The keys that a value stands under. Of more than _MOST_NAMES the first ones and the last, and between them the one
# that says that a JSON Schema is around the value, if one does: all that matters, at no cost for each level.
Names = tuple[str, ...]
Hide = Callable[[str, int, Names], str]  # a value, where it starts, and the keys it stands under

# A string that is a value: where its token starts and ends, the keys it stands under, and whether it is in a list.
StringValue = tuple[int, int, Names, bool]


class StringValues:
    """The strings that are values in a valid JSON text, in their order. They can be gone through several times.

    They are what jsontext.walk tells of strings, in less time: each document that may hold a secret is gone through.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        found = _escaped if "\\" in source else _unescaped
        self._found = list(found(source)) if len(source) <= _LONG else None

    def __iter__(self) -> Iterator[StringValue]:
        return iter(self._found) if self._found is not None else _escaped(self._source)


def _unescaped(source: str) -> Iterator[StringValue]:
    """Of a text without any backslash: each quotation mark begins or ends a string."""
    parts = iter(source.split('"'))
    within: Names = ()  # the keys that the open container stands under
    under: Names = ()  # those of the value that comes next
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
            under = _joined(within, text)
        else:
            yield start, end, under, before not in (": ", ":") and before.strip() != ":"


def _escaped(source: str) -> Iterator[StringValue]:
    """Of any text."""
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
            under = _joined(within, jsontext.unquote(piece[1]))
            if kind == _UNDER_KEY:
                yield *piece.span(_UNDER_KEY), under, False


def _joined(names: Names, name: str) -> Names:
    """The keys of what stands under one more."""
    if len(names) < _MOST_NAMES:
        return (*names, name)
    *first, between, last = names
    return (*first, between if between in protocol.SCHEMA_KEYS else last, name)


def strings(source: str) -> Iterator[str]:
    """Each string of a JSON text, keys too."""
    return map(jsontext.unquote, _STRING.findall(source))


def replace_strings(source: str, values: Iterable[StringValue], within: Names, hide: Hide) -> str:
    """The JSON text with its strings replaced, but for those that the protocol needs."""
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
    """A string in the place of a token. Bytes that are no UTF-8 stay; here they are halves of characters."""
    if _BYTES.search(token):
        import json

        return json.dumps(text, ensure_ascii=False)
    return jsontext.quote(text)


def json_within(text: str) -> tuple[int, int]:
    """Where a JSON object, or a text that is an array, stands in a text."""
    if text.startswith("[") and is_json(text, deep=False):
        return 0, len(text)
    start, end = text.find("{"), text.rfind("}") + 1
    return (start, end) if 0 <= start < end and is_json(text[start:end], deep=False) else (0, 0)


def is_json(source: str, deep: bool = True) -> bool:
    """Whether a text is a JSON object or array. `deep`: also one that is too deep to be parsed."""
    if not source.lstrip(" \t\r\n").startswith(("{", "[")):
        return False
    try:
        jsontext.loads(source)
    except ValueError:
        return False
    except RecursionError:  # too deep to parse, not to scan
        return deep and jsontext.is_well_formed(source)
    return True
