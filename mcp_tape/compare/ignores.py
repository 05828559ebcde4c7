"""Changes that were looked at and accepted: the lines of `.mcp-tape-ignore`.

A line hides one change by its fingerprint, a rule's changes of a subject (`tool-removed tool list_labels`; `*` is any
text), or what lies at or below a place (`$.inputSchema..title`, perhaps of one subject only). ` #` starts a reason.
Knows no files: a project reads and writes them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

from ..errors import SettingsError
from ..wire.jsonpath import compile_path, read_path
from .changes import Change
from .rules import RULES

HEADER = "# Changes that mcp-tape does not report: a fingerprint, a rule and a subject, or a JSONPath. Then why.\n"
_FINGERPRINT = re.compile(r"[0-9a-f]{12}")
# A JSONPath ends at white space, but not at that in quotes.
_PLACE = re.compile(r"""\$(?:\[(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]|[^\s])*""")
_REASON = re.compile(r"(^|\s)#.*", re.S)
_Hides = Callable[[Change], bool]
_read_path = lru_cache(maxsize=1024)(read_path)


class Line(NamedTuple):
    """One line that hides something, without its reason."""

    text: str
    number: int
    hides: _Hides


class Ignores(NamedTuple):
    """What a project has accepted."""

    lines: tuple[Line, ...]

    def hide(self, change: Change) -> bool:
        return any(line.hides(change) for line in self.lines)

    def unused(self, changes: tuple[Change, ...]) -> tuple[str, ...]:
        """The lines that fit none of these changes: what they accepted is gone or has changed again."""
        return tuple(line.text for line in self.lines if not any(line.hides(change) for change in changes))


def parse(text: str, path: str) -> Ignores:
    """The lines of an ignore file; SettingsError for one that can mean nothing."""
    lines = []
    for number, source in enumerate(text.split("\n"), 1):
        meant = _without_reason(source.strip())
        if meant:
            try:
                lines.append(Line(meant, number, _hides(meant)))
            except ValueError as error:
                raise SettingsError(f"{path}, line {number}: {error}") from None
    return Ignores(tuple(lines))


def line_for(change: Change) -> str:
    """The line that hides what changes at this place of this subject; at no place, the rule's changes of it.

    A name that cannot stand in a line is a stranger's trick or an accident: then only this one change is hidden.
    """
    subject = str(change.subject)
    if not subject.isprintable() or _REASON.search(subject) or subject != " ".join(subject.split()):
        return change.fingerprint
    return f"{change.rule if change.path == '$' else change.path} {subject.replace('*', '[*]')}"


def added(text: str, lines: Iterable[tuple[str, str]]) -> str:
    """What to append to an ignore file for lines, each with its reason; nothing for those that it has."""
    known = {_without_reason(line.strip()) for line in text.split("\n")}
    new = {line: why for line, why in lines if line not in known}
    if not new:
        return ""
    end = "\r\n" if "\r\n" in text else "\n"
    start = HEADER if not text else "" if text.endswith("\n") else end
    return start + "".join(
        f"{line}  # {' '.join(why.split())}{end}" if why else line + end for line, why in new.items()
    )


def _without_reason(line: str) -> str:
    place = _PLACE.match(line)
    at = place.end() if place else 0
    return line[:at] + _REASON.sub("", line[at:]).rstrip()


def _hides(meant: str) -> _Hides:
    if _FINGERPRINT.fullmatch(meant):
        return lambda change: change.fingerprint == meant
    place = _PLACE.match(meant)
    return _at(place[0], meant[place.end() :].strip()) if place else _by_rule(*_two(meant))


def _two(meant: str) -> tuple[str, str]:
    rule, *subject = meant.split(None, 1)
    return rule, "".join(subject)


def _by_rule(rule: str, subject: str) -> _Hides:
    if rule not in RULES:
        raise ValueError(_no_rule(rule))
    if not subject:
        raise ValueError(f"{rule} needs a subject, as in: {rule} tool list_labels\nFor all subjects: {rule} *")
    fits = _glob(subject)
    return lambda change: change.rule == rule and fits(str(change.subject))


def _no_rule(word: str) -> str:
    if re.fullmatch(r"[0-9A-Fa-f]{6,}", word):
        return f"a fingerprint has 12 small hex digits, and {word!r} has {len(word)} characters"
    near = difflib.get_close_matches(word, RULES, 1)
    return (
        f"{word!r} is no rule{f'; did you mean {near[0]}?' if near else ''}\n"
        "A line is a fingerprint, a rule and a subject (tool-removed tool list_labels) or a JSONPath; "
        "the rules: mcp-tape rules"
    )


def _at(place: str, subject: str) -> _Hides:
    """What lies at or below a place, perhaps only of the subjects that fit."""
    lies = compile_path(place)
    fits = _glob(subject or "*")

    def hides(change: Change) -> bool:
        return lies.covers(_read_path(change.path)) and fits(str(change.subject))

    return hides


def _glob(pattern: str) -> Callable[[str], bool]:
    """Only `*` is any text, and `[*]` a star: names and URIs are full of the other signs that shells know."""
    parts = re.split(r"(\[\*\]|\*)", pattern)
    known = {"*": ".*", "[*]": r"\*"}
    wanted = re.compile("".join(known.get(part) or re.escape(part) for part in parts), re.S)
    return lambda subject: wanted.fullmatch(subject) is not None
