"""Programs that run beside other work: one that talks to servers, in our place, and a server that we talk to."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from types import FrameType

from ..errors import ServerError, TapeError
from .process import AS_WE_ARE, Around, die_with_parent, given_environment, start_failure
from .signals import OTHERS, SIGNALS


class ProgramError(TapeError):
    """The program could not be started."""

    exit_code = 127  # as a shell has it


def run(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a program with our streams to its end; return its exit code, for a signal 128 and its number.

    Signals to us go to the program, which decides what to make of them. Keys of a terminal reach it by themselves.
    """
    program: subprocess.Popen[bytes] | None = None
    early: list[int] = []  # signals that came before there was a program

    def pass_on(number: int, frame: FrameType | None) -> None:
        if number in (signal.SIGINT, signal.SIGQUIT) and os.isatty(0):
            return
        if program is None:
            early.append(number)
        else:
            program.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in (*SIGNALS, *OTHERS)}
    try:
        program = subprocess.Popen(words, env={**os.environ, **environ})
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


# -- start a server beside other work, and talk to it: behind a replay, or in place of a client


def start_server(command: Sequence[str], around: Around = AS_WE_ARE) -> subprocess.Popen[bytes]:
    """Start a server with pipes to us, which dies with us."""
    around.check()
    try:
        return subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=given_environment(around),
            cwd=around.cwd,
            preexec_fn=die_with_parent(),
        )
    except OSError as error:
        raise ServerError(start_failure(command[0], error.errno or 0)) from None
