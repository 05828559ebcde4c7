"""Answers of bounded size. A cursor leads to the rest: nothing is cut silently."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ..cassette.text.safe_lines import escape_control_characters, json_line
from ..errors import TapeError

ROOM = 20_000  # bytes of an answer's text, and of its structured content
SHORT = 300  # characters
_MOST_NAMED = 5  # unreadable cassettes
_NOT_READ = "[Not read: {}]"
CURSOR, NEXT = "cursor", "next_cursor"  # the argument, and the member of structured content


class ToolError(TapeError):
    """Invalid arguments of a tool, explained for a model."""


# Advice for a model in place of a hint, by the start of the command in the hint.
_INSTEAD = {
    "mcp-tape ls": "; list_sessions has its sessions",
    "mcp-tape show": "; show_session has the numbers of its messages",
    "mcp-tape query": "; the description of this tool has the tables and their columns",
    "-p NAME": ' Give it in "params".',
}


def words_of(error: Exception) -> str:
    """Explain an error to a model, which has tools and no shell."""
    if not isinstance(error, TapeError) or not error.hint:
        return str(error)
    return error.message + next((tool for command, tool in _INSTEAD.items() if command in error.hint), "")


class ToolAnswer(NamedTuple):
    """The result of a tool: text, and the same as values if the tool has an output schema."""

    text: str
    structured: dict[str, Any] | None = None


class Item(NamedTuple):
    """An indivisible part of an answer. `cursor`: the place after it."""

    text: str
    value: dict[str, Any]
    cursor: str


def page(
    name: str, items: Iterable[Item], head: str, nothing: str, too_large: str = "", unread: list[str] | None = None
) -> ToolAnswer:
    """Return as many items as fit. `too_large`: advice for an item that never fits.

    `unread`: the reasons why cassettes are left out. It may grow while items are read.
    """
    lines, values, cursors = list[str](), list[dict[str, Any]](), list[str]()
    written = sized = 0
    following = None
    head = escape_control_characters(head)

    def is_full(text: int = 0, value: int = 0) -> bool:
        beside = _name_unread(unread or [])
        prose = sum(_size(line) + 1 for line in [head, *map(_NOT_READ.format, beside)])
        return max(prose + written + text, sized + value + len(json_line({"unread": beside}))) > ROOM

    for item in items:
        text, value = escape_control_characters(item.text), clean(item.value)
        sizes = _size(text) + 1, len(json_line(value))
        if is_full(*sizes):
            if not values:
                raise ToolError(f"the next of the {name} has more than the {ROOM} bytes of an answer. {too_large}")
            following = cursors[-1]
            break
        written, sized = written + sizes[0], sized + sizes[1]
        lines.append(text)
        values.append(value)
        cursors.append(item.cursor)
    while len(values) > 1 and is_full():  # `unread` has grown after them
        sized -= len(json_line(values.pop()))
        written -= _size(lines.pop()) + 1
        cursors.pop()
        following = cursors[-1]
    beside = _name_unread(unread or [])
    lines = [head, *map(_NOT_READ.format, beside), *(lines or [escape_control_characters(nothing)])]
    structured = {name: values, NEXT: following} | ({} if unread is None else {"unread": beside})
    return ToolAnswer("\n".join(lines + more(following)), structured)


def _name_unread(unread: list[str]) -> list[str]:
    """The unreadable cassettes: the first few by name, and the number of the others."""
    rest = len(unread) - _MOST_NAMED
    return [str(clean(one)) for one in unread[:_MOST_NAMED]] + ([f"and {rest} more"] if rest > 0 else [])


def window(pieces: Iterable[str], start: int, call: str = "call again with", place: str = "") -> str:
    """Return the part of a long text that starts at this character. `place`: a prefix of the cursor."""
    position, left = 0, ROOM
    parts = []
    for piece in map(escape_control_characters, pieces):
        kept = piece[max(0, start - position) :]
        position += len(piece)
        part = kept if _size(kept) <= left else kept.encode()[:left].decode("utf-8", "ignore")
        parts.append(part)
        start += len(part)
        left -= _size(part)
        if part != kept:
            return "".join([*parts, "\n", *more(f"{place}{start}", call)])
    if start > position:
        raise ToolError(f"the cursor is beyond the end, at {start} of {position}; leave it out to begin again")
    return "".join(parts)


def more(cursor: str | None, call: str = "call again with") -> list[str]:
    """The last line of an incomplete answer."""
    return [] if cursor is None else [f'[There is more: {call} "{CURSOR}": "{cursor}"]']


def number(cursor: str | None) -> int:
    """The number in a cursor."""
    return numbers(cursor or "0", 1)[0]


def numbers(cursor: str, *sizes: int) -> list[int]:
    """The numbers in a cursor such as `2.15`, which must have one of these sizes."""
    words = cursor.split(".")
    if len(words) not in sizes or not all(word.isascii() and word.isdigit() and len(word) < 19 for word in words):
        raise ToolError(f'cursor {cursor!r} is not from this tool; give "{NEXT}" of its last answer, or none')
    return [int(word) for word in words]


def short(text: str | None, most: int = SHORT) -> str:
    """A text on one line; a longer one ends with the number of characters left out."""
    line = " ".join((text or "")[: 8 * most].split())
    left = max(len(line) - most, 0) + max(len(text or "") - 8 * most, 0)
    return f"{line[:most]}… [{left} more characters]" if left else line


def brief(value: dict[str, Any]) -> dict[str, Any]:
    """Values with their texts cut: an untrusted id, name or version may have any length."""
    return {name: short(member) if isinstance(member, str) else member for name, member in value.items()}


def clean(value: Any) -> Any:
    """A value with all strings cleaned: a model would read invisible characters, and UTF-8 cannot encode everything."""
    if isinstance(value, str):
        return escape_control_characters(value)
    if isinstance(value, dict):
        return {escape_control_characters(str(name)): clean(member) for name, member in value.items()}
    return [clean(each) for each in value] if isinstance(value, (list, tuple)) else value


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
