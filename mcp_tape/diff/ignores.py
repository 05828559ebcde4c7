"""Changes that were looked at and accepted: `.mcp-tape-ignore`.

A line is a fingerprint, or a rule and a subject (`tool-removed tool list_labels`; `*` is any); `#` starts a reason.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import NamedTuple

from ..errors import TapeError
from .changes import Change
from .rules import RULES

_FINGERPRINT = re.compile(r"[0-9a-f]{12}")


class Line(NamedTuple):
    """One line that hides something."""

    text: str
    number: int

    def hides(self, change: Change) -> bool:
        if _FINGERPRINT.fullmatch(self.text):
            return change.fingerprint == self.text
        rule, _, subject = self.text.partition(" ")
        return change.rule == rule and fnmatchcase(str(change.subject), subject.strip())


class Ignores(NamedTuple):
    """What a project has accepted."""

    lines: tuple[Line, ...]

    def hide(self, change: Change) -> bool:
        return any(line.hides(change) for line in self.lines)

    def unused(self, changes: tuple[Change, ...]) -> tuple[str, ...]:
        """The lines that fit none of these changes: what they accepted is gone or has changed again."""
        return tuple(line.text for line in self.lines if not any(line.hides(change) for change in changes))


def parse(text: str, path: str) -> Ignores:
    """The lines of an ignore file; TapeError for one that can mean nothing."""
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        meant = " ".join(re.sub(r"(^|\s)#.*", "", line).split())
        if not meant:
            continue
        rule, _, subject = meant.partition(" ")
        if not _FINGERPRINT.fullmatch(meant) and (rule not in RULES or not subject):
            raise TapeError(
                f"{path}, line {number}: {meant!r} is neither a fingerprint (12 hex digits) nor a rule and a subject, "
                "as in: tool-removed tool list_labels\nThe rules: mcp-tape rules"
            )
        lines.append(Line(meant, number))
    return Ignores(tuple(lines))
