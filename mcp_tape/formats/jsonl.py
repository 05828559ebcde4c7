"""JSON lines: one frame a line, text verbatim inside a JSON string."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable
from typing import Any, BinaryIO

import orjson

from ..frames import Frame

# DEL and the control characters above it, in UTF-8: JSON allows them as they are, terminals act on them.
_CONTROL = re.compile(rb"\x7f|\xc2[\x80-\x9f]")


def dump(frames: Iterable[Frame], out: BinaryIO) -> None:
    for frame in frames:
        out.write(line(_row(frame)))


def line(row: dict[str, Any]) -> bytes:
    """One JSON object and a newline, safe to print."""
    try:
        data = orjson.dumps(row)
    except TypeError:  # a lone surrogate
        data = json.dumps(row, separators=(",", ":")).encode()
    return _CONTROL.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), data) + b"\n"


def _row(frame: Frame) -> dict[str, Any]:
    row: dict[str, Any] = {
        "seq": frame.seq,
        "at": frame.at,
        "sender": frame.sender,
        "channel": frame.channel,
        "kind": frame.kind,
        "eol": frame.eol.decode("latin-1"),
    }
    if frame.head is not None:
        row["head"] = frame.head.decode("utf-8", "replace")
    if frame.redactions:
        row["redactions"] = frame.redactions
    try:
        return row | {"text": frame.text.decode()}
    except UnicodeDecodeError:
        return row | {"base64": b64encode(frame.text).decode()}
