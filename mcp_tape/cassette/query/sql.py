"""SQL queries of people, through sqlite-utils. Read-only, and nothing in an untrusted file runs.

In an untrusted file, SQLite refuses most functions in views, including those that ours use
(https://www.sqlite.org/pragma.html#pragma_trusted_schema). So our views are created anew for the connection, and those
of the file are not used.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import CassetteError, TapeError, quote_path
from .. import file, schema

if TYPE_CHECKING:
    from sqlite_utils import Database

_VIEW = re.compile(r"^CREATE VIEW .*?;$", re.S | re.M)
STEPS = 10_000  # SQLite instructions between two chances for Ctrl-C
_REFUSED = ("readonly", "not authorized", "authorization denied", "because it is a view")
# Read-only pragmas; some of the others would undo the settings made here.
_READING = {
    "application_id", "compile_options", "database_list", "encoding", "foreign_key_list", "freelist_count",
    "function_list", "index_info", "index_list", "index_xinfo", "page_count", "page_size", "table_info", "table_list",
    "table_xinfo", "user_version",
}  # fmt: skip
_FORBIDDEN = {sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH, sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT}


class QueryError(TapeError):
    """The SQL cannot be run."""

    exit_code = 2


class QueryResult(NamedTuple):
    """The result of a query, row by row."""

    columns: list[str]
    rows: Iterator[tuple[Any, ...]]


def ask(
    database: Database,
    path: str,
    sql: str,
    values: Mapping[str, str] | None = None,
    is_stopped: Callable[[], bool | None] = lambda: None,
) -> QueryResult:
    """Run one read-only statement. `is_stopped` is called now and then; true ends the query. Errors name `path`."""
    with _report_errors(path):
        # Python handles signals only while its own code runs.
        database.conn.set_progress_handler(is_stopped, STEPS)
        cursor = database.execute(sql, dict(values or {}))
    if cursor.description is None:
        raise QueryError("the query gives no rows; write one statement that reads, such as: SELECT * FROM tool_calls")
    return QueryResult([column for column, *_ in cursor.description], _rows(path, cursor))


def objects(columns: list[str], rows: Iterable[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    """Rows as JSON objects. Bytes become {"$base64": true, "encoded": "…"}."""
    names = _distinct_names(columns)
    return (dict(zip(names, map(_value, row), strict=True)) for row in rows)


def _distinct_names(columns: list[str]) -> list[str]:
    """Column names, made distinct: a second `id` becomes `id_2`."""
    names: list[str] = []
    for column in columns:
        name, n = column, 2
        while name in names:
            name, n = f"{column}_{n}", n + 1
        names.append(name)
    return names


def _value(value: Any) -> Any:
    if isinstance(value, bytes):
        from base64 import b64encode

        return {"$base64": True, "encoded": b64encode(value).decode()}
    return value


def open_database(db: sqlite3.Connection) -> Database:
    """Turn a connection to a cassette into a database that can only read, with our views."""
    from sqlite_utils import Database  # slow to import

    db.text_factory = lambda data: data.decode("utf-8", "replace")
    for view in _VIEW.findall(schema.SCHEMA):
        # In the connection's own schema: SQLite trusts it, and looks there first.
        db.execute(view.replace("CREATE VIEW", "CREATE TEMP VIEW", 1))
    database = Database(db, recursive_triggers=False)
    db.execute("PRAGMA query_only = ON")
    db.set_authorizer(_authorize)
    return database


def _authorize(action: int, what: str | None, value: str | None, *_: object) -> int:
    """The authorizer: https://www.sqlite.org/c3ref/set_authorizer.html"""
    reads = what in _READING and (value is None or what.endswith(("_info", "_xinfo", "_list")))
    is_denied = action in _FORBIDDEN or (action == sqlite3.SQLITE_PRAGMA and not reads)
    return sqlite3.SQLITE_DENY if is_denied else sqlite3.SQLITE_OK


def _rows(path: str, cursor: sqlite3.Cursor) -> Iterator[tuple[Any, ...]]:
    with _report_errors(path):
        for row in cursor:  # noqa: UP028 - its errors are reported as below
            yield row


@contextmanager
def _report_errors(path: str) -> Iterator[None]:
    """Report SQLite's errors in a way that people can act on."""
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise _error(path, error) from None
    except MemoryError:
        raise QueryError(
            "the query needs more memory than it may use; ask for parts of values: substr(x, 1, 1000)"
        ) from None
    except (OverflowError, ValueError) as error:  # a number beyond SQLite's, or a lone surrogate in the SQL
        raise QueryError(f"the query cannot be run: {error}") from None


def _error(path: str, error: sqlite3.Error | sqlite3.Warning) -> BaseException:
    text = str(error)
    if text == "interrupted":
        return KeyboardInterrupt()
    if any(word in text for word in _REFUSED):
        return QueryError(
            "a query can only read, and this one would write", "; to change a cassette: mcp-tape edit, redact or rm"
        )
    # Mistakes in the SQL have their own class.
    if isinstance(error, sqlite3.Error) and (type(error) is sqlite3.DatabaseError or "I/O" in text):
        return CassetteError(file.describe_unreadable(path, error))
    if "one statement" in text:
        return QueryError("that is more than one statement; give one at a time")
    if "did not supply a value" in text:
        return QueryError(f"a parameter of the query has no value: {text}", " Try: -p NAME VALUE")
    names = "SELECT type, name FROM sqlite_master"
    return QueryError(
        f"the query cannot be run: {text}", f'\nTo list its tables: mcp-tape query {quote_path(path)} "{names}"'
    )
