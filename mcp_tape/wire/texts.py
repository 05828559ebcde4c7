"""What a recorded text says: the messages of a batch, the words behind escapes, the request that a message cancels.

Owns what SQLite cannot say of a text itself, and teaches it to the connection of a cassette. Texts are as they come
from a table: bytes where they are not UTF-8, and anything where a stranger wrote them.
"""

from __future__ import annotations

import re
import sqlite3
from typing import Any

from . import frames, jsontext, protocol

_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.S)
_SHORT = {"b": " ", "f": " ", "n": "\n", "r": "\r", "t": "\t"}


def teach(db: sqlite3.Connection) -> None:
    """Make the functions below known to SQL, by their names."""
    for function in (says, cancelled_by):
        db.create_function(function.__name__, 2, function, deterministic=True)


def spans(batch: Any) -> list[tuple[int, int]]:
    """Where the messages of a batch stand in its text; none where a stranger put something else."""
    text = batch.decode("latin-1") if isinstance(batch, bytes) else batch  # a character for each byte
    try:
        return [(start, end) for path, start, end in jsontext.values(text, 1) if path]
    except (IndexError, ValueError, TypeError):
        return []


def says(text: Any, words: bytes) -> bool:
    """Whether a text has some words, however it writes them. They are in lower case, of A to Z, as SQLite makes it."""
    return words in readable(text).encode("utf-8", "surrogatepass").lower()


def readable(text: Any) -> str:
    """A text as people mean it: `caf\\u00e9` is `café`, and a line end no letter n; also in JSON within a string."""
    plain = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    once = _unescaped(plain)
    twice = _unescaped(once)
    return once if once == twice else f"{once}\n{twice}"


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    found = _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else _SHORT.get(m[2], m[2]), text)
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # two halves are one character


def cancelled_by(text: Any, part: Any) -> str | None:
    """The id of the request that a message cancels, as JSON text."""
    try:
        body = jsontext.loads(text)
        message = body[part] if isinstance(body, list) else body
        frames.name_exactly(message, text, (part,) if isinstance(body, list) else ())
        return frames.id_text(protocol.member(message.get("params"), "requestId"))
    except (ValueError, RecursionError, TypeError, IndexError, AttributeError):
        return None  # a stranger's
