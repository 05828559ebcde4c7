"""Errors with their exit codes, and helpers for their messages.

    TapeError                 1
    ├── SettingsError         2   a project's settings are malformed
    ├── CassetteError         3   the file is not a readable cassette
    └── ServerError           4   the server could not be started or reached

A message states what happened, what was given and what to try, in one to three lines.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable


_SHAPELESS = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"


class TapeError(Exception):
    """An error with a message that the user can act on.

    `hint`: the end of the message, if it is a command to type. Left out for agents, which have no shell.
    """

    exit_code = 1

    def __init__(self, message: str = "", hint: str = "") -> None:
        super().__init__(message + hint)
        self.message, self.hint = message, hint


class SettingsError(TapeError):
    """A project's settings are malformed."""

    exit_code = 2


class CassetteError(TapeError):
    """The cassette cannot be read or must not be written."""

    exit_code = 3


class ServerError(TapeError):
    """The server could not be started or reached."""

    exit_code = 4


class MisuseError(Exception):
    """Options that can't be combined. Click prints the message below a usage line."""


class TapeWarning(UserWarning):
    """A problem with a tape that does not fail the test."""


def describe_unwritten(path: str) -> str:
    """Describe the state of a cassette that could not be recorded."""
    return f"{path} was not changed" if os.path.exists(path) else f"{path} was not made"


def quote_path(path: str) -> str:
    """Quote a path for a shell, in a command that a message suggests."""
    import shlex  # loaded only after an error

    return shlex.quote(path)


def count(number: int, thing: str) -> str:
    """Return a number with its noun, in the plural where needed."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def replace_control_characters(text: str, stand_in: Callable[[str], str] = lambda character: "·") -> str:
    """Replace control and invisible characters, as the text may be untrusted."""
    if text.isascii() and text.isprintable():
        return text
    unseen = {ord(character): stand_in(character) for character in set(text) if not _is_seen(character)}
    return text.translate(unseen) if unseen else text


def _is_seen(character: str) -> bool:
    """Return whether a character is visible.

    Python's `isprintable` is wrong for variation selectors (except the one for emoji) and letters without a shape.
    https://www.unicode.org/reports/tr44/#Default_Ignorable_Code_Point
    """
    selects = "\ufe00" <= character <= "\ufe0e" or "\U000e0100" <= character <= "\U000e01ef"
    return character.isprintable() and not selects and character not in _SHAPELESS
