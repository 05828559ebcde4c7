"""Results as JUnit's XML: a test suite for each cassette, which says what `merging` needs to know of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from ...cassette.query.check import Finding
from ...compare.report.junit import Case, Suite, cases, document, plain, summary
from ...compare.report.wording import View, visible
from .results import WRONG, Result, comparisons_of

PROPERTIES = ("row", "command", "cassette", "hash", "shard", "of", "status", "code")  # of a row
PREFIX = "mcp-tape."


def report(results: Sequence[tuple[Result, dict[str, Any]]], view: View) -> Iterator[str]:
    """A document of results, each with its row."""
    return document([_suite(result, row, view) for result, row in results])


def _suite(result: Result, row: dict[str, Any], view: View) -> Suite:
    known = [(PREFIX + name, str(row[name])) for name in PROPERTIES if row[name] is not None]
    name = f"mcp-tape {result.command}: {result.cassette}"
    if result.command in ("verify", "diff", "breaking"):
        comparisons = comparisons_of(result)
        found = [case for one in comparisons for case in cases(one, view)]
        said = [line for one in comparisons for line in summary(one)]
    else:
        found = list(map(_case, result.findings)) or [Case("mcp-tape", "no findings", "", ())]
        said = [", ".join(f"{number} {thing}" for thing, number in result.counts.items())]
    return Suite(name, found, said, known, result.seconds)


def _case(finding: Finding) -> Case:
    place = (("session", finding.session), ("frame", finding.seq), ("", finding.path))
    name = " ".join(f"{noun} {value}".strip() for noun, value in place if value is not None) or "the cassette"
    if finding.level == "info":
        text = escape(visible(finding.message))
        return Case(finding.what, name, "", (f"      <system-out>{text}</system-out>",))
    outcome = "error" if finding.what in WRONG else "failure"
    return plain(finding.what, name, outcome, finding.message, finding.what)
