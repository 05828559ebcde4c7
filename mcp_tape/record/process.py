"""The recording process: all on one cassette, or in the next when one is full."""

from __future__ import annotations

from .backlog import Backlog
from .options import Options


def run(backlog: Backlog, status: int, path: str, options: Options, started: float) -> None:
    """Record all that comes, in a process that does nothing else. `started`: when the relay did."""
    if options.production is not None:
        from .production.recording import recording

        recording(backlog, status, path, options, started).run()
    elif options.row is None:
        from .writer import Recording

        Recording(backlog, status, path, options, started).run()
    else:
        from .parts import RecordingInParts

        RecordingInParts(backlog, status, path, options, started).run()
