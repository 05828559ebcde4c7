"""The report as workflow commands of GitHub Actions, which become annotations.

https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

from collections.abc import Iterator

from ..judging import Comparison, UnknownPart
from . import wording
from .before_after import PLENTY
from .groups import ChangeGroup, describe_others, group_changes, group_title, line_to_accept, shared_rows
from .wording import View, clip

_COMMANDS = {"error": "error", "warn": "warning", "info": "notice"}
_ORDER = ("::err", "::war", "::not")
_LONGEST = PLENTY.width  # long, since nobody can judge a cut value


def report(comparison: Comparison, view: View) -> list[str]:
    """Commands, the worst first. GitHub shows ten of a kind, so the summary comes before all other notices."""
    summary = _command("notice", wording.headline(comparison), "\n".join(_summary(comparison, view)), view)
    lines = [*(_unknown(entry, view) for entry in comparison.unknown), summary]
    places = comparison.lines
    lines += [_annotation(group, view, places.get(group[0].fingerprint)) for group in group_changes(comparison.changes)]
    return sorted(lines, key=lambda line: _ORDER.index(line[:5]))


def _unknown(entry: UnknownPart, view: View) -> str:
    title = f"unknown: {clip(entry.what, _LONGEST)}"
    return _command("error" if entry.grave else "warning", title, clip(entry.why, _LONGEST), view)


def _annotation(group: ChangeGroup, view: View, line: int | None) -> str:
    change = group[0]
    headline = f"{change.rule}: {group_title(group)}{wording.times(change)}"
    where = ": ".join(filter(None, (wording.place(change, _LONGEST), clip(change.note, _LONGEST))))
    accept = f"Accept it: echo {line_to_accept(group)} >> {view.ignore_file}" if wording.may_be_accepted(change) else ""
    said = [
        where,
        *map(str, shared_rows(group, PLENTY)),
        *(f"The same in {other}" for other in describe_others(group)),
        accept,
    ]
    return _command(_COMMANDS[change.level], headline, "\n".join(filter(None, said)), view, line)


def _summary(comparison: Comparison, view: View) -> Iterator[str]:
    yield f"{wording.versions(comparison)} ({wording.scope(comparison)})"
    if comparison.ignored:
        yield f"{view.ignore_file}: {wording.count(len(comparison.ignored), 'change')} ignored"
    yield from map(wording.describe_unused, comparison.unused)


def _command(command: str, title: str, message: str, view: View, line: int | None = None) -> str:
    file = f",file={_property(wording.visible(view.file))}" if view.file else ""
    file += f",line={line}" if view.file and line else ""
    return f"::{command} title={_property(title)}{file}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
