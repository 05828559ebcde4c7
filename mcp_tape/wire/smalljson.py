"""Small, plain JSON texts, read and written before orjson is loaded: loading it takes longer than most replays.

Returns exactly what `jsontext` returns with orjson, or raises UnsureError: for escaped code points, numbers that
Pythons keep differently, deep nesting, and malformed or long text.
"""

from __future__ import annotations

import sys

from ..light import json

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

_LONGEST = 1 << 16  # characters; beyond it orjson is several times as fast
_DEEPEST = 50  # levels
_SPACE = " \t\r\n"
_WIDEST = 15  # digits; any double holds them exactly


class UnsureError(Exception):
    """Raised for text that only orjson can handle."""


def _integer(text: str) -> int:
    if len(text) > _WIDEST or text == "-0":
        raise UnsureError
    return int(text)


def _number(text: str) -> float:
    if len(text) > _WIDEST + 1 or "e" in text or "E" in text:
        raise UnsureError
    return float(text)


def _refuse(*_: object) -> Any:
    raise UnsureError


class _ScannerSettings:
    """The settings that json.JSONDecoder passes to its scanner."""

    strict = True  # no control characters in strings
    object_hook = object_pairs_hook = array_hook = None
    parse_int, parse_float = staticmethod(_integer), staticmethod(_number)
    parse_constant = staticmethod(_refuse)


_scan: Any
_quote_string: Any
try:
    # The C functions behind the json module, which itself takes several times as long to load.
    _quote_string, _scan = json.encode_basestring, json.make_scanner(_ScannerSettings)
    if hasattr(sys, "gettotalrefcount"):  # a debug build aborts at the SystemError below
        _scan = _refuse
except (AttributeError, TypeError):  # another Python
    _quote_string = _scan = _refuse


def loads(text: str | bytes) -> Any:
    """Parse an object."""
    if len(text) > _LONGEST:
        raise UnsureError
    try:
        source = (text.decode() if isinstance(text, bytes) else text).strip(_SPACE)
        # An escaped code point may be half of a surrogate pair.
        if source[:1] != "{" or "\\u" in source or source.count("[") + source.count("{") > _DEEPEST:
            raise UnsureError
        value, end = _scan(source, 0)
    # SystemError: the scanner takes its exception class from json.decoder, and fails without one if that is not loaded.
    except (ValueError, StopIteration, SystemError):
        raise UnsureError from None
    if end != len(source):
        raise UnsureError
    return value


def dumps(value: Any, *, sort_keys: bool = False) -> bytes:
    """Write a value without white space."""
    try:
        return _write_value(value, sorted if sort_keys else iter, 0).encode()
    except (ValueError, TypeError):  # a lone surrogate, or a key that is not a string
        raise UnsureError from None


def _write_value(value: Any, order: Callable[[dict[str, Any]], Iterable[str]], depth: int) -> str:
    kind = type(value)
    if kind is str:
        return str(_quote_string(value))
    if kind is dict and depth < _DEEPEST:
        members = [f"{_quote_string(key)}:{_write_value(value[key], order, depth + 1)}" for key in order(value)]
        return "{" + ",".join(members) + "}"
    if kind is list and depth < _DEEPEST:
        return "[" + ",".join([_write_value(item, order, depth + 1) for item in value]) + "]"
    if value is None or kind is bool:
        return "null" if value is None else "true" if value else "false"
    if kind is int and abs(value) < 10**_WIDEST:
        return str(value)
    raise UnsureError
