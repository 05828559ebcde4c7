"""mcp-tape stats"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ...cassette.query import totals
from ...cassette.query.filters import Filter
from ...cassette.query.inventory import select_sessions
from ...cassette.query.totals import Figures
from ...cassette.reader import Cassette
from ...console import say
from ...console.terminal import can_write, columns, display_width, echo, echo_json, fit, writable_text
from ...errors import count, replace_control_characters
from ...formats.row_lines import duration
from ...values import size_text
from ..click_options import cassette_argument, json_option
from ..filter import filter_option

if TYPE_CHECKING:
    from ...contracts.context import ToolCost

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LONGEST_BAR = 40
_ORDERS = ("tokens", "definition", "results", "calls", "name")  # of --context
_HEAD = f"{'calls':>7}  {'errors':>6}  {'open':>5}  {'p50':>8}  {'p95':>8}  {'max':>8}  {'bytes':>7}     what"
_COSTS_HEAD = f"{'calls':>7}  {'definition':>17}  {'results':>17}  {'largest':>7}  tool"


@click.command(
    "stats",
    epilog="\b\nExamples:\n"
    "  mcp-tape stats tape.db\n"
    "  mcp-tape stats tape.db --filter 'tool:* from:client'\n"
    "  mcp-tape stats tape.db --session 2 --json\n"
    "  mcp-tape stats tape.db --context --sort results",
)
@cassette_argument
@click.option("--session", type=int, metavar="N", help="Count this session only. Default: all.")
@filter_option
@click.option("--context", is_flag=True, help="Show what each tool costs a model: its definition and its results.")
@click.option("--sort", type=click.Choice(_ORDERS), help="With --context, sort by this. Default: tokens.")
@json_option
def command(file: str, session: int | None, kept: Filter, context: bool, sort: str | None, as_json: bool) -> None:
    """Count the calls of each tool and method, and show how long they took.

    A line has the calls, errors, calls without an answer, answer times (median, 95th percentile and longest),
    bytes of requests and answers, and the method and tool: → called by the client, ← by the server. Below is a
    histogram of the answer times. A filter keeps the calls whose requests `mcp-tape show` would print.

    With --context, a line is one tool: its calls, the bytes and tokens of its definition and of all its results,
    its largest result, and its name. Tokens are an estimate: one for four ASCII characters, for two letters of
    Greek, Cyrillic, Arabic and the like, and for every other character.
    """
    if context:
        if kept.terms:
            raise click.UsageError("--context counts every call: leave out --filter")
        show_context(file, session, sort or _ORDERS[0], as_json)
        return
    if sort:
        raise click.UsageError("--sort needs --context")
    with Cassette(file) as cassette:
        sessions = select_sessions(cassette, session)
        found = totals.tallies(cassette, sessions, kept)
    rows = totals.figures(found)
    if as_json:
        for row in rows:
            echo_json(row.as_json())
        return
    if not rows:
        kind = "calls that the filter keeps" if kept.terms else "calls"
        say(f"there are no {kind} in {count(len(sessions), 'session')} of {file}")
        return
    width = columns()
    echo(fit(_HEAD, width), bold=True)
    for row in rows:
        echo(writable_text(fit(_line(row, width), width)), fg="red" if row.errors or row.unanswered else None)
    _echo_bars(totals.histogram(found), max(1, min(_LONGEST_BAR, width - 30)))


def _line(row: Figures, width: int) -> str:
    times = "  ".join(f"{duration(took) or '-':>8}" for took in (row.p50, row.p95, row.max))
    arrow = "→" if row.sender == "client" else "←"
    what = replace_control_characters(" ".join(filter(None, (row.method, row.name))))
    counts = f"{row.calls:>7}  {row.errors or '-':>6}  {row.unanswered or '-':>5}"
    left = f"{counts}  {times}  {size_text(row.bytes):>7}  {arrow}  "
    # Without room for both, show the name rather than the method.
    return left + (what if display_width(left + what) <= width else replace_control_characters(row.name or what))


def _echo_bars(bars: list[tuple[int, int, int]], longest: int) -> None:
    most = max((number for *_, number in bars), default=0)
    if not most:
        return
    echo("")
    for start, end, number in bars:
        label = f"{_edge(start)} – {_edge(end)}"
        echo(writable_text(f"{label:>17}  {_bar(number * longest * 8 // most or (number > 0))} {number}"))


def _edge(microseconds: int) -> str:
    for unit, one in (("s", 10**6), ("ms", 10**3)):
        if microseconds >= one:
            return f"{microseconds // one} {unit}"
    return f"{microseconds} µs" if microseconds else "0"


def _bar(eighths: int) -> str:
    if not can_write(_EIGHTHS):
        return "#" * -(-eighths // 8)
    return _EIGHTHS[8] * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def show_context(file: str, session: int | None, by: str, as_json: bool) -> None:
    """Print what each tool costs a model."""
    from ...contracts.context import tool_costs  # only where it is used

    with Cassette(file) as cassette:
        sessions = [s.id for s in cassette.each_session()] if session is None else [cassette.session(session).id]
        rows = tool_costs(cassette, sessions, by)
    if as_json:
        for row in rows:
            echo_json(row._asdict())
        return
    if not rows:
        say(f"no tools are listed or called in {count(len(sessions), 'session')} of {file}")
        return
    width = columns()
    echo(fit(_COSTS_HEAD, width), bold=True)
    for row in [*rows, _total(rows)]:
        echo(writable_text(fit(_cost_line(row), width)))
    say("tokens (~) are estimated from characters; models differ")


def _total(rows: list[ToolCost]) -> ToolCost:
    sums = {name: sum(getattr(row, name) for row in rows) for name in rows[0]._fields[1:]}
    largest = max(row.largest_result_bytes for row in rows)
    return rows[0]._replace(**{"tool": f"({count(len(rows), 'tool')})", **sums, "largest_result_bytes": largest})


def _cost_line(row: ToolCost) -> str:
    defined, gave = _cost(row.definition_bytes, row.definition_tokens), _cost(row.result_bytes, row.result_tokens)
    more = f" +{row.media} media" if row.media else ""
    largest = size_text(row.largest_result_bytes) if row.largest_result_bytes else "-"
    return f"{row.calls or '-':>7}  {defined}  {gave}  {largest:>7}  {replace_control_characters(row.tool)}{more}"


def _cost(size: int, tokens: int) -> str:
    return f"{size_text(size):>7} {f'~{tokens}':>9}" if size else f"{'-':>17}"
