"""Runs a client program to its end, and starts a server beside other work."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from types import FrameType

from ..errors import ServerError, TapeError
from ..system import processes
from .process import AS_WE_ARE, Around, given_environment, start_failure
from .signals import OTHERS, SIGNALS


class ProgramError(TapeError):
    """The program could not be started."""

    exit_code = 127  # as in a shell


def run(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a program with our streams to its end; return its exit code, or 128 plus the signal's number.

    Passes our signals on to the program, except those that a terminal sends to both.
    """
    program: subprocess.Popen[bytes] | None = None
    early: list[int] = []  # signals received before the program started

    def pass_on(number: int, frame: FrameType | None) -> None:
        if number in (signal.SIGINT, getattr(signal, "SIGQUIT", None)) and os.isatty(0):
            return
        if program is None:
            early.append(number)
        else:
            program.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in (*SIGNALS, *OTHERS)}
    try:
        program = subprocess.Popen(processes.find_program(words), env={**os.environ, **environ})
        for number in early:
            program.send_signal(number)
        code = program.wait()
    except OSError as error:
        why = start_failure(words[0], error.errno or 0).replace("the server", "the program", 1)
        raise ProgramError(why) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


# -- a server that we talk to: behind a replay, or in place of a client


def start_server(command: Sequence[str], around: Around = AS_WE_ARE) -> subprocess.Popen[bytes]:
    """Start a server with pipes to us. It dies with us."""
    around.check()
    try:
        return processes.start(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=given_environment(around),
            cwd=around.cwd,
        )
    except OSError as error:
        raise ServerError(start_failure(command[0], error.errno or 0)) from None
