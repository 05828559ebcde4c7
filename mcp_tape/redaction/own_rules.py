"""What a user wants hidden besides known secrets: names, places, patterns, functions.

The redactor applies them string by string, which takes a while. Most texts hold nothing for them, and here that is
found quickly: that they may hold something can be wrong, that they do not must never be.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from ..wire import jsontext, protocol, secret_names
from ..wire.jsonpath import compile_path, names_of
from . import rules as hiding
from .rules import MARK, Rule, mark
from .strings import json_within, strings

_LONGEST = max(map(len, protocol.UNTOUCHED))
_QUICK_NAME = re.compile(r"[a-z0-9]{1,100}")
_QUICK_STEP = re.compile(r"[\w $./-]{1,100}", re.ASCII)
# The one letter beyond ASCII that is one of ASCII in lower case: escaped and not, as they look when folded quickly.
_KELVIN = ("\\u212a", "\u212a".encode().decode("latin-1"))


class Place(NamedTuple):
    """Where a value stands: under which names, as far as they matter, and how far along each of the paths."""

    names: tuple[str, ...]
    states: tuple[int, ...]
    outermost: bool


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
        self.names = frozenset(map(secret_names.fold, keys))
        self._marks = [mark(f"path:{path}") for path in paths]
        self._paths = [compile_path(path) for path in paths]
        self.outermost = Place((), tuple(path.start for path in self._paths), True)
        self.rules = (*(hiding.pattern_rule(re.compile(value)) for value in values), *functions)
        self._quick_names = all(_QUICK_NAME.fullmatch(name) for name in self.names)
        self._folded = (*self.names, *_KELVIN)
        self._steps = [_quick_steps(path) for path in paths]

    @property
    def has_places(self) -> bool:
        return bool(self._paths)

    def within(self, place: Place, step: str | int) -> Place:
        """The place of what lies there. That of a message in a batch is the same as without it."""
        if isinstance(step, int) and place.outermost:
            return place._replace(outermost=False)
        names = (*place.names, step)[: _LONGEST + 1] if isinstance(step, str) else place.names
        states = zip(self._paths, place.states, strict=True)
        return Place(names, tuple(path.down(state, step) for path, state in states), False)

    def hidden_at(self, place: Place) -> str | None:
        """What is kept of a value that stands at a place to be hidden."""
        marks = zip(self._marks, self._paths, place.states, strict=True)
        return next((mark for mark, path, state in marks if path.ends(state)), None)

    def may_name(self, probe: bytes) -> bool:
        """Whether one of the names can occur in a text; `probe` is the text without its escapes of ASCII."""
        if not self.names:
            return False
        if not self._quick_names:
            return True
        folded = secret_names.fold_quickly(probe)
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
