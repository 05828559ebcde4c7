"""TOML: scanned for positions, and parsed. https://toml.io/en/v1.0.0"""

from __future__ import annotations

import re
import sys
from typing import Any

from ..wire.jsontext import Splice
from .positions import MARK, Member, Pairs, TextNode, UnreadableError
from .positions import without as without_inline

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["COMMENT", "member_behind", "parse", "quote", "scan", "without"]

COMMENT = re.compile(r"#[^\r\n]*")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})' r"|'''.*?'''(?:'{0,2})" r'|"(?:[^"\\\n]|\\.)*"' r"|'[^'\n]*'", re.S
)
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_DOT = re.compile(r"[ \t]*\.[ \t]*")
_SCALAR = re.compile(r"\d{4}-\d\d-\d\d \d\d:[^\s,\]}#]+|[^\s,\]}#]+")  # a date and a time may have a space between
_SPACE = re.compile(r"(?:\s|#[^\r\n]*)*")


def quote(text: str) -> str:
    from .jsonc import quote as quote_json

    return quote_json(text).replace("\x7f", "\\u007f")


def parse(text: str) -> Any:
    """Parse a text by the standard library; UnreadableError explains why it fails."""
    try:
        return _pairs(tomllib.loads(text.removeprefix(MARK)))
    except RecursionError:
        raise UnreadableError("it is nested too deep") from None
    except ValueError as error:
        raise UnreadableError(str(error)) from None


def _pairs(value: Any) -> Any:
    if isinstance(value, dict):
        return Pairs([(key, _pairs(inner)) for key, inner in value.items()])
    return [_pairs(inner) for inner in value] if isinstance(value, list) else value


def scan(text: str) -> TextNode:
    """Return the tables of a text that `parse` accepts, with the positions of all values."""
    root = table = TextNode(0, len(text), {})
    at = _space(text, len(MARK) if text.startswith(MARK) else 0)
    while at < len(text):
        if text.startswith("[", at):
            is_array = text.startswith("[[", at)
            keys, _, at = _key(text, _space(text, at + 1 + is_array))
            at = text.index("]", at) + 1 + is_array
            table = _table(root, keys[:-1] if is_array else keys)
            if is_array:  # the next keys belong to the newest of its tables
                table = _add_node(table, keys[-1], TextNode(at, at, {}))
        else:
            at = _member(text, at, table, inline=False)
        at = _space(text, at)
    return root


def _space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _add_node(owner: TextNode, key: str, node: TextNode) -> TextNode:
    assert owner.members is not None
    owner.members[key] = Member(node.start, node, node.start)
    return node


def _table(node: TextNode, keys: list[str]) -> TextNode:
    for key in keys:
        there = (node.members or {}).get(key)
        node = there.value if there else _add_node(node, key, TextNode(-1, -1, {}))
    return node


def _key(text: str, at: int) -> tuple[list[str], int, int]:
    """Return the parts of a key, the start of the last one, and the end."""
    parts = []
    while True:
        start = at
        found = _STRING.match(text, at) or _BARE.match(text, at)
        assert found
        word, at = found[0], found.end()
        parts.append(tomllib.loads(f"key = {word}")["key"] if word[0] in "\"'" else word)
        dot = _DOT.match(text, at)
        if not dot:
            return parts, start, at
        at = dot.end()


def _member(text: str, at: int, table: TextNode, *, inline: bool) -> int:
    """Add a key with its value to a table; return the end."""
    keys, last, end = _key(text, at)
    value = _value(text, _space(text, text.index("=", end) + 1))
    owner = _table(table, keys[:-1])
    assert owner.members is not None
    owner.members[keys[-1]] = Member(at, value, end, text[at:last], inline)
    if owner is not table:
        owner.commas = table.commas  # `a.b = 1, a.c = 2` share the braces of the outer table
    return value.end


def _value(text: str, at: int) -> TextNode:
    if text[at] not in "[{":
        found = _STRING.match(text, at) or _SCALAR.match(text, at)
        assert found
        return TextNode(at, found.end())
    node = TextNode(at, at, {}) if text[at] == "{" else TextNode(at, at, items=[])
    at = _space(text, at + 1)
    while text[at] not in "]}":
        if node.items is None:
            at = _member(text, at, node, inline=True)
        else:
            node.items.append(_value(text, at))
            at = node.items[-1].end
        at = _space(text, at)
        if text[at] == ",":
            node.commas.append(at)
            at = _space(text, at + 1)
    node.end = at + 1
    return node


def member_behind(text: str, member: Member, key: str, value: str) -> str:
    """Return the text of a new member to insert after another one, in the same style."""
    line = text[text.rfind("\n", 0, member.start) + 1 : member.start]
    between = ", " if member.inline else ("\r\n" if "\r\n" in text else "\n") + (line if not line.strip() else "")
    return f"{between}{member.prefix}{key} = {value}"


def without(text: str, owner: TextNode, member: Member) -> list[Splice]:
    """Return the splices that remove a member, with its line if nothing else is on it."""
    if member.inline:
        return without_inline(text, owner, member)
    start, end = member.start, member.value.end
    line = text.rfind("\n", 0, start) + 1
    next_line = text.find("\n", end) + 1 or len(text)
    if not text[line:start].strip() and not text[end:next_line].strip():
        return [(line, next_line, "")]
    return [(start, end, "")]
