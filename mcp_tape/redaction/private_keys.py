"""A private key printed over several lines: each line is a frame, and only the first tells what they are."""

from __future__ import annotations

import re

from .strings import is_json

# Of PEM and PGP, and of PuTTY.
_EDGE = re.compile(
    r"----[- ](?:(?P<begin>BEGIN)|END) (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY"
    r"|Private-(?:(?P<lines>Lines): \d|MAC: [0-9a-f])"
)
_BODY = re.compile(r"[A-Za-z0-9+/]{20}|(?:\A|[\s|:>\]])[A-Za-z0-9+/]*={0,2}\s*\Z|Proc-Type:|DEK-Info:")
_LINES = 400  # a key that never ends must not swallow the rest of the log


Place = tuple[int, str]  # a session and a channel


class PrivateKeys:
    """The channels that are within a private key."""

    def __init__(self) -> None:
        self._left: dict[Place, int] = {}  # lines

    def __bool__(self) -> bool:
        return bool(self._left)

    def watch(self, source: str, place: Place) -> None:
        """A text that is no JSON: a key may begin in it."""
        edges = _edges(source)
        if edges and edges[-1]:
            self._left[place] = _LINES

    def leave(self, place: Place) -> None:
        """Nothing of a key that began there will follow."""
        self._left.pop(place, None)

    def holds(self, text: bytes, place: Place) -> bool:
        """Whether the next text of a channel is a line of a key."""
        left = self._left.pop(place, 0)
        source = text.decode("utf-8", "surrogateescape")
        edges = _edges(source)
        if left > 1 and all(edges):
            self._left[place] = left - 1
        return left > 0 and not is_json(source) and bool(edges or _BODY.search(source))


def _edges(source: str) -> list[bool]:
    """The edges of keys in a text: whether each is a beginning."""
    return [bool(edge["begin"] or edge["lines"]) for edge in _EDGE.finditer(source)]
