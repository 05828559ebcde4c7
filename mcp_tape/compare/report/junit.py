"""The report as JUnit's XML, for CI: a test case per subject."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from typing import NamedTuple

from ..changes import Change
from ..judging import Comparison, LeftOut, Unknown
from . import wording
from .before_after import Cut, rows
from .wording import View, clip

_CUT = Cut(40, 400)
_LONGEST = 1000


class _Case(NamedTuple):
    """A test case; `outcome`: failure, error, skipped, or empty."""

    kind: str
    name: str
    outcome: str
    inside: tuple[str, ...]


_FINE = _Case("mcp-tape", "no changes", "", ())


def render_all(comparisons: Sequence[Comparison], view: View) -> str:
    """A test suite for each."""
    suites = [(comparison, _cases(comparison, view)) for comparison in comparisons]
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="mcp-tape"{_counted([case for _, cases in suites for case in cases])}>',
        *(line for comparison, cases in suites for line in _suite(comparison, cases)),
        "</testsuites>",
    ]
    return "".join(f"{line}\n" for line in lines)


def _cases(comparison: Comparison, view: View) -> list[_Case]:
    known = [*map(_unknown, comparison.unknown), *_subjects(comparison, view)] or [_FINE]
    return [*known, *map(_skipped, comparison.skipped)]


def _suite(comparison: Comparison, cases: list[_Case]) -> Iterator[str]:
    name = escape(f"mcp-tape: {wording.versions(comparison)}")
    yield f'  <testsuite name="{name}"{_counted(cases)} time="0">'
    for case in cases:
        yield from _case(case)
    yield f"    <system-out>{escape(chr(10).join(_summary(comparison)))}</system-out>"
    yield "  </testsuite>"


def _counted(cases: list[_Case]) -> str:
    outcomes = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    numbers = {name: sum(case.outcome == outcome for case in cases) for name, outcome in outcomes.items()}
    return "".join(f' {name}="{number}"' for name, number in {"tests": len(cases), **numbers}.items())


def _case(case: _Case) -> Iterator[str]:
    start = f'    <testcase classname="{escape(case.kind)}" name="{escape(case.name)}" time="0"'
    if not case.inside:
        yield f"{start}/>"
        return
    yield f"{start}>"
    yield from case.inside
    yield "    </testcase>"


def _unknown(entry: Unknown) -> _Case:
    outcome = "error" if entry.grave else "skipped"
    why = escape(clip(entry.why, _LONGEST))
    kind = ' type="unknown"' if entry.grave else ""
    return _Case("unknown", clip(entry.what, _LONGEST), outcome, (f'      <{outcome}{kind} message="{why}"/>',))


def _skipped(entry: LeftOut) -> _Case:
    why = escape(clip(entry.why, _LONGEST))
    return _Case("left out", clip(entry.what, _LONGEST), "skipped", (f'      <skipped message="{why}"/>',))


def _subjects(comparison: Comparison, view: View) -> Iterator[_Case]:
    failing = _failing(comparison, view)
    changes = sorted(comparison.changes, key=lambda change: change.subject)
    for subject, group in groupby(changes, key=lambda change: change.subject):
        mine = list(group)
        failed = [change for change in mine if change.fingerprint in failing]
        passed = [change for change in mine if change.fingerprint not in failing]
        inside = [*map(_failure, failed), *(_output(passed) if passed else ())]
        name = clip(subject.name, _LONGEST) or subject.kind
        yield _Case(subject.kind, name, "failure" if failed else "", tuple(inside))


def _failing(comparison: Comparison, view: View) -> set[str]:
    return {change.fingerprint for change in comparison.at_least(view.fail_on)} if view.fail_on else set()


def _failure(change: Change) -> str:
    said = wording.place(change, _LONGEST), clip(change.note, _LONGEST)
    message = escape(" ".join(filter(None, (f"[{change.rule}]", *said))))
    return f'      <failure type="{change.rule}" message="{message}">{escape(_body(change))}</failure>'


def _output(changes: list[Change]) -> Iterator[str]:
    yield f"      <system-out>{escape(chr(10).join(map(_body, changes)))}</system-out>"


def _body(change: Change) -> str:
    head = f"{change.level} [{change.rule}]  {wording.subject(change)}  {change.fingerprint}{wording.times(change)}"
    where = "   ".join(filter(None, (wording.place(change, _LONGEST), clip(change.note, _LONGEST))))
    return "\n".join(filter(None, (head, where, *map(str, rows(change, _CUT)))))


def _summary(comparison: Comparison) -> Iterator[str]:
    yield f"{wording.headline(comparison)} ({wording.scope(comparison)})"
    if comparison.ignored:
        yield f"{wording.count(len(comparison.ignored), 'change')} ignored"
    yield from map(wording.unused, comparison.unused)
