"""The strings of a JSON text, and JSON that stands within a string: what redaction looks at, and replaces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from . import jsontext, protocol
from .jsontext import Path, Splice

_BYTES = re.compile("[\udc80-\udcff]")
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.S)


def strings(source: str) -> Iterator[str]:
    """Each string of a JSON text, keys too."""
    return map(jsontext.unquote, _STRING.findall(source))


def replace_strings(source: str, within: Path, hide: Callable[[str, Path, Path], str]) -> str:
    """The JSON text with its strings replaced, but for those that the protocol needs."""
    splices: list[Splice] = []
    for path, start, end in jsontext.values(source):
        if source[start] != '"':
            continue
        named = (*within, *names_in(path))
        if named not in protocol.UNTOUCHED:
            value = jsontext.unquote(source[start:end])
            hidden = hide(value, path, named)
            if hidden != value:
                splices.append((start, end, _quote(hidden, source[start:end])))
    return jsontext.splice(source, splices)


def _quote(text: str, token: str) -> str:
    """A string in the place of a token. Bytes that are no UTF-8 stay; here they are halves of characters."""
    if _BYTES.search(token):
        import json

        return json.dumps(text, ensure_ascii=False)
    return jsontext.quote(text)


def names_in(path: Path) -> Path:
    """The keys of a path."""
    return tuple([step for step in path if type(step) is str])  # a list: this runs for each string of a document


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
