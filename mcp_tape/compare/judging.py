"""What two versions of a server differ in: all changes, in order, as the settings want them seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..wire.jsonpath import JsonPath, compile_path
from ..wire.jsontext import Path
from .changes import ABSENT, Change, Difference, Subject, change
from .ignores import Ignores
from .rules import LEVELS, RULES, Category, Level, risen

Found = tuple[Subject, Difference]


class Settings(NamedTuple):
    """How changes are judged: the category, levels of rules as a project wants them, and what is left out."""

    category: Category = "call"
    levels: Mapping[str, Level | None] = {}  # None: not at all
    ignores: Ignores = Ignores(())
    ignore_paths: tuple[str, ...] = ()
    slower_than: float | None = None


class Unknown(NamedTuple):
    """What could not be compared, and why. `grave`: no gate may call it compatible."""

    what: str
    why: str
    grave: bool

    @property
    def is_new(self) -> bool:
        """Whether it was known of the old side."""
        return self.why.startswith("NEW")


class LeftOut(NamedTuple):
    """A request that was not made at the live server, and why."""

    what: str
    why: str


class Comparison(NamedTuple):
    """The changes from one version to another, the worst first, and what else must be told."""

    old: str  # name and version of the server, or where it was read from
    new: str
    category: Category
    changes: tuple[Change, ...]
    unknown: tuple[Unknown, ...] = ()
    ignored: tuple[Change, ...] = ()
    unused: tuple[str, ...] = ()  # lines of the ignore file that fit nothing
    compared: Mapping[str, int] = {}  # how much: tools, resources, prompts, calls
    cassette: str = ""  # and the session, where several were verified: `tape.db#3`
    skipped: tuple[LeftOut, ...] = ()  # where it was verified

    def count(self, level: Level) -> int:
        return sum(change.level == level for change in self.changes)

    def at_least(self, level: Level) -> tuple[Change, ...]:
        """The changes at a level or above."""
        return tuple(change for change in self.changes if LEVELS.index(change.level) <= LEVELS.index(level))

    def as_dict(self) -> dict[str, Any]:
        """For JSON, as `docs/diff-json.md` describes it."""
        return {
            "version": 1,
            "old": self.old,
            "new": self.new,
            "category": self.category,
            "counts": {level: self.count(level) for level in LEVELS},
            "compared": dict(self.compared),
            "unknown": [entry._asdict() for entry in self.unknown],
            "changes": [change.as_dict() for change in self.changes],
            "ignored": [change.as_dict() for change in self.ignored],
            "unused_ignores": list(self.unused),
        } | (self._played() if self.cassette else {})

    def _played(self) -> dict[str, Any]:
        return {"cassette": self.cassette, "skipped": [entry._asdict() for entry in self.skipped]}


def judged(found: Iterable[Found], settings: Settings) -> tuple[tuple[Change, ...], tuple[Change, ...]]:
    """The changes that count, and those that are ignored; each kind sorted, the same one counted and not repeated."""
    left_out = [compile_path(source) for source in settings.ignore_paths]
    merged: dict[str, Change] = {}
    for subject, difference in found:
        if any(_at(leave, difference.path) for leave in left_out):
            continue
        level = _level(difference, settings)
        if level is not None:
            one = change(subject, difference._replace(level=level))
            before = merged.get(one.fingerprint)
            merged[one.fingerprint] = before._replace(times=before.times + 1) if before else one
    kept = sorted(merged.values(), key=_rank)
    return (
        tuple(one for one in kept if not settings.ignores.hide(one)),
        tuple(one for one in kept if settings.ignores.hide(one)),
    )


def _at(leave: JsonPath, path: Path) -> bool:
    """Whether a path lies at or below a place that is left out; `$` is no place, or nothing would be left."""
    return leave.covers(path) and not leave(())


def _level(difference: Difference, settings: Settings) -> Level | None:
    rule = RULES[difference.rule]
    if settings.category == "wire" and rule.category != "wire":
        return None
    if rule.id in settings.levels:
        return settings.levels[rule.id]
    level = difference.level or rule.level
    return risen(level) if settings.category == "model" and rule.rises else level


_KINDS = ("server", "tool", "resource", "template", "prompt", "call")


def _rank(one: Change) -> tuple[Any, ...]:
    """The worst first, subjects together."""
    kind = _KINDS.index(one.subject.kind)
    return LEVELS.index(one.level), kind, one.subject.name, one.path, one.rule, one.fingerprint


def present(value: Any) -> bool:
    return value is not ABSENT
