"""mcp-tape lake"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import click

from ...console import say
from ...errors import count, replace_control_characters
from ...values import size_text
from ..click_options import DestinationCommand, cassettes_argument, files, json_option, many_options
from ..running import CommandRun, Found, report

if TYPE_CHECKING:
    from ...fleet.many.results import Result
    from ...fleet.shards import Shard


@click.command(
    "lake",
    cls=DestinationCommand,
    epilog="\b\nExamples:\n"
    "  mcp-tape lake tapes/ lake/\n"
    "  mcp-tape lake 'tapes/*.db' lake/ --jobs auto\n"
    "  mcp-tape lake tapes/ lake/ --shard 1/4 --no-content --json",
)
@cassettes_argument
@click.argument("dest", metavar="DEST", shell_complete=files)
@click.option("--no-content", "bare", is_flag=True, help="Leave out arguments, results, errors and messages.")
@many_options
@json_option
def command(paths: list[str], dest: str, bare: bool, jobs: int, shard: Shard | None, as_json: bool) -> None:
    """Write cassettes to Parquet tables, for DuckDB, ClickHouse, polars, Spark and other engines.

    CASSETTE can be a file, a directory, a quoted pattern or a URL. DEST gets the tables sessions, calls, messages and
    definitions, each in directories by date and server; docs/lake-tables.md lists their columns.

    A file is named by the content of its cassette, and existing files are left alone, so you can repeat and interrupt
    the command, and run it in parallel. A cassette that is being recorded is left for the next run. A cassette that
    cannot be read does not stop the others.

    --json prints a row for each cassette, for mcp-tape merge-reports. Exit code 1: DEST cannot be written. 3: a
    cassette cannot be read.
    """
    from ...fleet.lake.run import lake_one, prepare  # which need pyarrow
    from ...transports.signals import exit_on_signal

    prepare(dest, not bare)
    work = partial(lake_one, dest=dest, content=not bare)
    run = CommandRun("lake", "adding", jobs, shard, quiet=True)
    done: Counter[str] = Counter()
    with exit_on_signal():
        results = run.results(work, paths, str, lambda path: [path])
        code = report(_count_results(results, done), "json" if as_json else "text", _show)
    if not as_json:
        _summarize(done, dest)
    raise SystemExit(code)


def _count_results(results: Found, done: Counter[str]) -> Found:
    """Yield results and count them; stop when the lake cannot be written."""
    from ...fleet.lake.run import UNWRITTEN

    with closing(results):
        for result, row in results:
            done[result.details.get("lake", result.status)] += 1
            done.update(result.counts)
            yield result, row
            if result.details.get("lake") == UNWRITTEN:
                return


def _show(result: Result) -> None:
    for line in "\n".join(result.notes).splitlines():
        say(replace_control_characters(line))


def _summarize(done: Counter[str], dest: str) -> None:
    from ...fleet.lake.columns import TABLES

    words = {"added": "added", "there": "there before", "busy": "being recorded", "unwritten": "not written"}
    bad = {status: status for status in ("unreadable", "crashed")}
    said = [f"{done[status]} {word}" for status, word in (words | bad).items() if done[status]]
    say(f"{replace_control_characters(dest)}: {', '.join(said) or 'nothing to add'}")
    if done["added"]:
        rows = ", ".join(count(done[table], table.removesuffix("s")) for table in reversed(TABLES))
        say(f"new: {rows}, {size_text(done['bytes'])}")
