"""A run of a command over many cassettes: results in their order, rows that can be merged, and one exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from ...console import say
from ...console.progress import Progress
from ...console.terminal import echo_json
from ...errors import count
from ...fleet.finding import shown
from ...fleet.jobs import each
from ...fleet.many.results import CODES, Result, Status, row, wrong
from ...fleet.shards import Shard, share
from .. import has_found

T = TypeVar("T")
Row = dict[str, Any]  # empty where nobody asked for rows
Found = Generator[tuple[Result, Row], None, None]  # results, each with its row


def is_asked() -> bool:
    """Return whether the command line has an option of a run over many: then its JSON and JUnit are to be merged."""
    ctx = click.get_current_context()
    given = (ctx.get_parameter_source(name) for name in ("jobs", "shard"))
    return any(source not in (None, ParameterSource.DEFAULT) for source in given)


class Run(NamedTuple):
    """A run of a command. `verb`: what it is doing, for progress."""

    command: str
    verb: str
    jobs: int
    shard: Shard | None
    quiet: bool = False

    def results(
        self,
        work: Callable[[T], Result],
        things: Sequence[T],
        named: Callable[[T], str],
        files: Callable[[T], Sequence[str]],
    ) -> Found:
        """Work on those in our share; yield what came of each, and its row. At the end, say how many passed."""
        chosen, statuses = list(share(things, self.shard, files)), Counter[Status]()
        of = len(set(map(named, things)))
        title = f"{self.verb} {count(len(chosen), 'cassette')}"
        with Progress(title, len(chosen)) as progress, closing(each(work, chosen, self.jobs)) as outcomes:
            for number, (thing, outcome) in enumerate(outcomes, 1):
                progress.hide()
                name = shown(named(thing))
                result = outcome.value or wrong(self.command, name, "crashed", f"{name}: {outcome.failure}")
                has_found(result.code)
                statuses[result.status] += 1
                yield result, row(result, self.shard, of)
                progress(number)
        if not self.quiet:
            which = f" of {of}, share {self.shard}" if self.shard else ""
            say(f"{count(len(chosen), 'cassette')}{which}: {summary(statuses)}")


def summary(statuses: Counter[Status]) -> str:
    """`17 passed, 2 failed, 1 unreadable`"""
    return ", ".join(f"{statuses[status]} {status}" for status in CODES if statuses[status]) or "nothing to do"


def worst(results: Sequence[Result]) -> int:
    """The exit code of a run: the highest of its cassettes."""
    return max((result.code for result in results), default=0)


def report(found: Found, form: str, show: Callable[[Result], None]) -> int:
    """Print results, each with its row, in a format; `show` is for people. Return the exit code."""
    done = []
    with closing(found):  # whoever reads our output may leave early
        for result, facts in found:
            if form == "json":
                echo_json(facts)
            elif form == "text":
                show(result)
            done.append((result, facts))
    if form == "junit":
        from ...compare.report.wording import View
        from ...fleet.many.junit import report as junit

        click.echo("".join(f"{line}\n" for line in junit(done, View())), nl=False)
    return worst([result for result, _ in done])
