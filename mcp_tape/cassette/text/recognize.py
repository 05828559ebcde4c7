"""Which cassettes are text, by their first bytes or their names, and the files beside one while it is recorded."""

from __future__ import annotations

import os

from ...errors import CassetteError
from ..schema import LEFT, MAGIC, TEXT, first_bytes
from .read import is_ours

_HEAD = 1 << 16  # bytes: a line with a long text before its sender is not ours


def is_text(path: str) -> bool:
    """Return whether a cassette is text: by its first bytes or, if it has none yet, by its name."""
    try:
        head = first_bytes(path)
    except CassetteError:
        return False
    is_named = path.endswith(TEXT)
    return (is_named or b'"sender"' in head) and not head.startswith(MAGIC) if head else is_named


def is_recorded_text(path: str) -> bool:
    """Return whether a file is a cassette that is text, rather than another file with that suffix."""
    try:
        with open(path, "rb") as file:
            return is_ours(file.read(_HEAD))
    except OSError:
        return path.endswith(TEXT)  # judged by its name


def is_working(path: str) -> bool:
    """Return whether a file is a text's working database, which is read with the text."""
    return path.endswith(TEXT + LEFT) and os.path.exists(path.removesuffix(LEFT))


def is_named_cassette(path: str) -> bool:
    """Return whether a file is a cassette by its name; for a text, also by its content."""
    return is_recorded_text(path) if path.endswith(TEXT) else path.endswith(".db") and not is_working(path)


def is_database(path: str) -> bool:
    return first_bytes(path).startswith(MAGIC)


def recorder_database(path: str) -> str:
    """The database that a recorder writes."""
    return path + LEFT if is_text(path) else path
