"""JSON lines, safe to print: characters that terminals act on, and invisible ones, are escaped."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

# Characters that terminals act on: control characters and lone surrogates. And invisible ones, which may change the
# text direction or carry a message to a model: Unicode's line ends, and default ignorable characters, except the
# selector that gives an emoji its colours.
# https://www.unicode.org/reports/tr44/#Default_Ignorable_Code_Point
_ACTS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufff8"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def escape_control_characters(text: str) -> str:
    """Escape characters that terminals act on, and invisible ones, as in JSON; line ends and tabs stay."""
    return text if text.isprintable() and text.isascii() else _ACTS.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def json_line(row: dict[str, Any]) -> bytes:
    """One JSON object and a newline, safe to print: JSON allows control and invisible characters unescaped."""
    try:
        data = orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # a lone surrogate
        data = json.dumps(row, separators=(",", ":")).encode() + b"\n"
    return data if data.isascii() and b"\x7f" not in data else escape_control_characters(data.decode()).encode()
