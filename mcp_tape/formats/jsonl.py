"""JSON lines: one frame a line, text verbatim inside a JSON string."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import Any, BinaryIO

import orjson

from ..frames import Frame


def dump(frames: Iterable[Frame], out: BinaryIO) -> None:
    for frame in frames:
        out.write(orjson.dumps(_row(frame), option=orjson.OPT_APPEND_NEWLINE))


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
