"""References of a JSON Schema, resolved within its own document. Nothing is ever fetched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urldefrag

from ..changes import ABSENT

MOST_PARTS = 200_000  # of a document, searched for anchors

_ANCHORS = ("$anchor", "$dynamicAnchor")
_IDS = ("$id", "id")


class Document:
    """A schema document, within which references are resolved."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._named: dict[str, Any] | None = None

    def find(self, reference: Any) -> Any:
        """Resolve a reference; ABSENT if it points outside the document."""
        if not isinstance(reference, str):
            return ABSENT
        base, fragment = urldefrag(reference)
        whole = self.root if not base else self._name(base)
        if not fragment or whole is ABSENT:
            return whole
        if fragment.startswith("/"):
            return _resolve_pointer(whole, fragment)
        return self._name("#" + unquote(fragment))

    def _name(self, name: str) -> Any:
        if self._named is None:
            self._named = dict(_names(self.root))
        return self._named.get(name, ABSENT)


def _names(root: Any) -> Iterator[tuple[str, Any]]:
    """Every id and anchor in a document. Those of the root come last, and win."""
    stack, seen = [root], 0
    while stack and seen < MOST_PARTS:
        part = stack.pop()
        seen += 1
        if isinstance(part, dict):
            yield from ((f"#{part[key]}", part) for key in _ANCHORS if isinstance(part.get(key), str))
            yield from ((part[key].rstrip("#"), part) for key in _IDS if isinstance(part.get(key), str))
            stack.extend(part.values())
        elif isinstance(part, list):
            stack.extend(part)
    if isinstance(root, dict):
        yield from ((root[key].rstrip("#"), root) for key in _IDS if isinstance(root.get(key), str))


def _resolve_pointer(value: Any, fragment: str) -> Any:
    """Resolve a JSON pointer in a fragment: https://www.rfc-editor.org/rfc/rfc6901#section-6"""
    for step in unquote(fragment).split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isascii() and key.isdigit() and int(key[:9]) < len(value):
            value = value[int(key[:9])]
        else:
            return ABSENT
    return value
