"""Write the tables of columns in docs/lake-tables.md from the schema: python docs/make_lake.py"""

from __future__ import annotations

import re
from pathlib import Path

from mcp_tape.fleet.lake.columns import TABLES

PAGE = Path(__file__).parent / "lake-tables.md"
_COLUMNS = re.compile(r"^(<!-- columns of (\w+) -->\n).*?(?=\n\n|\Z)", re.M | re.S)


def page(text: str) -> str:
    """The text of the page, with the current columns."""
    return _COLUMNS.sub(lambda found: found[1] + _columns(found[2]), text)


def _columns(table: str) -> str:
    rows = (
        f"| `{column.name}` | {column.type} | {column.about}{' †' if column.is_content else ''} |"
        for column in TABLES[table]
    )
    return "\n".join(("| column | type | meaning |", "|---|---|---|", *rows))


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
