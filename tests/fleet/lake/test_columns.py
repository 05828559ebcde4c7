"""The schema of a lake: documented, and unchanged within a version."""

from __future__ import annotations

import runpy
from hashlib import sha256

from mcp_tape.fleet.lake.columns import LAST, TABLES, VERSION
from tests.support.docs import DOCS

# A hash of the names and types, by version. Another schema needs another version, since lakes of this one exist.
KNOWN = {1: "710235afa8f0dfde"}


def test_the_page_has_every_column() -> None:
    text = (DOCS / "lake-tables.md").read_text("utf-8")
    assert runpy.run_path(str(DOCS / "make_lake.py"))["page"](text) == text
    assert all(f"<!-- columns of {table} -->" in text for table in TABLES)
    assert f"This is version {VERSION} of the schema" in text


def test_another_schema_is_another_version() -> None:
    columns = {table: [column[:2] for column in columns] for table, columns in TABLES.items()}
    assert sha256(repr(columns).encode()).hexdigest()[:16] == KNOWN[VERSION]


def test_the_table_that_marks_a_source_as_done_is_the_last() -> None:
    assert list(TABLES)[-1] == LAST
