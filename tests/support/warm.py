"""Python programs that start with their libraries loaded.

Loading an SDK takes a second of CPU, everything after it a tenth of that. So one process for each interpreter loads the
modules that its programs need, and forks for each run; see `tests/clients/nursery.py`.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import shlex
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import PIPE

WAIT = 120  # seconds; bounds every wait, and is never reached in a passing test
HERE = Path(__file__).resolve().parents[1] / "clients"


def command(interpreter: str, program: Path | str, needed: Sequence[str]) -> list[str]:
    """The command of a program, forked from a process that has loaded these modules. `-m` runs a module."""
    if sys.platform != "linux":  # elsewhere, system libraries must not be used after a fork
        return [interpreter, str(program)]
    return [sys.executable, "-I", "-S", str(HERE / "warm.py"), nursery(interpreter, needed), str(program)]


def script(place: Path, interpreter: str, program: Path, needed: Sequence[str]) -> None:
    """An executable file with such a command, under the name of the program."""
    _write_script(place / program.name, f'exec {shlex.join(command(interpreter, program, needed))} "$@"')


def python(place: Path, needed: Sequence[str], kinds: str = "*.py") -> Path:
    """A `python` that runs files that way, or other arguments that match these kinds; it runs all else as usual."""
    return choosing(place, {kinds: needed}, by="$1")


def choosing(place: Path, needed: Mapping[str, Sequence[str]], by: str = "$*") -> Path:
    """A `python` that selects modules by the pattern that its arguments match, and runs all else as usual."""
    cases = [f'{kind}) exec {shlex.join(command(sys.executable, "", needed[kind])[:-1])} "$@";;' for kind in needed]
    file = place / "python"
    _write_script(file, f'case "{by}" in {" ".join(cases)} *) exec {sys.executable} "$@";; esac')
    return file


def _write_script(file: Path, text: str) -> None:
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


_sockets: dict[str, str] = json.loads(os.environ.get("WARM_SOCKETS", "{}"))  # by the interpreter and its loaded modules
_one_at_a_time = threading.Lock()


def nursery(interpreter: str, needed: Sequence[str]) -> str:
    """The socket of a process that has loaded these modules, or is loading them.

    It ends with the process that started it.
    """
    key = "\0".join([interpreter, *needed])
    with _one_at_a_time:
        if key not in _sockets:
            _sockets[key] = _started(interpreter, needed)
        return _sockets[key]


def shared() -> dict[str, str]:
    """The sockets for another process of the same run; see `share`."""
    return dict(_sockets)


def environment() -> dict[str, str]:
    """The same for a program that is started here."""
    return os.environ | {"WARM_SOCKETS": json.dumps(_sockets)}


def share(sockets: dict[str, str]) -> None:
    _sockets.update(sockets)


def _started(interpreter: str, needed: Sequence[str]) -> str:
    path = str(Path(tempfile.mkdtemp(prefix="warm-"), "socket"))
    serving = [interpreter, str(HERE / "nursery.py"), path, *needed]
    process = subprocess.Popen(serving, stdin=PIPE, stdout=PIPE, cwd="/", start_new_session=True)
    atexit.register(process.communicate, timeout=WAIT)
    assert process.stdout and select.select([process.stdout], [], [], WAIT)[0]
    assert process.stdout.readline() == b"ready\n"
    return path
