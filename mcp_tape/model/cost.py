"""Definitions and results as a model gets them, and their cost: bytes, and tokens by a rule of thumb."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ..wire import jsontext, protocol

# Hosts pass these to a model. Annotations, icons and output schemas are for the host.
_HANDED_OVER = ("name", "description", "inputSchema")


class Cost(NamedTuple):
    """The size of texts in UTF-8, and an estimate of their tokens."""

    bytes: int
    tokens: int


def cost(text: str) -> Cost:
    return Cost(len(text.encode("utf-8", "surrogatepass")), tokens(text))


def tokens(text: str) -> int:
    """Estimate the number of tokens in a text.

    Four ASCII characters count as one token, and so do two characters of the alphabets up to U+07FF (Greek, Cyrillic,
    Arabic …). Each character beyond counts as one (Chinese, Japanese, emoji …).
    """
    if text.isascii():
        return -(-len(text) // 4)
    ascii_ = sum(character < "\x80" for character in text)
    near = sum("\x80" <= character <= "\u07ff" for character in text)
    return -(-(ascii_ + 2 * near + 4 * (len(text) - ascii_ - near)) // 4)


def definition(tool: Any) -> str:
    """A tool's definition as a model gets it: name, description and input schema, as compact JSON."""
    members = tool if isinstance(tool, dict) else {}
    return jsontext.compact_text({name: members[name] for name in _HANDED_OVER if name in members})


def definitions(tools: Iterable[Any]) -> Cost:
    """The total cost of all definitions."""
    each = [cost(definition(tool)) for tool in tools]
    return Cost(sum(one.bytes for one in each), sum(one.tokens for one in each))


def result_texts(result: Any) -> Iterator[str]:
    """Yield the texts of a tool's result.

    Structured content counts only if there is no content, which should repeat it:
    https://modelcontextprotocol.io/specification/2025-11-25/server/tools#structured-content
    """
    content = protocol.member(result, "content")
    if not content and protocol.member(result, "structuredContent") is not None:
        yield jsontext.compact_text(result["structuredContent"])
    for block in content if isinstance(content, list) else ():
        text = protocol.member(block, "text") or protocol.member(protocol.member(block, "resource"), "text")
        if isinstance(text, str):
            yield text
        elif protocol.member(block, "uri") is not None:  # a model reads the description of a link
            yield jsontext.compact_text(block)


def media(result: Any) -> int:
    """Return the number of images, sounds and other files in a result. Their cost does not depend on their size."""
    content = protocol.member(result, "content")
    blocks = content if isinstance(content, list) else ()
    files = ((protocol.member(block, "data"), protocol.member(block, "resource")) for block in blocks)
    return sum(data is not None or protocol.member(file, "blob") is not None for data, file in files)
