"""The report as JUnit XML, for CI: a test case for each subject, and one for each change that several share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from typing import Any, NamedTuple

from ..judging import Comparison, OmittedRequest, UnknownPart
from . import wording
from .before_after import PLENTY
from .groups import ChangeGroup, describe_others, group_changes, group_title, shared_rows
from .wording import View, clip

_LONGEST = PLENTY.width  # long, since nobody can judge a cut value


class Case(NamedTuple):
    """A test case; `outcome`: failure, error, skipped, or empty. `line`: of the file."""

    kind: str
    name: str
    outcome: str
    inside: tuple[str, ...]
    file: str = ""
    line: int | None = None


class Suite(NamedTuple):
    """A test suite. `properties` hold further facts, `said` is its summary."""

    name: str
    cases: Sequence[Case]
    said: Sequence[str] = ()
    properties: Sequence[tuple[str, str]] = ()
    seconds: float = 0


_FINE = Case("mcp-tape", "no changes", "", ())


def report(comparisons: Sequence[Comparison], view: View) -> Iterator[str]:
    """A test suite for each."""
    names = (f"mcp-tape: {wording.versions(comparison)}" for comparison in comparisons)
    return document([Suite(name, cases(one, view), summary(one)) for name, one in zip(names, comparisons, strict=True)])


def document(suites: Sequence[Suite]) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f'<testsuites name="mcp-tape"{_count_attributes([case for suite in suites for case in suite.cases])}>'
    yield from (line for suite in suites for line in _suite(suite))
    yield "</testsuites>"


def cases(comparison: Comparison, view: View) -> list[Case]:
    """The test cases of a comparison; a single passing one if nothing changed."""
    unknown = [_unplayed_case("unknown", entry) for entry in comparison.unknown]
    skipped = [_unplayed_case("left out", entry) for entry in comparison.skipped]
    return [*([*unknown, *_subjects(comparison, view)] or [_FINE]), *skipped]


def _suite(suite: Suite) -> Iterator[str]:
    yield f'  <testsuite name="{escape(suite.name)}"{_count_attributes(suite.cases)} time="{suite.seconds:g}">'
    if suite.properties:
        yield "    <properties>"
        for name, value in suite.properties:
            yield f'      <property name="{escape(name)}" value="{escape(clip(value, _LONGEST))}"/>'
        yield "    </properties>"
    for case in suite.cases:
        yield from _case(case)
    yield f"    <system-out>{escape(chr(10).join(suite.said))}</system-out>"
    yield "  </testsuite>"


def _count_attributes(cases: Sequence[Case]) -> str:
    outcomes = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    numbers = {name: sum(case.outcome == outcome for case in cases) for name, outcome in outcomes.items()}
    return "".join(f' {name}="{number}"' for name, number in {"tests": len(cases), **numbers}.items())


def _case(case: Case) -> Iterator[str]:
    start = f'    <testcase classname="{escape(case.kind)}" name="{escape(case.name)}" time="0"'
    if case.file and case.line is not None:
        start += f' file="{escape(wording.visible(case.file))}" line="{case.line}"'
    if not case.inside:
        yield f"{start}/>"
        return
    yield f"{start}>"
    yield from case.inside
    yield "    </testcase>"


def _unplayed_case(kind: str, entry: UnknownPart | OmittedRequest) -> Case:
    if isinstance(entry, UnknownPart) and entry.grave:
        return plain_case(kind, entry.what, "error", entry.why, "unknown")
    return plain_case(kind, entry.what, "skipped", entry.why)


def plain_case(kind: str, name: str, outcome: str, message: str, type: str = "") -> Case:  # noqa: A002 - as JUnit calls it
    """A test case with a message and nothing else."""
    attribute = f' type="{escape(type)}"' if type else ""
    inside = f'      <{outcome}{attribute} message="{escape(clip(message, _LONGEST))}"/>'
    return Case(kind, clip(name, _LONGEST), outcome, (inside,))


def _subjects(comparison: Comparison, view: View) -> Iterator[Case]:
    failing = {change.fingerprint for change in comparison.at_least(view.fail_on)} if view.fail_on else set()
    groups = group_changes(comparison.changes)
    alone = sorted((group for group in groups if not group[1:]), key=lambda group: group[0].subject)
    for subject, same in groupby(alone, key=lambda group: group[0].subject):
        several = list(same)
        case = _judged_case(subject.kind, clip(subject.name, _LONGEST) or subject.kind, several, failing)
        yield case._replace(**_place(several[0], comparison))
    for group in groups:
        if group[1:]:
            name = " ".join(filter(None, (group_title(group), wording.place(group[0], _LONGEST))))
            yield _judged_case(group[0].rule, name, [group], failing)._replace(**_place(group, comparison))


def _place(group: ChangeGroup, comparison: Comparison) -> dict[str, Any]:
    """The line of a lock that a group is about."""
    return {"file": comparison.file, "line": comparison.lines.get(group[0].fingerprint)}


def _judged_case(kind: str, name: str, groups: list[ChangeGroup], failing: set[str]) -> Case:
    failed = [group for group in groups if group[0].fingerprint in failing]
    passed = [group for group in groups if group[0].fingerprint not in failing]
    inside = list(map(_failure, failed))
    if passed:
        inside.append(f"      <system-out>{escape(chr(10).join(map(_body, passed)))}</system-out>")
    return Case(kind, name, "failure" if failed else "", tuple(inside))


def _failure(group: ChangeGroup) -> str:
    change = group[0]
    said = wording.place(change, _LONGEST), clip(change.note, _LONGEST)
    message = escape(" ".join(filter(None, (f"[{change.rule}]", *said))))
    return f'      <failure type="{change.rule}" message="{message}">{escape(_body(group))}</failure>'


def _body(group: ChangeGroup) -> str:
    change = group[0]
    head = f"{change.level} [{change.rule}]  {wording.subject(change)}  {change.fingerprint}{wording.times(change)}"
    where = "   ".join(filter(None, (wording.place(change, _LONGEST), clip(change.note, _LONGEST))))
    same = (f"the same in {other}" for other in describe_others(group))
    return "\n".join(filter(None, (head, where, *map(str, shared_rows(group, PLENTY)), *same)))


def summary(comparison: Comparison) -> list[str]:
    return list(_summary(comparison))


def _summary(comparison: Comparison) -> Iterator[str]:
    yield f"{wording.headline(comparison)} ({wording.scope(comparison)})"
    if comparison.ignored:
        yield f"{wording.count(len(comparison.ignored), 'change')} ignored"
    yield from map(wording.describe_unused, comparison.unused)
