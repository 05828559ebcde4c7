"""Recordings in production, by the recording process's own code."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mcp_tape.record.backlog import Backlog
from mcp_tape.record.production.production_options import Production
from mcp_tape.record.recording_options import RecordingOptions
from mcp_tape.record.recording_process import record as record_all
from mcp_tape.record.rotation import CassetteSeries
from tests.support.rows import Said, packed


def record(path: Path, said: Iterable[Said], row: CassetteSeries | None = None, **asked: Any) -> list[str]:
    """Record a conversation, and return the warnings."""
    reader, writer = os.pipe()
    report, status = os.pipe()

    def feed() -> None:
        with open(writer, "wb", buffering=0) as pipe:
            for number, one in enumerate(said):
                pipe.write(packed(one, number * 1_000_000))

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    options = RecordingOptions({"command": ["x"]}, series=row, production=Production(**asked))
    record_all(Backlog(reader), status, str(path), options, 1e9)
    feeder.join()
    os.close(status)
    os.close(reader)
    with open(report) as lines:
        words = [line.rstrip("\n").partition(" ") for line in lines]
    return [rest for word, _, rest in words if word == "warning"]
