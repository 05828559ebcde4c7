"""mcp-tape merge-reports"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ...cassette import replace
from ...console import say
from ...console.terminal import clip, columns, echo, echo_json, writable_text
from ...errors import count
from ..click_options import files, json_option

if TYPE_CHECKING:
    from ...fleet.many.merging import MergedReport


@click.command(
    "merge-reports",
    epilog="\b\nExamples:\n"
    "  mcp-tape check tapes/ --shard 1/2 --json > 1.json\n"
    "  mcp-tape check tapes/ --shard 2/2 --json > 2.json\n"
    "  mcp-tape merge-reports 1.json 2.json\n"
    "  mcp-tape merge-reports shards/*.xml -o report.xml",
)
@click.argument("reports", metavar="FILE...", nargs=-1, required=True, shell_complete=files)
@click.option("-o", "--output", metavar="FILE", help="Write all results into this file; - is stdout.")
@click.option("--force", is_flag=True, help="Replace the output if it exists.")
@json_option
@click.pass_context
def command(ctx: click.Context, /, reports: tuple[str, ...], output: str | None, force: bool, as_json: bool) -> None:
    """Merge the reports of a sharded run, as if it had been one run.

    FILE holds the rows that verify, diff, check and redact print with --jobs or --shard and --json, or their JUnit
    reports. A cassette with two results, as after a share was run again, counts once; if the results differ, the
    worse counts.

    The exit code is the highest of all cassettes, and at least 1 if some cassettes are in no report.
    """
    from ...fleet.many.merging import as_dict, merge, render_merged

    if output not in (None, "-"):
        replace.expect_room(output, force)
    merged = merge(reports)
    if output is not None:
        _write(output, render_merged(merged))
    if as_json:
        echo_json(as_dict(merged))
    elif output != "-":
        _show(merged)
    _report_unmerged(merged)
    ctx.exit(merged.code)


def _write(output: str, data: bytes) -> None:
    if output == "-":
        click.echo(data, nl=False)
        return
    try:
        with open(output, "wb") as file:
            file.write(data)
    except OSError as error:
        raise click.UsageError(f"cannot write {output}: {error.strerror}") from None


def _show(merged: MergedReport) -> None:
    """Print a table of counts, and a line for each cassette that did not pass."""
    from ...fleet.many.merging import statuses
    from ...fleet.many.results import CODES

    counts = statuses(merged.entries)
    shown = [status for status in CODES if status == "passed" or any(one[status] for one in counts.values())]
    width = max(len("command"), *map(len, counts))
    heads = ["cassettes", *shown]
    echo("  ".join(["command".ljust(width), *heads]), bold=True)
    for name, numbers in sorted(counts.items()):
        row = [numbers.total(), *(numbers[status] for status in shown)]
        cells = (f"{number:>{len(head)}}" for number, head in zip(row, heads, strict=True))
        echo(writable_text(clip("  ".join([name.ljust(width), *cells]), columns())))
    for entry in merged.entries:
        if entry.status != "passed":
            more = f" and {entry.findings - 1} more" if entry.findings > 1 else ""
            line = f"{entry.status}  {entry.command}  {entry.cassette}  {entry.message}{more}"
            echo(writable_text(clip(line, columns())), fg="red")


def _report_unmerged(merged: MergedReport) -> None:
    """Report repeated, differing and missing results."""
    if merged.repeats:
        say(f"{count(merged.repeats, 'result')} there twice, and counted once")
    for entry in merged.differing:
        say(f"{entry.cassette}: there are two results of {entry.command}, and the worse counts: {entry.status}")
    for one in merged.missing:
        shares = f"; nothing is there of {', '.join(one.shards)}" if one.shards else ""
        say(f"{one.command}: {count(one.cassettes, 'cassette')} of the run {_are(one.cassettes)} in no report{shares}")
    sys.stdout.flush()


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
