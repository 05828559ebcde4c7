"""Tools that compute something: changes between two recordings, and SQL queries."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from typing import Any

from ..cassette.query import sql as querying
from ..cassette.reader import Cassette
from ..cassette.schema import GIT
from ..cassette.text.safe_lines import json_line
from ..errors import TapeError
from ..transports.task_processes import Worker
from .paging import Item, ToolAnswer, ToolError, clean, number, page, window
from .places import ToolCall

_LONGEST = 2_000  # characters of a value
_MOST_MEMORY = 256 << 20  # bytes that SQLite may use for a query

SQL_EXAMPLE = "SELECT tool, count(*) FROM tool_calls GROUP BY tool"
TABLES = (  # with the columns that most queries need
    "tool_calls(session, seq, elapsed, tool, arguments, status, microseconds, result, error)",
    "exchanges(session, seq, elapsed, sender, method, name, answer_seq, status, microseconds, request, response)",
    "notifications(session, seq, elapsed, sender, method, params)",
    "stderr(session, seq, elapsed, text)",
    "sessions(id, started_at, ended_at, server_name, server_version, client_name, protocol_version, incomplete, note)",
)


def diff(
    call: ToolCall,
    old: str,
    new: str,
    part: str | None = None,
    format: str = "text",  # noqa: A002 - as the option of diff is called
    cursor: str | None = None,
) -> ToolAnswer:
    """Compare two recordings, by the rules of this project."""
    from ..compare.report import render
    from ..compare.versions import PARTS, Version, compare, recorded_version
    from ..diff.project import load, working_directory  # slow to import
    from ..diff.sources import parse

    settings = load(working_directory()).settings()
    with ExitStack() as stack:

        def version(reference: str) -> Version:
            place = parse(reference)
            if place.path.startswith(GIT):
                raise ToolError(f"only cassettes can be compared here, and not git revisions: {reference!r}")
            cassette = stack.enter_context(call.open_cassette(place.path, place.label))
            return recorded_version(cassette, place.session, settings.ignore_paths)

        parts = [each for each in PARTS if part in (each, None)]
        comparison = compare(version(old), version(new), settings, parts)
    return ToolAnswer(window([render(comparison, format)], number(cursor)))


def query(
    call: ToolCall, sql: str, file: str | None = None, params: dict[str, str] | None = None, cursor: str | None = None
) -> ToolAnswer:
    """Return the rows of one read-only statement, run in a process that can be killed.

    A running SQLite function cannot be interrupted, and its memory has no limit.
    """
    path = call.places.path_of(file)
    worker = Worker(pickle.dumps(_answer))
    with call.stop_with(worker.kill):
        worker.give((path, sql, params, number(cursor)))
        outcome = worker.take()
        if outcome is None:
            ended = worker.how_it_ended()
            raise ToolError("stopped" if call.is_stopped() else f"the query was not answered: {ended}")
        worker.end()
    if outcome.failure:
        raise ToolError(outcome.failure)
    if isinstance(outcome.value, TapeError):
        raise outcome.value
    assert isinstance(outcome.value, ToolAnswer)
    return outcome.value


def _answer(asked: tuple[str, str, dict[str, str] | None, int]) -> ToolAnswer | TapeError:
    """Return the answer to a query, or its error, within a memory limit."""
    path, sql, params, skipped = asked
    try:
        with Cassette(path) as cassette:
            cassette.connection.execute(f"PRAGMA hard_heap_limit = {_MOST_MEMORY}")
            answer = querying.ask(cassette.database, path, sql, params)
            items = _items(answer.columns, islice(answer.rows, skipped, None), skipped)
            hint = "Ask for fewer columns, or for parts of long values: substr(column, 1, 1000)."
            return page("rows", items, " · ".join(map(str, clean(answer.columns))), "There are no rows.", hint)
    except TapeError as error:
        return error


def _items(columns: list[str], rows: Iterator[tuple[Any, ...]], skipped: int) -> Iterator[Item]:
    bounded = (tuple(map(_cut, columns, row)) for row in rows)
    for place, value in enumerate(querying.objects(columns, bounded), skipped + 1):
        yield Item(json_line(value).decode().rstrip("\n"), value, str(place))


def _cut(column: str, value: Any) -> Any:
    """A value, or the beginning of a long one with a way to read on."""
    if not isinstance(value, (str, bytes)) or len(value) <= _LONGEST:
        return value
    if isinstance(value, bytes):
        return f"[{len(value)} bytes; read parts: hex(substr({column}, 1, 1000))]"
    rest = f"substr({column}, {_LONGEST + 1}, {_LONGEST})"
    return f"{value[:_LONGEST]}… [{len(value)} characters in all; the next: {rest}]"
