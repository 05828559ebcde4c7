"""The one way to read more rows than memory should hold: page by page, each with its own query.

No query stays open while the consumer works: outside of WAL mode it would lock recorders out, see
https://www.sqlite.org/lockingv3.html. `Cassette.pages` reports errors as those of a cassette.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, TypeVar

T = TypeVar("T")
Values = Sequence[Any]  # of a row

BEFORE_ALL = -(1 << 63)  # SQLite's least integer
_PAGE_ROWS, _PAGE_BYTES = 1_000, 4 << 20


def pages(
    db: sqlite3.Connection,
    sql: str,
    values: Sequence[Any],
    key: Mapping[str, int],
    make: Callable[[Values], T],
    *,
    within: tuple[int, int] | None = None,
    after: Sequence[int] = (),
    most: int = _PAGE_ROWS,
    first: int | None = None,
    text: int | Sequence[int] = (),
) -> Iterator[list[T]]:
    """Yield the rows of a query in pages, each from its own query, which is closed before the page is yielded.

    `sql` ends with its WHERE condition. `key`: the integer columns that order its rows, with their places in a row;
    NULL is before all. `within`: the least and the greatest value of the first of them, such as the ids of a session.
    `after`: the key to continue after. A page has at most `most` rows (the first one `first`). With `text`, the place
    of one column or of several, a page also ends when their values have some megabytes. Rows written meanwhile are read
    too, if they come later. Refuses a file whose keys do not increase: reading it would never end.
    """
    last = tuple(after) or (BEFORE_ALL,) * len(key)
    least, *greatest = within or (BEFORE_ALL,)
    until = f"AND {next(iter(key))} <= ?" if within else ""
    sql = f"{sql} {until} AND {_behind(tuple(key))} ORDER BY {', '.join(key)} LIMIT ?"
    size = first or most
    texts = (text,) if isinstance(text, int) else tuple(text)
    while True:
        cursor = db.execute(sql, (*values, *greatest, *_behind_values(last, least), size))
        page, last = _page(cursor, make, tuple(key.values()), last, texts)
        if not page:
            return
        yield page
        del page  # frees memory before the next page
        size = most


def _page(
    cursor: sqlite3.Cursor,
    make: Callable[[Values], T],
    key: tuple[int, ...],
    last: tuple[int, ...],
    texts: tuple[int, ...],
) -> tuple[list[T], tuple[int, ...]]:
    """Return the rows after a key, and the key of the last one."""
    page: list[T] = []
    size = 0
    with closing(cursor):
        for row in cursor:
            made = make(row)
            now = tuple(BEFORE_ALL if row[place] is None else row[place] for place in key)
            if not all(type(value) is int for value in now) or now <= last:
                raise sqlite3.DatabaseError("its rows are out of order")
            last = now
            page.append(made)
            size += sum(len(row[place]) for place in texts if isinstance(row[place], (str, bytes)))
            if size >= _PAGE_BYTES:
                break
    return page, last


def _behind(key: tuple[str, ...]) -> str:
    """The condition for rows after a key."""
    # Not as a row value, for which SQLite uses an index only within a table: https://www.sqlite.org/rowvalue.html
    # The indexed bound comes first: of several lower bounds, SQLite uses the first, and scans to the others.
    column, *more = key
    return f"{column} >= ? AND ({column} > ? OR {_behind(tuple(more)) if more else 0})"


def _behind_values(key: tuple[int, ...], least: int = BEFORE_ALL) -> tuple[int, ...]:
    value, *more = key
    return (max(value, least), value, *(_behind_values(tuple(more)) if more else ()))
