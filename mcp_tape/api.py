"""Cassette, core and transport wired together: what the command line and the tests call."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from . import schema
from .errors import CassetteError

if TYPE_CHECKING:
    from .recorder import Options, Summary


def record(
    command: Sequence[str],
    path: str,
    options: Options,
    *,
    warn: Callable[[str], None],
) -> tuple[int, Summary]:
    """Stand in for a stdio server and record what passes: the server's exit code, and what there is.

    Uses this process's own stdin, stdout and stderr.
    """
    from .recorder import Recorder
    from .transports import stdio

    def write(reader: int, status: int) -> None:
        from .writer import Recording  # in the writer's process, so that the relay need not wait for it

        Recording(reader, status, path, options).run()

    path = os.path.abspath(path)
    check_writable(path)
    server = stdio.Server(command)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    recorder = Recorder(path, write, warn)
    code = stdio.relay(server, recorder)
    return code, recorder.close()


def check_writable(path: str) -> None:
    """Refuse a place that cannot be recorded into, before anything is started."""
    schema.check_header(path)
    place = path if os.path.exists(path) else os.path.dirname(path)
    while not os.path.exists(place):
        place = os.path.dirname(place)
    if not os.access(place, os.W_OK):
        raise CassetteError(f"cannot write {path}: no permission; choose another file with -o")
