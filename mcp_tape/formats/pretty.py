"""JSON texts laid out for people, and back. Tokens stay as they are written; only white space changes."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from .. import jsontext

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.S)
_DEEPEST = 60  # levels that are indented: what is nested a thousand deep would be mostly white space
# Where there may be numbers that parsers change: fractions, exponents, and integers beyond a double.
_ODD_NUMBER = re.compile(rb"(?:^|[\[:,\s])-?(?:\d+[.eE]|\d{16}|(?<=-)0)")
_ODD_ESCAPE = re.compile(rb"\\[u/]")
# What a terminal acts on: control characters, those that turn the direction of writing, and halves of characters.
_ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_ODD = object()
_SORTED = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS


def laid_out(text: str) -> str:
    """A valid JSON text with one member a line, each token as it was."""
    value = _plain_value(text.encode("utf-8", "surrogatepass"))
    return _slowly(text) if value is _ODD else orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def laid_out_members(text: str, within: tuple[int, ...], names: tuple[str, ...]) -> list[str]:
    """The same for some members of an object, which may be an item of an array; those that it has."""
    value = _plain_value(text.encode("utf-8", "surrogatepass"))
    if value is _ODD:
        spans = filter(None, (jsontext.find(text, (*within, name)) for name in names))
        return [_slowly(text[start:end]) for start, end in spans]
    for step in within:
        value = value[step]
    return [orjson.dumps(value[name], option=orjson.OPT_INDENT_2).decode() for name in names if name in value]


def _plain_value(text: bytes) -> Any:
    """A value that is written in C as it was, token by token; _ODD where it might not be."""
    if _ODD_NUMBER.search(text) or _ODD_ESCAPE.search(text.replace(b"\\\\", b"")):
        return _ODD
    try:
        value = orjson.loads(text)
        same = orjson.dumps(value).count(b'"') == text.count(b'"')  # else a name was there twice
    except (ValueError, TypeError):
        return _ODD
    return value if same else _ODD


def _slowly(text: str) -> str:
    out: list[str] = []
    depth, before = 0, ""
    for token in _TOKEN.findall(text):
        if token in ("}", "]"):
            depth -= 1
            if before not in ("{", "["):
                out.append(_line_break(depth))
        elif before in ("{", "[", ","):
            out.append(_line_break(depth))
        out.append(": " if token == ":" else token)
        if token in ("{", "["):
            depth += 1
        before = token
    return "".join(out)


def _line_break(depth: int) -> str:
    return "\n" + "  " * depth if depth <= _DEEPEST else ""


def in_one_line(text: str) -> str:
    """A JSON text without the white space between its tokens."""
    return "".join(_TOKEN.findall(text))


def canonical(text: bytes) -> str | None:
    """One member a line, in the order of their names; strings by what they say. None where it is no JSON."""
    try:
        if not _ODD_NUMBER.search(text):
            return orjson.dumps(orjson.loads(text), option=_SORTED).decode()
    except (ValueError, TypeError):
        pass  # half a character, or no JSON: the slow way tells
    try:
        source = text.decode()
        jsontext.loads(source)
        return _written(json.loads(source, parse_float=_Number, parse_int=_Number), "\n")
    except RecursionError:
        return laid_out(source) if jsontext.is_well_formed(source) else None
    except ValueError:  # also: not UTF-8
        return None


class _Number(str):
    """A number as it is written."""


def _written(value: Any, margin: str) -> str:
    inner = margin + "  "
    if isinstance(value, dict) and value:
        members = (f"{inner}{_string(name)}: {_written(value[name], inner)}" for name in sorted(value))
        return f"{{{','.join(members)}{margin}}}"
    if isinstance(value, list) and value:
        return f"[{','.join(inner + _written(item, inner) for item in value)}{margin}]"
    if isinstance(value, _Number):
        return value
    return _string(value) if isinstance(value, str) else json.dumps(value)


def _string(text: str) -> str:
    try:
        return orjson.dumps(text).decode()
    except TypeError:
        return json.dumps(text)


def harmless(text: str) -> str:
    """With what a terminal would act on made visible; line ends and tabs stay."""
    return _ACTS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
