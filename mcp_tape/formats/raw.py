"""One side's byte stream, exactly as it crossed the wire (where nothing was redacted)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

from ..frames import Frame


def dump(frames: Iterable[Frame], out: BinaryIO) -> None:
    for frame in frames:
        if frame.kind in ("message", "batch", "noise"):
            out.write(frame.text + frame.eol)
