"""JSON texts laid out for people, and back. Tokens stay as written; only white space changes.

Large texts are handled in pieces: a frame of a hundred megabytes is never in memory in several forms at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from ..wire import jsontext

ARROWS = {"client": "→", "server": "←"}  # before each message, by sender
LARGE = 1 << 20  # characters; a larger text is not parsed for layout
_PIECE = 1 << 16
_OUTER = 5  # levels: down to the rows of a table in a result
_DEEPEST = 60  # levels to indent: a text nested a thousand deep would be mostly white space
_LINE_BREAKS = tuple("\n" + "  " * depth for depth in range(_DEEPEST + 1))
# Places with numbers that parsers may change: fractions, exponents, and integers beyond a double.
_ODD_NUMBER = re.compile(rb"(?:^|[\[:,\s])-?(?:\d+[.eE]|\d{16}|(?<=-)0)")
_ODD_ESCAPE = re.compile(rb"\\[u/]")
_ODD = object()
_SORTED = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS


def is_json(text: str) -> bool:
    """True for a JSON text, however deep it is nested."""
    try:
        jsontext.loads(text)
    except RecursionError:
        return jsontext.is_well_formed(text)
    except ValueError:
        return False
    return True


def lay_out(text: str) -> str:
    """Lay out a JSON text, one member a line, without changing a token."""
    return "".join(pieces(text))


def pieces(text: str) -> Iterator[str]:
    """Lay out a JSON text in pieces. In a text that is not JSON, only white space is lost."""
    value = _plain_value(text)
    if value is _ODD:
        return join_pieces(_parts(_tokens(text)))
    return iter((orjson.dumps(value, option=orjson.OPT_INDENT_2).decode(),))


def pieces_of_members(text: str, names: tuple[str, ...]) -> Iterator[str]:
    """Lay out those of the named members that an object has, each on a line of its own."""
    value = _plain_value(text)
    if value is _ODD:
        return join_pieces(_parts_of_members(text, names))
    members = value if isinstance(value, dict) else {}
    found = (orjson.dumps(members[name], option=orjson.OPT_INDENT_2).decode() for name in names if name in members)
    return iter(("\n".join(found),))


def _plain_value(source: str) -> Any:
    """Parse a text that orjson would write back token by token; _ODD if it might not."""
    if len(source) > LARGE:
        return _ODD
    text = source.encode("utf-8", "surrogatepass")
    if _ODD_NUMBER.search(text) or _ODD_ESCAPE.search(text.replace(b"\\\\", b"")):
        return _ODD
    try:
        value = orjson.loads(text)
        same = orjson.dumps(value).count(b'"') == text.count(b'"')  # fewer if a name occurs twice
    except (ValueError, TypeError):
        return _ODD
    return value if same else _ODD


def _tokens(text: str) -> Iterator[str]:
    if len(text) <= LARGE:
        return iter(jsontext.TOKEN.findall(text))  # faster, but takes more memory
    return (found[0] for found in jsontext.TOKEN.finditer(text))


def _parts(tokens: Iterator[str], just_one: bool = False) -> Iterator[str]:
    """Yield tokens, of all values or of one, and line breaks. Not recursive, so nesting has no limit."""
    depth, before = 0, ""
    for token in tokens:
        if token in ("}", "]"):
            depth -= 1
            if before not in ("{", "["):
                yield _line_break(depth)
        elif before in ("{", "[", ","):
            yield _line_break(depth)
        yield ": " if token == ":" else token
        if token in ("{", "["):
            depth += 1
        elif just_one and depth <= 0:
            return
        before = token


def _line_break(depth: int) -> str:
    return _LINE_BREAKS[max(0, depth)] if depth <= _DEEPEST else ""


def _parts_of_members(text: str, names: tuple[str, ...]) -> Iterator[str]:
    """Read in one pass, because the text may be large. If it is not JSON, the result is arbitrary."""
    tokens = _tokens(text)
    line_break = ""
    while next(tokens, "}") in ("{", ","):
        name, _ = next(tokens, ""), next(tokens, "")
        wanted = _unquote(name) in names
        for part in _parts(tokens, just_one=True):
            if wanted:
                yield line_break + part
                line_break = ""
        line_break = "\n" if wanted else line_break


def _unquote(token: str) -> str:
    try:
        return jsontext.unquote(token)
    except ValueError:
        return token


def join_pieces(parts: Iterable[str]) -> Iterator[str]:
    """Join short parts and cut long ones, into pieces of a useful size."""
    piece: list[str] = []
    size = 0
    for part in parts:
        piece.append(part)
        size += len(part)
        if size >= _PIECE:
            whole = part if len(piece) == 1 else "".join(piece)
            yield from (whole[at : at + _PIECE] for at in range(0, size, _PIECE))
            piece, size = [], 0
    yield "".join(piece)


def canonical_pieces(text: bytes) -> Iterator[str] | None:
    """Lay out JSON with members sorted by name, and strings by value. None if it is not JSON."""
    odd = _ODD_NUMBER.search(text) is not None
    try:
        if not odd and len(text) <= LARGE:
            return iter((orjson.dumps(orjson.loads(text), option=_SORTED).decode(),))
    except (ValueError, TypeError):
        pass  # a lone surrogate, or not JSON: the slow path finds out
    try:
        source = text.decode()
        value = jsontext.loads_frugally(source, _Number if odd else None)
    except RecursionError:
        return pieces(source) if jsontext.is_well_formed(source) else None
    except ValueError:  # also: not UTF-8
        return None
    return join_pieces(_write_in_parts(value, "\n")) if len(text) > LARGE else iter((_write(value, "\n"),))


class _Number(str):
    """A number as written."""

    __slots__ = ()


def _write(value: Any, margin: str) -> str:
    inner = margin + "  "
    if isinstance(value, dict) and value:
        members = (f"{inner}{_string(name)}: {_write(value[name], inner)}" for name in sorted(value))
        return f"{{{','.join(members)}{margin}}}"
    if isinstance(value, list) and value:
        return f"[{','.join(inner + _write(item, inner) for item in value)}{margin}]"
    if isinstance(value, _Number):
        return value
    return _string(value) if isinstance(value, str) else json.dumps(value)


def _write_in_parts(value: Any, margin: str, levels: int = _OUTER) -> Iterator[str]:
    """Write a large value in parts: its outer levels and its long strings are split."""
    inner = margin + "  "
    if isinstance(value, (dict, list)) and value and levels:
        before, after = "{}" if isinstance(value, dict) else "[]"
        for key in sorted(value) if isinstance(value, dict) else range(len(value)):
            yield f"{before}{inner}" + (f"{_string(key)}: " if isinstance(key, str) else "")
            yield from _write_in_parts(value[key], inner, levels - 1)
            before = ","
        yield margin + after
    elif type(value) is str and len(value) > _PIECE:
        yield '"'
        yield from (_string(value[at : at + _PIECE])[1:-1] for at in range(0, len(value), _PIECE))
        yield '"'
    else:
        yield _write(value, margin)


def _string(text: str) -> str:
    try:
        return orjson.dumps(text).decode()
    except TypeError:
        return json.dumps(text)
