"""The figures of `stats --context`: what each tool costs a model."""

from __future__ import annotations

from ..cassette.reader import Cassette
from ..console import say
from ..console.terminal import columns, echo, echo_json, fit, writable
from ..contracts.context import ToolCost, tool_costs
from ..errors import count, harmless
from ..values import size_text

_HEAD = f"{'calls':>7}  {'definition':>17}  {'results':>17}  {'largest':>7}  tool"


def show_context(file: str, session: int | None, by: str, as_json: bool) -> None:
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
    echo(fit(_HEAD, width), bold=True)
    for row in [*rows, _total(rows)]:
        echo(writable(fit(_line(row), width)))
    say("tokens (~) are estimated from characters; models differ")


def _total(rows: list[ToolCost]) -> ToolCost:
    sums = {name: sum(getattr(row, name) for row in rows) for name in ToolCost._fields[1:]}
    largest = max(row.largest_result_bytes for row in rows)
    return ToolCost(**{"tool": f"({count(len(rows), 'tool')})", **sums, "largest_result_bytes": largest})


def _line(row: ToolCost) -> str:
    defined, gave = _cost(row.definition_bytes, row.definition_tokens), _cost(row.result_bytes, row.result_tokens)
    more = f" +{row.media} media" if row.media else ""
    largest = size_text(row.largest_result_bytes) if row.largest_result_bytes else "-"
    return f"{row.calls or '-':>7}  {defined}  {gave}  {largest:>7}  {harmless(row.tool)}{more}"


def _cost(size: int, tokens: int) -> str:
    return f"{size_text(size):>7} {f'~{tokens}':>9}" if size else f"{'-':>17}"
