"""The text of a server's entry, with a tape and without: a few words are inserted or removed, the rest stays.

Our words come right after the bracket of a list, so that everything after them is original. A space follows ours unless
the line ends there; so removal can see whether the space was ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..wire.jsontext import Splice
from .entry import END, Parts, Tape
from .spans import Member, Node


class Language(Protocol):
    """The operations that jsonc and toml have on their texts."""

    def scan(self, text: str) -> Node: ...
    def quote(self, text: str) -> str: ...
    def member_behind(self, text: str, member: Member, key: str, value: str) -> str: ...
    def without(self, text: str, owner: Node, member: Member) -> list[Splice]: ...


def put_in(
    language: Language, text: str, owner: Node, parts: Parts, program: str, words: Sequence[str]
) -> list[Splice]:
    """Return the splices that put a tape into an entry."""
    members = owner.members or {}
    command = members[parts.command_key].value
    ours = [language.quote(word) for word in (*words, END)]
    if command.items is not None:
        return [_in_front(text, command, [language.quote(program), *ours])]
    ours.append(text[command.start : command.end])
    replaced = (command.start, command.end, language.quote(program))
    if parts.args is not None:
        return [replaced, _in_front(text, members[parts.args_key].value, ours)]
    args = f"[{', '.join(ours)}]"
    more = language.member_behind(text, members[parts.command_key], parts.args_key, args)
    return [(command.start, command.end, replaced[2] + more)]


def _in_front(text: str, array: Node, words: Sequence[str]) -> Splice:
    """Insert words before those of an array."""
    at = array.start + 1
    joined = ", ".join(words)
    if array.items:
        joined += "," if text[at] in "\r\n\t" else ", "
    return at, at, joined


def take_out(language: Language, text: str, owner: Node, parts: Parts, tape: Tape) -> list[Splice]:
    """Return the splices that take a tape out of an entry."""
    members = owner.members or {}
    command = members[parts.command_key].value
    if command.items is not None:
        return _without_first(text, command, tape.words + 1)
    args = members[parts.args_key].value
    items = args.items or []
    original = items[tape.words]
    back = (command.start, command.end, text[original.start : original.end])
    if len(items) > tape.words + 1 or not tape.is_list_ours:
        return [back, *_without_first(text, args, tape.words + 1)]
    start = members[parts.args_key].start
    if command.end <= start and not text[command.end : start].replace(",", "", 1).strip():
        return [(command.start, args.end, back[2])]  # where we inserted it
    return [back, *language.without(text, owner, members[parts.args_key])]


def _without_first(text: str, array: Node, number: int) -> list[Splice]:
    """Remove the first items of an array, with their commas; comments between them stay."""
    items = array.items or []
    commas = array.commas[:number]
    start, end = array.start + 1, items[number - 1].end
    if len(commas) == number:  # a comma follows the last of them
        end = commas[-1] + 1
        if len(items) > number and text[end] == " ":
            end += 1
    tokens = sorted([*((item.start, item.end) for item in items[:number]), *((comma, comma + 1) for comma in commas)])
    gaps = [text[a:b] for (_, a), (b, _) in zip([(0, start), *tokens], [*tokens, (end, 0)], strict=True)]
    if all(not gap.strip() for gap in gaps):
        return [(start, end, "")]
    return [(a, b, "") for a, b in tokens]
