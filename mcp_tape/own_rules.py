"""What a user wants hidden besides known secrets: names, places, patterns, functions.

The redactor applies them string by string, which takes a while. Most texts hold nothing for them, and here that is
found quickly: that they may hold something can be wrong, that they do not must never be.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from . import hiding, jsontext, secrecy
from .hiding import MARK, Rule, mark
from .json_strings import json_within, strings
from .jsonpath import compile_path, names_of

_QUICK_NAME = re.compile(r"[a-z0-9]{1,100}")
_QUICK_STEP = re.compile(r"[\w $./-]{1,100}", re.ASCII)
# The one letter beyond ASCII that is one of ASCII in lower case: escaped and not, as they look when folded quickly.
_KELVIN = ("\\u212a", "\u212a".encode().decode("latin-1"))


class OwnRules:
    """The rules of one user."""

    def __init__(
        self,
        keys: Iterable[str] = (),
        paths: Iterable[str] = (),
        values: Iterable[str] = (),
        functions: Iterable[Rule] = (),
    ) -> None:
        paths = tuple(paths)
        self.names = frozenset(map(secrecy.fold, keys))
        self.places = [(mark(f"path:{path}"), compile_path(path)) for path in paths]
        self.rules = (*(hiding.pattern_rule(re.compile(value)) for value in values), *functions)
        self._quick_names = all(_QUICK_NAME.fullmatch(name) for name in self.names)
        self._folded = (*self.names, *_KELVIN)
        self._steps = [_quick_steps(path) for path in paths]

    def may_name(self, probe: bytes) -> bool:
        """Whether one of the names can occur in a text; `probe` is the text without its escapes of ASCII."""
        if not self.names:
            return False
        if not self._quick_names:
            return True
        folded = secrecy.fold_quickly(probe)
        return any(word in folded for word in self._folded)

    def may_hide(self, text: bytes, probe: bytes) -> bool:
        """Whether any rule can find something in a text."""
        if self.may_name(probe) or any(all(step in probe for step in steps) for steps in self._steps):
            return True
        return bool(self.rules) and self._finds_in(text.decode("utf-8", "surrogateescape"))

    def _finds_in(self, source: str) -> bool:
        """Whether a pattern or a function finds something: asked of the same strings as when it is to hide them."""
        if source.lstrip(" \t\r\n").startswith(("{", "[")):
            try:
                jsontext.loads(source)
                return any(map(self._finds, strings(source)))
            except RecursionError:
                return True
            except ValueError:
                pass
        return self._finds(source)

    def _finds(self, text: str) -> bool:
        start, end = json_within(text)
        around = (text[:start], text[end:]) if start < end else (text,)
        if MARK in text or any(rule(part) != part for part in around for rule in self.rules):
            return True
        return start < end and any(map(self._finds, strings(text[start:end])))


def _quick_steps(path: str) -> list[bytes]:
    """Names that a text must hold to have a place; none if only a closer look can tell."""
    names = names_of(path)
    return [name.encode() for name in names] if all(map(_QUICK_STEP.fullmatch, names)) else []
