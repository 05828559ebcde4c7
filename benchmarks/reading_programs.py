"""What reading.py measures, each as a process of its own, so that its memory is its own.

`python reading_programs.py WAY FILE` is a yardstick; `python reading_programs.py mcp-tape COMMAND...` is that command.
The last line on stderr is the peak of memory, in bytes.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing

from peak import peak

COUNTED, READ, HELD = "counted", "read", "held"
TAPE = "mcp-tape"


def _rows(file: str, sql: str) -> Iterator[tuple[str]]:
    with closing(sqlite3.connect(file)) as db:
        yield from db.execute(sql)


def counted(file: str) -> object:
    return list(_rows(file, "SELECT count(*) FROM frames"))


def read(file: str) -> object:
    """Every text once, in order, and none of them kept."""
    return sum(len(text) for (text,) in _rows(file, "SELECT text FROM frames ORDER BY session, seq"))


def held(file: str) -> object:
    return list(_rows(file, "SELECT text FROM frames ORDER BY session, seq"))


def tape(*words: str) -> object:
    from mcp_tape.__main__ import main

    sys.argv = [TAPE, *words]
    return main()


WAYS = {COUNTED: counted, READ: read, HELD: held, TAPE: tape}

if __name__ == "__main__":
    try:
        WAYS[sys.argv[1]](*sys.argv[2:])
    finally:
        print(peak(), file=sys.stderr)
