"""One side's byte stream, exactly as it crossed the wire, except for redactions.

HTTP has no such stream: the output is each body and each event's data, followed by a newline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..wire.channels import STDIO
from ..wire.frames import Frame


def dump(frames: Iterable[Frame]) -> Iterator[bytes]:
    for frame in frames:
        if frame.kind in ("message", "batch", "noise"):
            yield frame.text + (frame.eol if frame.channel == STDIO else b"\n")
