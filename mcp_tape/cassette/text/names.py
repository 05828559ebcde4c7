"""Which cassettes are text, by their first bytes or their names, and what lies beside one while it is recorded."""

from __future__ import annotations

from ...errors import CassetteError
from ..schema import LEFT, MAGIC, TEXT, first_bytes


def is_text(path: str) -> bool:
    """Return whether a cassette is text, or is to be: by its first bytes or, where there is none yet, its name."""
    try:
        head = first_bytes(path)
    except CassetteError:
        return False
    is_named = path.endswith(TEXT)
    return (is_named or b'"sender"' in head) and not head.startswith(MAGIC) if head else is_named


def is_database(path: str) -> bool:
    return first_bytes(path).startswith(MAGIC)


def written(path: str) -> str:
    """The database that is recorded into."""
    return path + LEFT if is_text(path) else path
