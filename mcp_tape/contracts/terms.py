"""The terms of a contract, as people write them: `tool:search`, `tools/call<=20`, `2s`, `40k`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from ..cassette.query.filters import Filter, FilterError, parse
from ..values import parse_duration, parse_size

_LIMITED = re.compile(r"(?P<filter>.*\S)\s*<=\s*(?P<most>[0-9]{1,12})\s*", re.S)
T = TypeVar("T")


class ContractTerm(NamedTuple):
    """A filter, with its original text."""

    text: str
    kept: Filter


class CallLimit(NamedTuple):
    """A filter, and the most calls that may match it."""

    term: ContractTerm
    most: int


class Terms(NamedTuple):
    """The terms of a contract. `duration`: microseconds that a call may take. `definitions`: bytes of all tools'."""

    expect: tuple[ContractTerm, ...] = ()
    forbid: tuple[ContractTerm, ...] = ()
    limits: tuple[CallLimit, ...] = ()
    duration: int | None = None
    definitions: int | None = None


def term(text: str) -> ContractTerm:
    """Parse a filter in which a bare word with a slash is a method. Raises FilterError if it is invalid."""
    if not text.strip():
        raise FilterError("this keeps everything; write e.g. tool:search or tools/call", 0)
    return ContractTerm(text, parse(text, methods=True))


def limit(text: str) -> CallLimit:
    """Parse a filter and a number: `tools/call<=20`."""
    found = _LIMITED.fullmatch(text)
    if found is None:
        raise FilterError("there is no limit; write e.g. tools/call<=20 or tool:search<=3", len(text))
    return CallLimit(term(found["filter"]), int(found["most"]))


def parse_terms(
    expect: Iterable[str],
    forbid: str | Iterable[str],
    limits: Iterable[tuple[str, int]],
    duration: str | float | None,
    definitions: str | int | None,
) -> Terms:
    """Parse the terms of a test. Numbers are seconds and bytes. Raises ValueError for an invalid one."""
    return Terms(
        tuple(_parse_filter(term, text) for text in expect),
        tuple(_parse_filter(term, text) for text in ([forbid] if isinstance(forbid, str) else forbid)),
        tuple(CallLimit(_parse_filter(term, text), most) for text, most in limits),
        parse_duration(duration) if isinstance(duration, str) else None if duration is None else round(duration * 1e6),
        parse_size(definitions) if isinstance(definitions, str) else definitions,
    )


def _parse_filter(make: Callable[[str], T], text: str) -> T:
    try:
        return make(text)
    except FilterError as error:
        raise ValueError(f"{text!r} is not a filter: {error}, at character {error.position + 1}") from None
