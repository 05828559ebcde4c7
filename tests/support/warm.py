"""Python programs that begin with their libraries loaded.

To load an SDK takes a second of computing, all that follows a tenth of that. So one process for each interpreter
loads what its programs need, and forks for each that is run; see `tests/clients/nursery.py`.
"""

from __future__ import annotations

import atexit
import functools
import select
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from subprocess import PIPE

WAIT = 60  # seconds; bounds every wait, and is never reached where things work
HERE = Path(__file__).resolve().parents[1] / "clients"


def command(interpreter: str, program: Path | str, needed: Sequence[str]) -> list[str]:
    """A command that is this program, forked from a process that has loaded these modules; `-m` begins a module."""
    if sys.platform != "linux":  # elsewhere, libraries of the system forbid to go on after a fork
        return [interpreter, str(program)]
    return [sys.executable, "-I", "-S", str(HERE / "warm.py"), nursery(interpreter, tuple(needed)), str(program)]


def script(place: Path, interpreter: str, program: Path, needed: Sequence[str]) -> None:
    """An executable file that is such a command, under the name of the program."""
    _write_script(place / program.name, f'exec {shlex.join(command(interpreter, program, needed))} "$@"')


def python(place: Path, needed: Sequence[str]) -> None:
    """A `python` that runs files so, and all else as it always does."""
    warm = shlex.join(command(sys.executable, "", needed)[:-1])
    _write_script(place / "python", f'case "$1" in *.py) exec {warm} "$@";; *) exec {sys.executable} "$@";; esac')


def _write_script(file: Path, text: str) -> None:
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


@functools.cache
def nursery(interpreter: str, needed: tuple[str, ...]) -> str:
    """The socket of a process that has loaded these modules; it ends with this one."""
    path = str(Path(tempfile.mkdtemp(prefix="warm-"), "socket"))
    serving = [interpreter, str(HERE / "nursery.py"), path, *needed]
    process = subprocess.Popen(serving, stdin=PIPE, stdout=PIPE, cwd="/", start_new_session=True)
    atexit.register(process.communicate, timeout=WAIT)
    assert process.stdout and select.select([process.stdout], [], [], WAIT)[0]
    assert process.stdout.readline() == b"ready\n"
    return path
