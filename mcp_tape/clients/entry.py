"""A server's entry as a value: its command, its tape if it has one, and the entry with a tape and without.

A tape goes before the server's command: `npx -y x` becomes `mcp-tape record --for NAME -- npx -y x`. So the entry
itself has all that is needed to remove it. If there were no arguments, our option and its value are one word,
`--for=NAME`, which marks the list of arguments as ours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..errors import TapeError
from .positions import Pairs

PROGRAM = "mcp-tape"
_COMMANDS = ("record", "use")
END = "--"
# Other recorders in front of a server's command. Two in a row would record each other.
_OTHERS = ("mcp-rec", "mcp-recorder", "mcp-record", "mcp-cassette", "mcp-trace", "mcp-tee", "mcp-spy", "mcp-snoop")
_PACKAGE = re.compile(r"(?:.*[/\\])?([^@/\\=\[]+?)(?:\.exe)?(?:[@=\[].*)?")


class Parts(NamedTuple):
    """The command of an entry, and the keys that hold it."""

    owner: tuple[str, ...]  # the way to the object with the two keys, within the entry
    command_key: str
    args_key: str
    command: str | list[str]
    args: list[str] | None

    @property
    def words(self) -> list[str]:
        """The whole command."""
        return self.command if isinstance(self.command, list) else [self.command, *(self.args or [])]


class EntryTape(NamedTuple):
    """A tape in an entry: the number of our words after the program, and whether their list is ours."""

    words: int
    is_list_ours: bool


def parts_of(entry: Any, keys: tuple[str, str]) -> Parts:
    """Return the command of an entry; TapeError if it cannot be wrapped."""
    if not isinstance(entry, Pairs):
        raise TapeError("its entry is not an object")
    owner: tuple[str, ...] = ()
    command_key, args_key = keys
    if isinstance(entry.get(command_key), Pairs):  # an old form of Zed
        owner, command_key = (command_key,), "path"
    within = entry.at(owner)
    command, args = within.get(command_key), within.get(args_key)
    if command is None:
        raise TapeError(f"its entry has no {command_key}")
    if not command or (isinstance(command, list) and not command[0]):
        raise TapeError(f"its {command_key} is empty")
    if isinstance(command, list) and _are_words(command):
        return Parts(owner, command_key, args_key, command, None)
    if not isinstance(command, str) or not (args_key not in dict(within) or _are_words(args)):
        raise TapeError(f"its {command_key} or {args_key} is not made of texts")
    return Parts(owner, command_key, args_key, command, args)


def _are_words(value: Any) -> bool:
    return type(value) is list and all(isinstance(word, str) for word in value)


def tape_in(parts: Parts) -> EntryTape | None:
    """Return the tape in an entry, if there is one that we can remove."""
    program, *words = parts.words
    if _name_of(program) != PROGRAM or not words or words[0] not in _COMMANDS or END not in words:
        return None
    ours = words[: words.index(END) + 1]
    if len(words) == len(ours):
        return None  # no command follows
    return EntryTape(len(ours), any(re.match("--[^=]+=", word) for word in ours))


def _name_of(program: str) -> str:
    """The name of a program, whichever system its path is of."""
    return re.split(r"[/\\]", program)[-1].removesuffix(".exe")


def stranger_in(parts: Parts) -> str | None:
    """Return another recorder that an entry starts, or ours if it was added by hand."""
    for word in parts.words[: parts.words.index(END) if END in parts.words else 4]:
        found = _PACKAGE.fullmatch(word)
        if found and (found[1] in _OTHERS or found[1] in (PROGRAM, "mcp_tape")):
            return found[1]
    return None


def wrap_command(entry: Pairs, parts: Parts, program: str, words: Sequence[str]) -> Pairs:
    """Return an entry with a tape: `words` are ours after the program, without the last `--`."""
    ours = [*words, END]
    if isinstance(parts.command, list):
        return _with_words(entry, parts, [program, *ours, *parts.command], None)
    return _with_words(entry, parts, program, [*ours, parts.command, *(parts.args or [])])


def unwrap_command(entry: Pairs, parts: Parts, tape: EntryTape) -> Pairs:
    """Return an entry without its tape."""
    if isinstance(parts.command, list):
        return _with_words(entry, parts, parts.command[tape.words + 1 :], None)
    args = (parts.args or [])[tape.words :]
    return _with_words(entry, parts, args[0], None if tape.is_list_ours and not args[1:] else args[1:])


def _with_words(entry: Pairs, parts: Parts, command: str | list[str], args: list[str] | None) -> Pairs:
    within: Pairs = entry.at(parts.owner)
    had = [key for key, _ in within]
    last = len(had) - 1 - had[::-1].index(parts.command_key)
    made: list[tuple[str, Any]] = []
    last_args = max((index for index, key in enumerate(had) if key == parts.args_key), default=None)
    for index, (key, value) in enumerate(within):
        if index == last:
            made.append((key, command))
            if last_args is None and args is not None:
                made.append((parts.args_key, args))
        elif index == last_args and not isinstance(command, list):
            made += [(key, args)] if args is not None else []
        else:
            made.append((key, value))
    return entry.with_(parts.owner, Pairs(made)) if parts.owner else Pairs(made)
