"""JSON with comments and trailing commas, as in VS Code's files: scanned for positions, and parsed.

https://code.visualstudio.com/docs/languages/json#_json-with-comments
"""

from __future__ import annotations

import json
import re
from typing import Any

from .positions import MARK, Member, Pairs, TextNode, UnreadableError, without

__all__ = ["COMMENT", "member_behind", "parse", "plain", "quote", "scan", "without"]

COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.S)
# A string comes first: nothing within it is another token.
_TOKEN = re.compile(rf'"(?:[^"\\\n]|\\.)*"|{COMMENT.pattern}|[{{}}\[\],:]|[^\s{{}}\[\],:"/]+|\S', re.S)
_COLON = re.compile(r"\s*:\s*")


def quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def parse(text: str) -> Any:
    """Parse a text by the standard library; UnreadableError explains why it fails."""
    try:
        try:
            return _strict(text)  # most files are strict
        except ValueError:
            return _strict(plain(text))
    except RecursionError:
        raise UnreadableError("it is nested too deep") from None
    except ValueError as error:
        raise UnreadableError(str(error)) from None


def _strict(text: str) -> Any:
    return json.loads(text, object_pairs_hook=Pairs, parse_constant=_refuse)


def _refuse(word: str) -> Any:
    raise UnreadableError(f"{word} is not JSON")


def plain(text: str) -> str:
    """Return strict JSON without moving a character: comments, trailing commas and a byte order mark become spaces."""
    out: list[str] = []
    at, last, before, comma = 0, "", "", 0  # `before`: the token before the last one; `comma`: the last comma in `out`
    for token in _TOKEN.finditer(text):
        word = token[0]
        out.append(text[at : token.start()])
        at = token.end()
        if word.startswith(("//", "/*")) or (word == MARK and not token.start()):
            out.append(re.sub(r"[^\r\n]", " ", word))
            continue
        if word in "}]" and last == "," and before not in ("", "[", "{", ",", ":"):
            out[comma] = " "
        if word == ",":
            comma = len(out)
        out.append(word)
        before, last = last, word
    return "".join([*out, text[at:]])


def scan(text: str) -> TextNode:
    """Return the value of a text that `parse` accepts, with all positions. The last of equal keys counts."""
    outer = TextNode(0, len(text), items=[])
    stack, key, key_at, key_end = [outer], None, 0, 0
    for token in _TOKEN.finditer(text):
        word, at, parent = token[0], token.start(), stack[-1]
        if word.startswith(("//", "/*")) or word in (":", MARK):
            continue
        if word == ",":
            parent.commas.append(at)
        elif word in "}]":
            stack.pop().end = token.end()
        elif parent.members is not None and key is None:
            key, key_at, key_end = json.loads(word), at, token.end()
        else:
            node = TextNode(at, token.end(), {} if word == "{" else None, [] if word == "[" else None)
            if parent.items is not None:
                parent.items.append(node)
            elif parent.members is not None and key is not None:
                parent.members[key] = Member(key_at, node, key_end)
            if word in "{[":
                stack.append(node)
            key = None
    assert outer.items
    return outer.items[0]


def member_behind(text: str, member: Member, key: str, value: str) -> str:
    """Return the text of a new member to insert after another one, in the same style."""
    space = text[len(text[: member.start].rstrip()) : member.start]
    name = _TOKEN.match(text, member.start)
    colon = _COLON.fullmatch(text, name.end() if name else 0, member.value.start)
    between = colon[0] if colon else ": "
    return f",{space or between.lstrip()[1:]}{quote(key)}{between}{value}"
