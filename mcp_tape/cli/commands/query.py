"""mcp-tape query"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

import click

from ...console.terminal import clip, display_width, echo, fit, pad, writable_text
from ...console.terminal import columns as columns_of_terminal
from ...errors import replace_control_characters
from ..click_options import cassette_argument

_LOOKED_AT = 200  # rows to measure columns by; the others are streamed
_LONGEST = 1 << 12  # characters of a value that are measured, to show it in a column
_NARROWEST = 4
_FORMULA = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
)  # the first characters of a formula: https://owasp.org/www-community/attacks/CSV_Injection


@click.command(
    "query",
    epilog="\b\nExamples:\n"
    "  mcp-tape query tape.db 'SELECT tool, count(*) FROM tool_calls GROUP BY tool'\n"
    "  mcp-tape query tape.db 'SELECT * FROM tool_calls WHERE tool = :t' -p t add\n"
    "  mcp-tape query tape.db - --csv < slow.sql > slow.csv",
)
@cassette_argument
@click.argument("sql", metavar="SQL")
@click.option("-p", "--param", "params", type=(str, str), multiple=True, metavar="NAME VALUE",
              help="The value of :NAME in the query.")  # fmt: skip
@click.option("--csv", "form", flag_value="csv", help="Comma-separated values, with a header line.")
@click.option("--spreadsheet", "form", flag_value="spreadsheet",
              help="CSV for a spreadsheet, with recorded text escaped so that none of it is a formula.")  # fmt: skip
@click.option("--json", "form", flag_value="json", help="One JSON array of objects.")
@click.option("--nl", "form", flag_value="nl", help="One JSON object per line.")
def command(file: str, sql: str, params: tuple[tuple[str, str], ...], form: str | None) -> None:
    """Run SQL on a cassette; `-` reads the query from stdin.

    Tables: sessions, frames, messages. Views: exchanges, tool_calls, notifications, stderr. docs/cassette-format.md
    lists the columns. Queries are read-only. A table cuts long values, and shows only the size of bytes that are
    not text; JSON has them as base64: {"$base64": true, "encoded": "…"}.
    """
    from ...cassette.query.sql import ask
    from ...cassette.reader import Cassette

    if sql == "-":
        sql = sys.stdin.buffer.read().decode("utf-8", "replace")
    with Cassette(file) as cassette:
        answer = ask(cassette.database, cassette.path, sql, dict(params))
        for line in _FORMS[form](answer.columns, answer.rows):
            echo(line)


def _as_table(columns: list[str], rows: Iterator[tuple[Any, ...]]) -> Iterator[str]:
    shown = ([_cell(value) for value in row] for row in rows)
    first = list(islice(shown, _LOOKED_AT))
    names = [clip(name, _LONGEST) for name in columns]
    right = [bool(first) and all(_is_number(row[n]) for row in first) for n in range(len(names))]
    widths = _fit_widths([max(map(display_width, column)) for column in zip(names, *first, strict=True)])
    for row in chain([names, ["-" * width for width in widths]], first, shown):
        yield _line(row, widths, right)


def _line(row: list[str], widths: list[int], right: list[bool]) -> str:
    columns = zip(row, widths, right, strict=True)
    return writable_text(
        "  ".join(pad(fit(cell, width), width, right=is_right) for cell, width, is_right in columns).rstrip()
    )


def _fit_widths(widths: list[int]) -> list[int]:
    """Narrow the widest columns until a line fits."""
    room = columns_of_terminal() - 2 * (len(widths) - 1)
    most = max(widths, default=0)
    while sum(min(width, most) for width in widths) > room and most > _NARROWEST:
        most -= 1
    return [min(width, most) for width in widths]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    return clip(str(value), _LONGEST)


def _is_number(cell: str) -> bool:
    return cell.lstrip("-").replace(".", "", 1).isdigit() or not cell


def _as_csv(columns: list[str], rows: Iterator[tuple[Any, ...]]) -> Iterator[str]:
    for row in chain([columns], rows):
        out = io.StringIO()
        # The csv module quotes values that contain a character of the line terminator, so name both.
        csv.writer(out, lineterminator="\r\n").writerow([_plain_text(value) for value in row])
        yield out.getvalue().removesuffix("\r\n")


def _as_spreadsheet(columns: list[str], rows: Iterator[tuple[Any, ...]]) -> Iterator[str]:
    """CSV with an apostrophe before each formula. Only for spreadsheets: programs want the text unchanged."""
    return _as_csv([_escape_formula(name) for name in columns], (tuple(map(_escape_formula, row)) for row in rows))


def _escape_formula(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _plain_text(value: Any) -> Any:
    """Format a value for a program: on a terminal, control characters but line ends are replaced."""
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, str) and sys.stdout.isatty():
        return "\n".join(map(replace_control_characters, value.split("\n")))
    return value


def _as_json(columns: list[str], rows: Iterator[tuple[Any, ...]]) -> Iterator[str]:
    """Print one object a line, each once the next is known."""
    before = "["
    for line in _as_lines(columns, rows):
        if before != "[":
            yield f"{before},"
        before = f"[{line}" if before == "[" else f" {line}"
    yield f"{before}]"


def _as_lines(columns: list[str], rows: Iterator[tuple[Any, ...]]) -> Iterator[str]:
    from ...cassette.query.sql import objects
    from ...cassette.text.safe_lines import json_line

    for each in objects(columns, rows):
        yield json_line(each).decode().rstrip("\n")


_FORMS: dict[str | None, Callable[[list[str], Iterator[tuple[Any, ...]]], Iterator[str]]] = {
    None: _as_table,
    "csv": _as_csv,
    "spreadsheet": _as_spreadsheet,
    "json": _as_json,
    "nl": _as_lines,
}
