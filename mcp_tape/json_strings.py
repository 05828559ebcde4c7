"""The strings of a JSON text, and JSON that stands within a string: what redaction looks at, and replaces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from . import jsontext, protocol
from .jsontext import Path, Splice

_BYTES = re.compile("[\udc80-\udcff]")
_STRING = re.compile(jsontext.STRING, re.S)
_GAP = r"[ \t\r\n]*"
# A string by itself, a key, or a key and the string under it: that many groups. Or a bracket, in a group if it opens.
_PIECE = re.compile(
    rf"({jsontext.STRING})(?:{_GAP}(:){_GAP}({jsontext.STRING})?)?|([{{\[])|[}}\]]", re.S
)  # fmt: skip
_IN_LIST, _UNDER_KEY, _OPENED = 1, 3, 4
_LONG = 1 << 15  # of which no list of strings is made

Hide = Callable[[str, int, Path], str]  # a value, where it starts, and the keys it stands under


# A string that is a value: where its token starts and ends, the keys it stands under, and whether it is in a list.
StringValue = tuple[int, int, tuple[str, ...], bool]


class StringValues:
    """The strings that are values in a valid JSON text, in their order. They can be gone through several times.

    They are what jsontext.values tells of strings, in less time: each document that may hold a secret is gone through.
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
    names: list[str] = []
    inner, outer = 0, [0]  # how many of the names the open container stands under; the same of those around it
    end, gap = 0, next(parts)
    for text in parts:
        start = end + len(gap)
        end = start + len(text) + 2
        for mark in gap if gap not in (": ", ":", ", ", ",") else ():
            if mark in "{[":
                outer.append(inner)
                inner = len(names)
            elif mark in "}]":
                inner = outer.pop()
                del names[inner:]
        before, gap = gap, next(parts)
        if gap[:1] == ":" or gap.lstrip()[:1] == ":":
            names[inner:] = (text,)
        else:
            yield start, end, tuple(names), before not in (": ", ":") and before.strip() != ":"


def _escaped(source: str) -> Iterator[StringValue]:
    """Of any text."""
    names: list[str] = []
    inner, outer = 0, [0]
    for piece in _PIECE.finditer(source):
        kind = piece.lastindex
        if kind is None:
            inner = outer.pop()
            del names[inner:]
        elif kind == _OPENED:
            outer.append(inner)
            inner = len(names)
        elif kind == _IN_LIST:
            yield *piece.span(_IN_LIST), tuple(names), True
        else:
            names[inner:] = (jsontext.unquote(piece[1]),)
            if kind == _UNDER_KEY:
                yield *piece.span(_UNDER_KEY), tuple(names), False


def strings(source: str) -> Iterator[str]:
    """Each string of a JSON text, keys too."""
    return map(jsontext.unquote, _STRING.findall(source))


def replace_strings(source: str, values: Iterable[StringValue], within: Path, hide: Hide) -> str:
    """The JSON text with its strings replaced, but for those that the protocol needs."""
    splices: list[Splice] = []
    for start, end, names, _ in values:
        named = within + names
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


def names_in(path: Path) -> Path:
    """The keys of a path."""
    return tuple([step for step in path if type(step) is str])


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
