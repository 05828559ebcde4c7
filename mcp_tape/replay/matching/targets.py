"""Parses matching options, `TARGET=VALUE`: the requests that an option applies to, and its value."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ...values import named_function
from ...wire import protocol
from ...wire.jsonpath import JsonPath
from .nearness import NEAREST

TARGET = r"(?P<method>[^=:@]+)(?::(?P<name>[^=@]+))?"  # also used by faults
_SPEC = re.compile(rf"{TARGET}=(?P<rest>.*)", re.S)
READY = ("paths", "times", "uuids", "ports", "case", "space")
_NUMBERS = "numbers"


class Target(NamedTuple):
    """The requests that an option applies to: all, those of a method, or those of a tool, prompt or resource."""

    method: str | None = None
    name: str | None = None

    def fits(self, method: str, name: str | None) -> bool:
        return self.method in (None, method) and self.name in (None, name)

    @property
    def detail(self) -> int:
        return (self.method is not None) + (self.name is not None)


class Normalizer(NamedTuple):
    """A built-in normalizer, a tolerance for numbers, or a function of a value."""

    name: str = ""
    tolerance: str | None = None
    function: Callable[[Any], Any] | None = None


def split(source: str) -> tuple[Target, str]:
    """Split off the target, if any. A JSONPath starts with `$`; a target does not."""
    found = None if source.startswith("$") else _SPEC.fullmatch(source)
    return (Target(found["method"], found["name"]), found["rest"]) if found else (Target(), source)


def write_option(method: str, name: str | None, value: str) -> str:
    """Return an option for requests with a method and a name.

    Falls back to the method alone, or to the bare value, if the target's characters can't be written in an option.
    """
    for target in (f"{method}:{name}", method):
        if (name is not None or target == method) and split(f"{target}={value}")[1] == value:
            return f"{target}={value}"
    return value


def parse_path(source: str) -> tuple[Target, JsonPath]:
    """Parse `[TARGET=]JSONPATH`. Raises ValueError."""
    target, rest = split(source)
    return target, JsonPath(rest)


def parse_normalizer(source: str) -> tuple[Target, Normalizer]:
    """Parse `[TARGET=]NAME`: a built-in normalizer, `numbers:TOLERANCE` or MODULE:FUNCTION. Raises ValueError."""
    target, rest = split(source)
    name, colon, value = rest.partition(":")
    if name == _NUMBERS:
        if not re.fullmatch(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", value):
            raise ValueError(f"{source!r}: numbers takes a tolerance, as in numbers:0.01")
        return target, Normalizer(name, value)
    if not colon and name in READY:
        return target, Normalizer(name)
    if not colon:
        known = f"{', '.join(READY)}, numbers:TOLERANCE"
        raise ValueError(f"there is no normalizer {rest!r}: choose one of {known}, or give MODULE:FUNCTION")
    return target, Normalizer(function=named_function(rest))


def parse_manner(source: str) -> tuple[Target, float | None]:
    """Parse `[TARGET=]exact` (None) or `[TARGET=]nearest[:SIMILARITY]` (the required similarity)."""
    target, rest = split(source)
    if rest == "exact":
        return target, None
    found = re.fullmatch(r"nearest(?::(\d+(?:\.\d+)?|\.\d+))?", rest)
    least = float(found[1] or NEAREST) if found else -1.0
    if not 0 <= least <= 1:
        raise ValueError(f"{source!r} is not a way to match: write exact, nearest or nearest:0.8 (from 0 to 1)")
    return target, least


def check_path(source: str) -> None:
    parse_path(source)


def check_normalizer(source: str) -> None:
    parse_normalizer(source)


def check_manner(source: str) -> None:
    parse_manner(source)


def required_similarity(manners: Iterable[tuple[Target, float | None]], method: str, name: str | None) -> float | None:
    """Return the similarity required for a request. The most specific target wins; of several, the last.

    Without a target, only calls of tools and prompts may match loosely: no resource or list page replaces another.
    """
    fitting = [(target.detail, at, least) for at, (target, least) in enumerate(manners) if target.fits(method, name)]
    detail, _, least = max(fitting, default=(0, 0, None))
    return least if detail or protocol.is_addressed(method) else None
