"""Results of verify and diff, printed: comparisons in the format asked for, rows, and what is for people."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from ...compare.report.wording import View
from ...console import say
from ...console.terminal import echo_json
from ...fleet.many.junit import report as junit
from ...fleet.many.results import Result, comparisons_of
from ..compare import is_json, show, unused_in_all
from .running import Found, Row

if TYPE_CHECKING:
    from ...diff.project import Project


def report(
    found: Found,
    number: int,
    project: Project,
    given: dict[str, Any],
    file: str | None = None,
    page: bytes | None = None,
) -> list[Result]:
    """Print results: for people at once, rows, too, and all else together. `number`: of cassettes.

    `file` and `page`: as `show` takes them.
    """
    form, done = "json" if is_json(given) else given["form"], list[tuple[Result, Row]]()
    with closing(found):  # whoever reads our output may leave early
        for result, row in found:
            if form == "text":
                _show(result, number == 1, project, given, file)
            elif form == "json" and row:
                echo_json(row)
                result = result._replace(comparisons=())
            for note in result.notes:
                say(note)
            done.append((result, row))
    _end(done, form, project, given, file, page)
    return [result for result, _ in done]


def _show(result: Result, alone: bool, project: Project, given: dict[str, Any], file: str | None) -> None:
    alone = alone and len(result.comparisons) == 1
    for comparison in result.comparisons:
        show(comparison if alone else comparison._replace(unused=()), project, given, file)


def _end(
    done: list[tuple[Result, Row]],
    form: str,
    project: Project,
    given: dict[str, Any],
    file: str | None,
    page: bytes | None,
) -> None:
    """Print what is about all of them."""
    comparisons = [comparison for result, _ in done for comparison in result.comparisons]
    has_rows = any(row for _, row in done)
    if form == "text":
        if len(comparisons) > 1 and (lines := unused_in_all(comparisons)):
            say(f"unused in {os.path.relpath(project.ignore_path)}, by all of these: {', '.join(lines)}")
    elif form == "junit" and has_rows:
        view = View(fail_on=None if project.fail_on == "never" else project.fail_on)
        click.echo("".join(f"{line}\n" for line in junit(done, view)), nl=False)
    elif done and not (form == "json" and has_rows):
        show([one for result, _ in done for one in comparisons_of(result)], project, given, file, page=page)
