"""Values of a text with their positions: found by jsonc and toml, changed by splice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..wire.jsontext import Splice

MARK = "\ufeff"  # the byte order mark, which some editors put at the start of a file


class UnreadableError(ValueError):
    """A text that cannot be parsed; the message gives the reason."""


class Pairs(list[tuple[str, Any]]):
    """The members of an object in order, including duplicate keys."""

    def get(self, key: str) -> Any:
        """Return the value of a key. The last of equal ones counts, as in all clients."""
        return dict(self).get(key)

    def at(self, path: Iterable[str]) -> Any:
        """Return the value at a path of keys, or None."""
        value: Any = self
        for key in path:
            value = value.get(key) if isinstance(value, Pairs) else None
        return value

    def with_(self, path: tuple[str, ...], new: Any) -> Pairs:
        """Return a copy with another value at an existing path of keys."""
        last = max(index for index, (key, _) in enumerate(self) if key == path[0])
        value = self[last][1].with_(path[1:], new) if path[1:] else new
        return Pairs([*self[:last], (path[0], value), *self[last + 1 :]])


@dataclass(slots=True)
class Member:
    """A key with its value. `prefix`: the text before the last part of the key; `inline`: commas separate members."""

    start: int
    value: TextNode
    key_end: int
    prefix: str = ""
    inline: bool = True


@dataclass(slots=True)
class TextNode:
    """A value: `members` of an object, `items` of an array."""

    start: int
    end: int
    members: dict[str, Member] | None = None
    items: list[TextNode] | None = None
    commas: list[int] = field(default_factory=list)  # positions of the commas between items or members

    def at(self, path: Iterable[str]) -> TextNode:
        """Return the node at an existing path of keys."""
        node = self
        for key in path:
            node = (node.members or {})[key].value
        return node


def without(text: str, owner: TextNode, member: Member) -> list[Splice]:
    """Return the splices that remove a member, with one of the commas around it."""
    start, end = member.start, member.value.end
    before = [comma for comma in owner.commas if comma < start]
    behind = [comma for comma in owner.commas if comma >= end]
    if before:
        alone = not text[before[-1] + 1 : start].strip()
        return [(before[-1], end, "")] if alone else [(before[-1], before[-1] + 1, ""), (start, end, "")]
    if behind:
        return [(start, end, ""), (behind[0], behind[0] + 1, "")]
    return [(start, end, "")]
