"""Starts a server that ends with us.

Imports nothing heavy, so that a recorded server starts almost as fast as an unrecorded one.
"""

from __future__ import annotations

import os
from errno import EACCES, ENOENT, EPERM

from ..errors import ServerError
from ..light import NamedTuple
from ..system import processes
from .signals import OTHERS, SIGNALS

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Sequence

_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")  # the values that Python may set


class Around(NamedTuple):
    """The environment of a server: variables added to our own, and the working directory."""

    env: Sequence[tuple[str, str]] = ()
    cwd: str | None = None
    missing: Sequence[str] = ()  # required variables that are not set

    def check(self) -> None:
        """Refuse to start a server without its variables or its directory."""
        if self.missing:
            which = ", ".join(self.missing)
            raise ServerError(f"cannot start the server: it needs {which}, which is not set; set it, then try again")
        if self.cwd is not None and not os.path.isdir(self.cwd):
            raise ServerError(
                f"cannot start the server: {self.cwd!r}, where it should start, is not a directory; give one that is"
            )


AS_WE_ARE = Around()


class ServerProcess:
    """A running stdio server. Make it on the main thread, before any other thread runs.

    The reasons: a parent-death signal fires when the thread that started the child ends, see PR_SET_PDEATHSIG(2const),
    and forking is unsafe with threads.
    """

    def __init__(self, command: Sequence[str], around: Around = AS_WE_ARE) -> None:
        processes.open_standard_streams()
        self.process = start_child(command, around)
        processes.close_inherited()
        self.group = processes.GroupWatch(OTHERS)  # only signals that ask us to stop count
        processes.block_signals({*SIGNALS, *OTHERS})


def start_child(command: Sequence[str], around: Around = AS_WE_ARE) -> processes.Child:
    """Start a command with pipes to us, which dies with us."""
    around.check()
    try:
        return processes.Child(command, given_environment(around), around.cwd)
    except OSError as error:
        raise ServerError(start_failure(command[0], error.errno or 0)) from None


def given_environment(around: Around = AS_WE_ARE) -> dict[str, str] | None:
    """The environment for a server; None for our own, as it was given to us."""
    inherited = _remove_coerced_locale()
    return inherited if not around.env else {**(os.environ if inherited is None else inherited), **dict(around.env)}


def _remove_coerced_locale() -> dict[str, str] | None:
    """Our environment without the LC_CTYPE that Python adds in the C locale; None if Python did not add it.

    https://peps.python.org/pep-0538/. Only Linux shows the environment that a process was started with; elsewhere the
    user may have set the variable.
    """
    if os.environ.get("LC_CTYPE") not in _COERCED:
        return None
    given = processes.original_environment()
    if given is None:
        return None
    if any(entry.startswith(b"LC_CTYPE=") for entry in given.split(b"\0")):
        return None
    return {name: value for name, value in os.environ.items() if name != "LC_CTYPE"}


def start_failure(name: str, number: int) -> str:
    """Describe why a command can't be started, by error number."""
    from shutil import which

    if os.path.isdir(name):
        return f"cannot start the server: {name!r} is a directory; give the command that runs it"
    if number == ENOENT or not name:
        if which(name):
            return f"cannot start the server {name!r}: the interpreter in its first line does not exist"
        return f"cannot start the server: there is no command {name!r}; check its spelling and the PATH"
    if number in (EACCES, EPERM):
        return f"cannot start the server: {name!r} is not executable; try: chmod +x {name}"
    return f"cannot start the server {name!r}: {os.strerror(number)}"
