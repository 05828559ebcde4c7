"""Judging: from the differences of two versions to the changes that count.

The checks report differences, and may at most mark one as milder than its rule. Everything else is decided here, in
this order:

1. A difference at an ignored path is dropped. Category `wire` keeps only the protocol's own rules, and category
`security` only suspicions and new text.
2. The level is the project's level for the rule, else the difference's own, else the rule's. Some rules rise by one
level in category `model`; in `security` every rule is an error.
3. Identical changes, by fingerprint, are counted instead of repeated.
4. The ignore file separates accepted changes from reported ones. A fingerprint contains none of our own wording, so
accepted changes stay accepted when a report is reworded; the next change at an accepted place is reported again.

A line of `.mcp-tape-ignore` hides changes by their fingerprints, a rule's changes of a subject
(`tool-removed tool list_labels`; `*` is any text), or changes at or below a place (`$.inputSchema..title`, perhaps
of one subject only). ` #` starts a reason.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from ..errors import SettingsError
from ..model.texts import is_prose, strings, subschemas, texts
from ..wire.jsonpath import JsonPath, read_path
from ..wire.jsontext import Path
from .align import Alignment
from .changes import ABSENT, Change, Difference, Subject, SubjectDifference, change
from .rule_table import LEVELS, MAY_BRING_TEXT, NEW_TEXTS, RULES, SUSPICIONS, Category, Level, raise_level

_KINDS = ("server", "tool", "resource", "template", "prompt", "skill", "call")
IGNORE_HEADER = (
    "# Changes that mcp-tape does not report: a fingerprint, a rule and a subject, or a JSONPath. Then why.\n"
)
_VALUES = ("enum", "const", "pattern")
_FINGERPRINT = re.compile(r"[0-9a-f]{12}")
# A JSONPath ends at white space outside of quotes.
_PLACE = re.compile(r"""\$(?:\[(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]|[^\s])*""")
_REASON = re.compile(r"(^|\s)#.*", re.S)
_Hides = Callable[[Change], bool]
_read_path = lru_cache(maxsize=1024)(read_path)


class IgnoreLine(NamedTuple):
    """One line of the ignore file, without its reason."""

    text: str
    number: int
    hides: _Hides


class Ignores(NamedTuple):
    """The changes that a project has accepted."""

    lines: tuple[IgnoreLine, ...]

    def hides(self, change: Change) -> bool:
        return any(line.hides(change) for line in self.lines)

    def unused_lines(self, changes: tuple[Change, ...]) -> tuple[str, ...]:
        """The lines that match none of these changes: the accepted change is gone, or has changed again."""
        return tuple(line.text for line in self.lines if not any(line.hides(change) for change in changes))


class JudgingSettings(NamedTuple):
    """Settings of a judgement: the category, the project's levels of rules, and its ignores."""

    category: Category = "call"
    levels: Mapping[str, Level | None] = {}  # None: off
    ignores: Ignores = Ignores(())
    ignore_paths: tuple[str, ...] = ()
    slower_than: float | None = None


class UnknownPart(NamedTuple):
    """A part that could not be compared, and why. `grave`: a gate must not call it compatible."""

    what: str
    why: str
    grave: bool

    @property
    def is_new(self) -> bool:
        """True if the old side was known."""
        return self.why.startswith("NEW")


class OmittedRequest(NamedTuple):
    """A request that was not made at the live server, and why."""

    what: str
    why: str


class Comparison(NamedTuple):
    """The changes from one version to another, the worst first, and everything else for a report."""

    old: str  # name and version of the server, or its source
    new: str
    category: Category
    changes: tuple[Change, ...]
    unknown: tuple[UnknownPart, ...] = ()
    ignored: tuple[Change, ...] = ()
    unused: tuple[str, ...] = ()  # lines of the ignore file that match nothing
    compared: Mapping[str, int] = {}  # the number of tools, resources, prompts and calls
    cassette: str = ""  # with the session, if several were verified: `tape.db#3`
    skipped: tuple[OmittedRequest, ...] = ()  # only from `verify`
    alignment: Alignment | None = None  # of the calls, if both sides were recorded
    file: str = ""  # to point at: a lock, or the cassette that a live server is compared with
    lines: Mapping[str, int] = {}  # in a lock, by fingerprint
    definitions: Mapping[Subject, tuple[Any, Any]] = {}  # of the changed things that both have: before, after

    def count(self, level: Level) -> int:
        return sum(change.level == level for change in self.changes)

    def at_least(self, level: Level) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if LEVELS.index(change.level) <= LEVELS.index(level))

    def as_dict(self) -> dict[str, Any]:
        """The comparison as JSON; see `docs/diff-json.md`."""
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
        } | ({"cassette": self.cassette, "skipped": [one._asdict() for one in self.skipped]} if self.cassette else {})


def judge(
    found: Iterable[SubjectDifference], settings: JudgingSettings
) -> tuple[tuple[Change, ...], tuple[Change, ...]]:
    """Return the changes that count and those that are ignored, both sorted, each change once."""
    left_out = [JsonPath(source) for source in settings.ignore_paths]
    merged: dict[str, Change] = {}
    for subject, difference in found:
        if any(_is_ignored_at(leave, difference.path) for leave in left_out):
            continue
        level = _level(difference, settings)
        if level is not None:
            one = change(subject, difference._replace(level=level))
            before = merged.get(one.fingerprint)
            merged[one.fingerprint] = before.add_occurrence(one) if before else one
    kept = sorted(merged.values(), key=_rank)
    shown, hidden = (tuple(one for one in kept if settings.ignores.hides(one) is ignored) for ignored in (False, True))
    return shown, hidden


def _is_ignored_at(leave: JsonPath, path: Path) -> bool:
    """True if a path is at or below an ignored place. `$` alone is ignored, or nothing would be left."""
    return leave.covers(path) and not leave(())


def _level(difference: Difference, settings: JudgingSettings) -> Level | None:
    rule = RULES[difference.rule]
    if settings.category == "wire" and rule.category != "wire":
        return None
    if settings.category == "security" and not _is_suspicious(difference):
        return None
    if rule.id in settings.levels:
        return settings.levels[rule.id]
    if settings.category == "security":
        return "error"
    level = difference.level or rule.level
    return raise_level(level) if settings.category == "model" and rule.rises else level


def _is_suspicious(difference: Difference) -> bool:
    """True for a suspicion, and for new text."""
    if difference.rule in MAY_BRING_TEXT:
        return _has_text(difference.after)
    return difference.rule in SUSPICIONS or (difference.rule in NEW_TEXTS and difference.after is not ABSENT)


def _has_text(value: Any) -> bool:
    """Return whether a schema, or a value in a schema, contains prose."""
    if isinstance(value, list):
        return any(map(_has_text, value))
    if not isinstance(value, dict):
        return isinstance(value, str)
    values = (one[keyword] for _, one in subschemas(value) for keyword in _VALUES if keyword in one)
    prose = any(is_prose(text) for _, text in strings(value))
    return prose or any(texts(value)) or any(map(_has_text, values))


def _rank(one: Change) -> tuple[Any, ...]:
    """Sort key: the worst first, then removals, then by subject."""
    kind = _KINDS.index(one.subject.kind)
    gone = one.is_removal or one.rule == "tool-renamed"
    return LEVELS.index(one.level), not gone, kind, one.subject.name, one.path, one.rule, one.fingerprint


# -- the ignore file


def parse_ignores(text: str, path: str) -> Ignores:
    """Parse an ignore file; SettingsError for an invalid line."""
    lines = []
    for number, source in enumerate(text.split("\n"), 1):
        meant = _without_reason(source.strip())
        if meant:
            try:
                lines.append(IgnoreLine(meant, number, _compile_line(meant)))
            except ValueError as error:
                raise SettingsError(f"{path}, line {number}: {error}") from None
    return Ignores(tuple(lines))


def ignore_line(change: Change) -> str:
    """Return the line that hides changes at this place of this subject; without a place, the rule's changes.

    A name that cannot be written in such a line is an accident or a trick: then only this one change is hidden.
    """
    subject = str(change.subject)
    if not subject.isprintable() or _REASON.search(subject) or subject != " ".join(subject.split()):
        return change.fingerprint
    return f"{change.rule if change.path == '$' else change.path} {subject.replace('*', '[*]')}"


def added_lines(text: str, lines: Iterable[tuple[str, str]]) -> str:
    """Return the text that adds lines, each with its reason, to an ignore file; existing lines are skipped."""
    known = {_without_reason(line.strip()) for line in text.split("\n")}
    new = {line: why for line, why in lines if line not in known}
    if not new:
        return ""
    end = "\r\n" if "\r\n" in text else "\n"
    start = IGNORE_HEADER if not text else "" if text.endswith("\n") else end
    return start + "".join(
        f"{line}  # {' '.join(why.split())}{end}" if why else line + end for line, why in new.items()
    )


def _without_reason(line: str) -> str:
    place = _PLACE.match(line)
    at = place.end() if place else 0
    return line[:at] + _REASON.sub("", line[at:]).rstrip()


def _compile_line(meant: str) -> _Hides:
    words = meant.split()
    if all(map(_FINGERPRINT.fullmatch, words)):
        return lambda change: change.fingerprint in words
    if _FINGERPRINT.fullmatch(words[0]):
        wrong = next(word for word in words if not _FINGERPRINT.fullmatch(word))
        raise ValueError(
            f"{wrong!r} is not a fingerprint, and only fingerprints may follow one; a reason begins with #"
        )
    if place := _PLACE.match(meant):
        return _compile_place(place[0], meant[place.end() :].strip())
    rule, *subject = meant.split(None, 1)
    return _compile_rule(rule, "".join(subject))


def _compile_rule(rule: str, subject: str) -> _Hides:
    if rule not in RULES:
        raise ValueError(_unknown_rule_message(rule))
    if not subject:
        raise ValueError(f"{rule} needs a subject, as in: {rule} tool list_labels\nFor all subjects: {rule} *")
    fits = _glob(subject)
    return lambda change: change.rule == rule and fits(str(change.subject))


def _unknown_rule_message(word: str) -> str:
    if re.fullmatch(r"[0-9A-Fa-f]{6,}", word):
        return f"a fingerprint has 12 small hex digits, and {word!r} has {len(word)} characters"
    near = difflib.get_close_matches(word, RULES, 1)
    return (
        f"{word!r} is not a rule{f'; did you mean {near[0]}?' if near else ''}\n"
        "A line is a fingerprint, a rule and a subject (tool-removed tool list_labels) or a JSONPath; "
        "the rules: mcp-tape diff --rules"
    )


def _compile_place(place: str, subject: str) -> _Hides:
    """Match changes at or below a place; with a subject, only those of matching subjects."""
    lies, fits = JsonPath(place), _glob(subject or "*")
    return lambda change: lies.covers(_read_path(change.path)) and fits(str(change.subject))


def _glob(pattern: str) -> Callable[[str], bool]:
    """Compile a pattern. Only `*` (any text) and `[*]` (a star) are special: shell wildcards are common in URIs."""
    parts = re.split(r"(\[\*\]|\*)", pattern)
    known = {"*": ".*", "[*]": r"\*"}
    wanted = re.compile("".join(known.get(part) or re.escape(part) for part in parts), re.S)
    return lambda subject: wanted.fullmatch(subject) is not None
