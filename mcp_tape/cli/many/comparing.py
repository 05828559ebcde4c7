"""Results of comparisons, printed in the format asked for: of diff, breaking and verify, over one cassette or many."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

import click

from ...compare.report.wording import View
from ...compare.rules import LEVELS
from ...console import say
from ...console.terminal import echo_json
from ...fleet.many.junit import report as junit
from ...fleet.many.results import Result, comparisons_of
from ..compare import ComparisonOptions, show, unused_in_all
from .running import Found, Row

if TYPE_CHECKING:
    from ...compare.judging import Comparison
    from ...compare.rules import Level
    from ...diff.project import Project

Verdict = Callable[["Comparison"], str]


def report(
    found: Found,
    project: Project,
    options: ComparisonOptions,
    *,
    alone: bool,
    names: bool = True,
    file: str | None = None,
    verdict: Verdict | None = None,
    page: Callable[[], bytes | None] = lambda: None,
) -> list[Result]:
    """Print results: for people at once, rows, too, and all else together.

    `alone`: there is one cassette; `names`: its report says which. `file`, `verdict` and `page`: as `show` takes them.
    """
    form, done = options.format, list[tuple[Result, Row]]()
    with closing(found):  # whoever reads our output may leave early
        for result, row in found:
            shown = result if names else _unnamed(result)
            if form == "text":
                _show(shown, alone, project, options, file, verdict)
            elif form == "json":
                echo_json(_at_least(options.level, result, row))
            for note in result.notes:
                say(note)
            done.append((shown, row))
    results = [result for result, _ in done]
    comparisons = [comparison for result in results for comparison in result.comparisons]
    if form == "text" and len(comparisons) > 1 and (lines := unused_in_all(comparisons)):
        say(f"unused in {os.path.relpath(project.ignore_path)}, by all of these: {', '.join(lines)}")
    elif form == "junit":
        view = View(fail_on=None if project.fail_on == "never" else project.fail_on)
        click.echo("".join(f"{line}\n" for line in junit(done, view)), nl=False)
    elif done and form not in ("text", "json"):
        show([one for result in results for one in comparisons_of(result)], project, options, file, verdict, page())
    return results


def _at_least(level: Level | None, result: Result, row: Row) -> Row:
    """A row without lesser changes; its counts and its status are those of all."""
    if level is None:
        return row
    comparisons = [one._replace(changes=one.at_least(level)).as_dict() for one in result.comparisons]
    least = LEVELS.index(level)
    findings = [found._asdict() for found in result.findings if LEVELS.index(found.level) <= least]
    return row | {"findings": findings} | ({"comparisons": comparisons} if comparisons else {})


def _show(
    result: Result, alone: bool, project: Project, options: ComparisonOptions, file: str | None, verdict: Verdict | None
) -> None:
    alone = alone and len(result.comparisons) == 1
    for comparison in result.comparisons:
        show(comparison if alone else comparison._replace(unused=()), project, options, file, verdict)


def _unnamed(result: Result) -> Result:
    """The result of the only pair, whose report needs no name to tell it from others."""
    return result._replace(comparisons=tuple(one._replace(cassette="") for one in result.comparisons))
