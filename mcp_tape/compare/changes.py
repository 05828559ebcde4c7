"""A change: one difference between two versions of a server, with its rule and its level."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, NamedTuple

from ..wire import jsonpath, jsontext
from ..wire.jsontext import Path
from .rule_table import RULES, Category, Level


class _Absent(Enum):
    """The value of an absent member, as opposed to null."""

    ABSENT = "absent"


ABSENT = _Absent.ABSENT
_FLOAT = re.compile(rb"\d\.0\b|\de")  # may also match in a string, which only costs time
_MOST_PLACES = 20  # recorded per change
NOTHING = ABSENT, ABSENT
RequestPlace = tuple[int, int]  # session and seq


class Difference(NamedTuple):
    """A rule's finding at a place, without its subject. `level`: if it differs from the rule's first level."""

    rule: str
    path: Path = ()
    before: Any = ABSENT
    after: Any = ABSENT
    note: str = ""  # our wording; never part of the fingerprint
    level: Level | None = None
    of: Any = ABSENT  # the params of its call, if nothing else tells it apart
    marks: tuple[Any, Any] | None = None  # the input of its fingerprint, if not before and after
    common: bool = False  # caused by the library that writes all schemas of a server
    at: tuple[RequestPlace | None, RequestPlace | None] | None = None  # the requests of its call, on both sides


class Subject(NamedTuple):
    """The thing that has changed: `tool search_issues`, `call tools/call search_issues`."""

    kind: str  # server, tool, resource, template, prompt, skill, call
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".rstrip()


SERVER = Subject("server", "")
SubjectDifference = tuple[Subject, Difference]


def attach_subject(subject: Subject, found: Iterable[Difference]) -> Iterator[SubjectDifference]:
    return ((subject, difference) for difference in found)


class Change(NamedTuple):
    """A difference with its subject, level and fingerprint. `times`: how often the same change was found; `places`: the
    calls of the first ones."""

    rule: str
    level: Level
    category: Category
    subject: Subject
    path: str
    before: Any
    after: Any
    note: str
    fingerprint: str
    times: int = 1
    places: tuple[tuple[RequestPlace | None, RequestPlace | None], ...] = ()

    @property
    def is_removal(self) -> bool:
        """True if its subject is gone, and nothing that used it can work."""
        return self.path == "$" and self.rule.endswith("-removed") and self.after is ABSENT

    def as_dict(self) -> dict[str, Any]:
        """The change as JSON; absent values are left out."""
        values = self._asdict() | {"subject": self.subject._asdict()}
        return {name: value for name, value in values.items() if value is not ABSENT and name != "places"}

    def add_occurrence(self, other: Change) -> Change:
        """This change, found once more."""
        return self._replace(times=self.times + 1, places=(self.places + other.places)[:_MOST_PLACES])


def change(subject: Subject, found: Difference) -> Change:
    rule = RULES[found.rule]
    level, path = found.level or rule.level, jsonpath.path_text(found.path)
    what = () if found.of is ABSENT else (comparable_bytes(found.of),)
    values = (found.before, found.after) if found.marks is None else found.marks
    fingerprint = _fingerprint(rule.id, *subject, path, *map(comparable_bytes, values), *what)
    places = () if found.at is None else (found.at,)
    values = found.before, found.after
    return Change(rule.id, level, rule.category, subject, path, *values, found.note, fingerprint, places=places)


def _fingerprint(*parts: str | bytes) -> str:
    """Twelve hex digits that stay the same across runs and rewordings."""
    encoded = (part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part for part in parts)
    return hashlib.sha256(b"".join(b"%d:%s" % (len(part), part) for part in encoded)).hexdigest()[:12]


def comparable_bytes(value: Any) -> bytes:
    """Bytes that are the same for equal values; empty for an absent one. 100 and 100.0 are one number."""
    if value is ABSENT:
        return b""
    written = jsontext.canonical_bytes(value)
    return jsontext.canonical_bytes(_convert_whole_floats(value)) if _FLOAT.search(written) else written


def _convert_whole_floats(value: Any) -> Any:
    """A value with whole floats as integers."""
    if isinstance(value, dict):
        return {name: _convert_whole_floats(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_convert_whole_floats(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
