"""Programs that listen, print their URL as one line, and end on request."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL
from typing import IO

from tests.support.running import WAIT, receive, receive_line, started


@dataclass
class Listening:
    """A program that listens; its exit code and output are known once it has ended."""

    url: str
    code: int | None = None
    said: str = ""


@contextlib.contextmanager
def listening(command: Sequence[str], cwd: Path | None = None) -> Iterator[Listening]:
    """A listening program, ended on exit."""
    with tempfile.TemporaryFile() as stderr, started(command, stdin=DEVNULL, stderr=stderr, cwd=cwd) as process:
        assert process.stdout is not None
        program = Listening(receive_line(process.stdout).decode().strip())
        try:
            if not program.url:
                raise RuntimeError(f"{' '.join(command)} does not listen:\n{_said(stderr)}")
            yield program
            process.terminate()
            program.code = process.wait(WAIT)
            if more := receive(process.stdout):
                raise RuntimeError(f"{' '.join(command)} printed more than its URL: {more[:1000]!r}")
        finally:
            program.said = _said(stderr)


def _said(stderr: IO[bytes]) -> str:
    stderr.seek(0)
    return stderr.read().decode(errors="replace")
