"""Python programs that begin with their libraries loaded.

To load an SDK takes a second of computing, all that follows a tenth of that. So one process for each interpreter
loads what its programs need, and forks for each that is run; see `tests/clients/nursery.py`.
"""

from __future__ import annotations

import atexit
import functools
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from subprocess import PIPE

from tests.support.running import WAIT, receive_line

HERE = Path(__file__).resolve().parents[1] / "clients"


def command(interpreter: str, program: Path, needed: Sequence[str]) -> list[str]:
    """A command that is this program, forked from a process that has loaded these modules."""
    if sys.platform != "linux":  # elsewhere, libraries of the system forbid to go on after a fork
        return [interpreter, str(program)]
    return [sys.executable, "-I", "-S", str(HERE / "warm.py"), _nursery(interpreter, tuple(needed)), str(program)]


def script(place: Path, interpreter: str, program: Path, needed: Sequence[str]) -> None:
    """An executable file that is such a command, under the name of the program."""
    file = place / program.name
    file.write_text(f'#!/bin/sh\nexec {shlex.join(command(interpreter, program, needed))} "$@"\n')
    file.chmod(0o755)


@functools.cache
def _nursery(interpreter: str, needed: tuple[str, ...]) -> str:
    """The socket of a process that has loaded these modules; it ends with this one."""
    path = str(Path(tempfile.mkdtemp(prefix="warm-"), "socket"))
    serving = [interpreter, str(HERE / "nursery.py"), path, *needed]
    nursery = subprocess.Popen(serving, stdin=PIPE, stdout=PIPE, cwd="/", start_new_session=True)
    atexit.register(nursery.communicate, timeout=WAIT)
    assert nursery.stdout and receive_line(nursery.stdout) == b"ready\n"
    return path
