"""What can go wrong, and the exit code each kind stands for.

    TapeError                 1
    ├── SettingsError         2   a file with a project's settings means nothing
    ├── CassetteError         3   the file is not a readable cassette
    └── ServerError           4   the server could not be started or reached

A message says what happened, what was given and what to try, in one to three lines.
"""

from __future__ import annotations

import os
from collections.abc import Callable


class TapeError(Exception):
    """Anything mcp-tape refuses to do, said so that a person can act on it."""

    exit_code = 1


class SettingsError(TapeError):
    """What a project's file says cannot be meant."""

    exit_code = 2


class CassetteError(TapeError):
    """The cassette cannot be read or must not be written."""

    exit_code = 3


class ServerError(TapeError):
    """The server could not be started or reached."""

    exit_code = 4


def unchanged(path: str) -> str:
    """What becomes of a cassette that was to be recorded, where that went wrong."""
    return f"{path} stays as it was" if os.path.exists(path) else f"{path} was not made"


def pasted(path: str) -> str:
    """A path in a command that a message says to try, as it can be pasted into a shell."""
    import shlex  # only where something went wrong

    return shlex.quote(path)


def count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def harmless(text: str, stand_in: Callable[[str], str] = lambda character: "\N{MIDDLE DOT}") -> str:
    """Text without what a terminal acts on or hides, for it may be a stranger's: each such character has a stand-in."""
    return text if text.isprintable() else "".join(c if c.isprintable() else stand_in(c) for c in text)
