"""Row types match the columns of their tables, and their types."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import pytest

from mcp_tape.cassette import schema
from mcp_tape.cassette.reader import MessageRow, OddRowError, Session, row_maker, types_of
from mcp_tape.wire.frames import Frame


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(schema.SCHEMA)
        yield db


WRITERS_OWN = "pending"  # from where on messages are not derived yet; readers do not need it
FRAME = {"elapsed" if name == "at" else name for name in Frame._fields}


@pytest.mark.parametrize(
    ("table", "fields"),
    [
        ("sessions", (*Session._fields, WRITERS_OWN)),
        ("messages", MessageRow._fields),
        ("frames", {"id", "session", "data", *FRAME}),  # `data` is a text that is not UTF-8
    ],
)
def test_row_types_have_the_columns_of_the_schema(db: sqlite3.Connection, table: str, fields: Any) -> None:
    found = [name for (name,) in db.execute(f"SELECT name FROM pragma_table_info('{table}') ORDER BY cid")]
    assert (set(found) if isinstance(fields, set) else tuple(found)) == fields


def may_be_none(row_type: Any) -> set[str]:
    return {name for name, types in zip(row_type._fields, types_of(row_type), strict=True) if type(None) in types}


def nullable(db: sqlite3.Connection, table: str) -> set[str]:
    return {
        name for (name,) in db.execute(f"SELECT name FROM pragma_table_info('{table}') WHERE NOT (\"notnull\" OR pk)")
    }


def test_columns_that_are_not_null_are_never_none(db: sqlite3.Connection) -> None:
    assert may_be_none(Session) | {WRITERS_OWN} == nullable(db, "sessions")
    made_of_rows = {
        "frame",
        "session",
        "seq",
        "sender",
        "kind",
    }  # the view does not declare this for its columns
    assert may_be_none(MessageRow) == nullable(db, "derived")
    assert set(MessageRow._fields) == may_be_none(MessageRow) | made_of_rows | {"id", "part"}


class Pair(NamedTuple):
    number: int
    text: str | bytes | None


def test_a_value_of_another_type_is_refused() -> None:
    made = row_maker(Pair, "pairs")
    assert [made((1, text)) for text in ("a", b"a", None)] == [(1, "a"), (1, b"a"), (1, None)]
    with pytest.raises(OddRowError, match="a row of its table pairs has an invalid value"):
        made(("1", "a"))
    with pytest.raises(OddRowError, match="one of its rows"):
        row_maker(Pair)((1, 2.5))
