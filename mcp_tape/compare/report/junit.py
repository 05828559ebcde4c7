"""The report as JUnit's XML, for CI: a test case per subject, and one for each change that several of them share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from typing import NamedTuple

from ..judging import Comparison, LeftOut, Unknown
from . import wording
from .before_after import PLENTY, rows
from .groups import Group, grouped, others, title
from .wording import View, clip

_LONGEST = PLENTY.width  # a cut value cannot be judged


class _Case(NamedTuple):
    """A test case; `outcome`: failure, error, skipped, or empty."""

    kind: str
    name: str
    outcome: str
    inside: tuple[str, ...]


_FINE = _Case("mcp-tape", "no changes", "", ())


def report(comparisons: Sequence[Comparison], view: View) -> Iterator[str]:
    """A test suite for each."""
    suites = [(comparison, _cases(comparison, view)) for comparison in comparisons]
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f'<testsuites name="mcp-tape"{_counted([case for _, cases in suites for case in cases])}>'
    yield from (line for comparison, cases in suites for line in _suite(comparison, cases))
    yield "</testsuites>"


def _cases(comparison: Comparison, view: View) -> list[_Case]:
    unknown = [_unplayed("unknown", entry) for entry in comparison.unknown]
    skipped = [_unplayed("left out", entry) for entry in comparison.skipped]
    return [*([*unknown, *_subjects(comparison, view)] or [_FINE]), *skipped]


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


def _unplayed(kind: str, entry: Unknown | LeftOut) -> _Case:
    grave = isinstance(entry, Unknown) and entry.grave
    outcome, attribute = ("error", ' type="unknown"') if grave else ("skipped", "")
    inside = f'      <{outcome}{attribute} message="{escape(clip(entry.why, _LONGEST))}"/>'
    return _Case(kind, clip(entry.what, _LONGEST), outcome, (inside,))


def _subjects(comparison: Comparison, view: View) -> Iterator[_Case]:
    failing = {change.fingerprint for change in comparison.at_least(view.fail_on)} if view.fail_on else set()
    groups = grouped(comparison.changes)
    alone = sorted((group for group in groups if not group[1:]), key=lambda group: group[0].subject)
    for subject, several in groupby(alone, key=lambda group: group[0].subject):
        yield _judged(subject.kind, clip(subject.name, _LONGEST) or subject.kind, list(several), failing)
    for group in groups:
        if group[1:]:
            name = " ".join(filter(None, (title(group), wording.place(group[0], _LONGEST))))
            yield _judged(group[0].rule, name, [group], failing)


def _judged(kind: str, name: str, groups: list[Group], failing: set[str]) -> _Case:
    failed = [group for group in groups if group[0].fingerprint in failing]
    passed = [group for group in groups if group[0].fingerprint not in failing]
    inside = list(map(_failure, failed))
    if passed:
        inside.append(f"      <system-out>{escape(chr(10).join(map(_body, passed)))}</system-out>")
    return _Case(kind, name, "failure" if failed else "", tuple(inside))


def _failure(group: Group) -> str:
    change = group[0]
    said = wording.place(change, _LONGEST), clip(change.note, _LONGEST)
    message = escape(" ".join(filter(None, (f"[{change.rule}]", *said))))
    return f'      <failure type="{change.rule}" message="{message}">{escape(_body(group))}</failure>'


def _body(group: Group) -> str:
    change = group[0]
    head = f"{change.level} [{change.rule}]  {wording.subject(change)}  {change.fingerprint}{wording.times(change)}"
    where = "   ".join(filter(None, (wording.place(change, _LONGEST), clip(change.note, _LONGEST))))
    same = (f"the same in {other}" for other in others(group))
    return "\n".join(filter(None, (head, where, *map(str, rows(change, PLENTY)), *same)))


def _summary(comparison: Comparison) -> Iterator[str]:
    yield f"{wording.headline(comparison)} ({wording.scope(comparison)})"
    if comparison.ignored:
        yield f"{wording.count(len(comparison.ignored), 'change')} ignored"
    yield from map(wording.unused, comparison.unused)
