"""A run of a command over cassettes, one or many: results in their order, a row of each, and one exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any, NamedTuple, TypeVar

import click

from ..cassette.reader import Cassette
from ..console import say
from ..console.progress import Progress, frames_of
from ..console.terminal import echo_json
from ..errors import count
from ..fleet.cassette_paths import printable_place
from ..fleet.jobs import call_each
from ..fleet.many.results import CODES, Result, Status, Watch, failed_result, row, watch_nothing
from ..fleet.shards import Shard, share
from . import set_least_exit_code

T = TypeVar("T")
Row = dict[str, Any]
Found = Generator[tuple[Result, Row], None, None]  # results, each with its row


class CommandRun(NamedTuple):
    """A run of a command. `verb`: its activity, for progress."""

    command: str
    verb: str
    jobs: int
    shard: Shard | None
    quiet: bool = False

    @property
    def watch(self) -> Watch:
        """Progress within one cassette, if this process works on one at a time."""
        if self.jobs > 1:
            return watch_nothing
        return lambda cassette: Progress(f"{self.verb} {printable_place(cassette.path)}", _weight(cassette))

    def results(
        self,
        work: Callable[[T], Result],
        things: Sequence[T],
        named: Callable[[T], str],
        files: Callable[[T], Sequence[str]],
    ) -> Found:
        """Work on the cassettes of our share; yield the result and row of each. Then print a summary."""
        chosen, statuses = list(share(things, self.shard, files)), Counter[Status]()
        of = len(set(map(named, things)))
        title = f"{self.verb} {count(len(chosen), 'cassette')}"
        with Progress(title, len(chosen)) as progress, closing(call_each(work, chosen, self.jobs)) as outcomes:
            for number, (thing, outcome) in enumerate(outcomes, 1):
                progress.hide()
                name = printable_place(named(thing))
                result = outcome.value or failed_result(self.command, name, "crashed", f"{name}: {outcome.failure}")
                set_least_exit_code(result.code)
                statuses[result.status] += 1
                yield result, row(result, self.shard, of)
                progress(number)
        if not self.quiet and (len(chosen) != 1 or self.shard):
            which = f" of {of}, share {self.shard}" if self.shard else ""
            say(f"{count(len(chosen), 'cassette')}{which}: {summary(statuses)}")


def _weight(cassette: Cassette) -> int:
    return 2 * frames_of(cassette)  # each is read twice


def summary(statuses: Counter[Status]) -> str:
    """`17 passed, 2 failed, 1 unreadable`"""
    return ", ".join(f"{statuses[status]} {status}" for status in CODES if statuses[status]) or "nothing to do"


def worst_exit_code(results: Sequence[Result]) -> int:
    """The exit code of a run: the highest of its cassettes."""
    return max((result.code for result in results), default=0)


def report(found: Found, form: str, show: Callable[[Result], None]) -> int:
    """Print results, each with its row, in a format; `show` is for people. Return the exit code."""
    done = []
    with closing(found):  # the reader of stdout may close it early
        for result, facts in found:
            if form == "json":
                echo_json(facts)
            elif form == "text":
                show(result)
            done.append((result, facts))
    if form == "junit":
        from ..compare.report.wording import View
        from ..fleet.many.results import report as junit

        click.echo("".join(f"{line}\n" for line in junit(done, View())), nl=False)
    return worst_exit_code([result for result, _ in done])
