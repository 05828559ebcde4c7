"""Checks a schema that other programs have changed: still a cassette's, but not word for word.

They may add tables, views, columns and plain indices, and may rewrite the SQL of a table. But a table or index in place
of ours must only store values: an expression in it would run, perhaps for ever. So all words of its SQL must be known.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing

from ..errors import CassetteError, quote_path
from .schema import SCHEMA, STATEMENTS, TABLES

# Quoted names, words, and all other marks one by one: https://www.sqlite.org/lang_keywords.html
_TOKEN = re.compile(r'"((?:[^"]|"")*)"|\[([^\]]*)\]|`([^`]*)`|([^\W\d]\w*)|(\S)')
_MADE = re.compile(r"\s*CREATE\s+(?:UNIQUE\s+|VIRTUAL\s+|TEMP\s+|TEMPORARY\s+)?(TABLE|INDEX|VIEW|TRIGGER)\b", re.I)
_WORDS = {"create", "if", "not", "exists", "null", "unique", "asc", "(", ")", ",", ";"}
_OF_TABLES = _WORDS | set("table integer int text blob primary key references foreign without rowid strict".split())
_OF_INDICES = _WORDS | set("index on desc where is and".split())
_ACTS = set("as check collate conflict default generated on using virtual".split())  # also when used as names

SchemaObject = tuple[str, str, str | None]  # type, name and SQL, as SQLite keeps them


def check(db: sqlite3.Connection, path: str, made: Iterable[SchemaObject]) -> None:
    """Refuse a schema with anything but a cassette's tables under their names."""
    for kind, name in _find_odd(db, list(made)):
        raise CassetteError(
            f"{path} was left alone: its {kind} {name} differs from a cassette's; to see it: "
            f"sqlite3 {quote_path(path)} .schema"
        )


def expect_no_tables(db: sqlite3.Connection, path: str) -> None:
    """Refuse tables that are neither a cassette's nor SQLite's own."""
    for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        if name not in TABLES and not name.startswith("sqlite_"):
            raise CassetteError(
                f"{path} was not changed: its table {name} does not belong to a cassette, and may hold the data "
                f"to remove; if you do not need it: sqlite-utils drop-table {path} {name}"
            )


def _find_odd(db: sqlite3.Connection, made: list[SchemaObject]) -> Iterator[tuple[str, str]]:
    for kind, name, sql in made:
        what = _MADE.match(str(sql))
        if sql is not None and (what is None or what[1].lower() != kind):
            yield str(kind), str(name)  # SQLite uses the statement, whatever its type column says
    statements = {(kind, name): str(sql) for kind, name, sql in made}
    own = _own_columns()
    for table, columns in own.items():
        found = _columns(db, table)
        names = {*found, *own, "id"}  # names in references
        if not columns <= found or not _is_known(statements.get(("table", table), "?"), _OF_TABLES, names):
            yield "table", table
        for index, origin in db.execute(f"SELECT name, origin FROM pragma_index_list('{table}')").fetchall():
            sql = statements.get(("index", index), "?")
            if origin == "c" and not _is_known(sql, _OF_INDICES, {*found, table, index}):
                yield "index", index


def _own_columns() -> dict[str, set[str]]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(SCHEMA)
        tables = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {table: _columns(db, table) for (table,) in tables}


def _columns(db: sqlite3.Connection, table: str) -> set[str]:
    """The stored columns, without computed ones: https://www.sqlite.org/gencol.html"""
    return {name for (name,) in db.execute(f"SELECT name FROM pragma_table_xinfo('{table}') WHERE hidden = 0")}


def _is_known(sql: str, words: set[str], names: set[str]) -> bool:
    """Return whether a statement is ours, or consists of these words and names."""
    return sql in STATEMENTS or all(
        (word or mark).lower() in words or (word in names and word.lower() not in _ACTS) or bool({*quoted} & names)
        for *quoted, word, mark in _TOKEN.findall(sql)
    )
