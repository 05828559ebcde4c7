"""Functions for workers in tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event


def double(number: int) -> int:
    return 2 * number


def seen_by(number: int) -> tuple[int, int]:
    return number, os.getpid()


def misbehave(what: str) -> str:
    """Fail in one of many ways, or return normally."""
    if what == "raise":
        raise ValueError("no\nsuch luck")
    if what == "memory":
        raise MemoryError
    if what == "exit":
        sys.exit(7)
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if what == "unpicklable":
        return lambda: None  # type: ignore[return-value]
    if what == "print":
        print("for people")
        sys.stdout.flush()
        os.write(1, b"and more\n")
    if what == "read":
        return sys.stdin.read() + "nothing"
    if what == "large":
        return "x" * 5_000_000
    return what


def meet(place: str) -> int:
    """Wait, with a time limit, until there are two of us."""
    Path(place, str(os.getpid())).touch()
    pause = Event()
    for _ in range(6000):
        if len(os.listdir(place)) > 1:
            return os.getpid()
        pause.wait(0.01)
    raise TimeoutError("nobody came")


def tell_and_wait(place: str) -> None:
    """Start a child process, write down both pids, and work until stopped."""
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as child:
        told = Path(place, f"{os.getpid()}.part")
        told.write_text(f"{os.getpid()} {child.pid}")
        told.rename(told.with_suffix(".told"))
        try:
            Event().wait(600)
        finally:
            Path(place, f"{os.getpid()}.cleaned").touch()
