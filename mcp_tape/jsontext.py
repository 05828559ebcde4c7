"""JSON as text: parse it, find where a value stands, replace only that, compare by meaning.

Recorded JSON is never re-encoded, because that is not lossless: `1e2` would become `100.0`, a
30-digit integer a float, and a lone surrogate an error. Knows nothing of MCP.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

import orjson

Path = tuple[str | int, ...]
Splice = tuple[int, int, str]

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.S)
# orjson reads both of these as floats: exact only where neither occurs.
_INEXACT = re.compile(r"[0-9][.eE]|[0-9]{16}")


def loads(text: str | bytes) -> Any:
    """The value of a JSON text; ValueError when it is none, RecursionError when it is too deep."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        if isinstance(text, bytes):
            text = text.decode("utf-8", "replace")
        # The lenient second try knows lone surrogates; NaN and Infinity are still not JSON.
        return json.loads(text, parse_constant=_refuse, parse_int=_integer)


def is_exact(text: str) -> bool:
    """Whether loads gives every number of this text by its exact value."""
    return _INEXACT.search(text) is None


def loads_exact(text: str) -> Any:
    """Like loads, with integers exact at any size and `1.0` read as the integer it is."""
    return json.loads(text, parse_constant=_refuse, parse_int=_integer, parse_float=_number)


def canonical(value: Any) -> bytes:
    """Equal bytes for equal values: sorted keys, no white space."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, RecursionError):
        # Integers beyond 64 bits, lone surrogates, deep nesting: never what orjson can write,
        # so one value always takes the same branch.
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


def compact(value: Any) -> str:
    """A value on one line, keys in their order, for people."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def quote(text: str) -> str:
    """A JSON string token."""
    try:
        return orjson.dumps(text).decode()
    except TypeError:  # a lone surrogate
        return json.dumps(text)


def unquote(token: str) -> str:
    """The text that a JSON string token stands for."""
    return token[1:-1] if "\\" not in token else str(json.loads(token, strict=False))


def values(text: str) -> Iterator[tuple[Path, int, int]]:
    """Each value in a valid JSON text with its path and span, containers when they close.

    Iterative, so that depth is no limit.
    """
    stack: list[tuple[int, bool]] = []  # where a container starts, and whether it is an object
    path: list[str | int] = []  # one step per open container
    key: str | None = None
    key_at = 0
    for token in _TOKEN.finditer(text):
        start, end = token.span()
        first = text[start]
        if first in "{[":
            stack.append((start, first == "{"))
            path.append("" if first == "{" else 0)
            continue
        if first == ":":
            path[-1] = unquote(key or '""')
            key = None
            continue
        if first in ",]}":
            if key is not None:  # a string that turned out to be a value
                yield tuple(path), key_at, key_at + len(key)
                key = None
            if first == ",":
                step = path[-1]
                if isinstance(step, int):
                    path[-1] = step + 1
            else:
                opened, _ = stack.pop()
                path.pop()
                yield tuple(path), opened, end
            continue
        if first == '"' and stack and stack[-1][1]:
            key, key_at = token.group(), start  # a key or a value: the next token tells
        else:
            yield tuple(path), start, end
    if key is not None:
        yield tuple(path), key_at, key_at + len(key)


def find(text: str, path: Path) -> tuple[int, int] | None:
    """The span of the value at a path; of duplicate keys the last, as parsers do."""
    found = None
    for at, start, end in values(text):
        if at == path:
            found = (start, end)
    return found


def splice(text: str, splices: Iterable[Splice]) -> str:
    """The text with spans replaced; where one span lies within another, the outer one counts."""
    out: list[str] = []
    done = 0
    for start, end, new in sorted(splices, key=lambda item: (item[0], -item[1])):
        if start < done:
            continue
        out += (text[done:start], new)
        done = end
    out.append(text[done:])
    return "".join(out)


def number_text(value: float) -> str:
    """A number by its value: `1` and `1.0` are one."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else repr(value)


def _number(text: str) -> Any:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        return f"number {text}"  # no double holds it: compared by its digits
    exact = Decimal(text)
    return int(exact) if exact == exact.to_integral_value() else value


def _integer(text: str) -> Any:
    # Python refuses to convert thousands of digits (a quadratic cost): compared by its digits then.
    return int(text) if len(text) < 4000 else f"number {text}"


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
