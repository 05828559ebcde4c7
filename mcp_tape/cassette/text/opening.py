"""The one door of files that are no SQLite: each is read into a database in memory, and nothing is written beside it.

JSON lines are cassettes of ours. All others are a matter of `record`, which is above this room: its function is found
by name, when there is such a file, as that of a plug-in would be.
"""

from __future__ import annotations

import os
from importlib import import_module

from ...errors import CassetteError
from ...light import closing, sqlite3
from .. import file, schema
from . import read as lines

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from tempfile import TemporaryDirectory
    from typing import Any

    from ..build import Builder

    Load = Callable[[str, Builder, dict[str, Any], CassetteError], Sequence[str]]

FOREIGN = "mcp_tape.record.foreign"  # the module whose `load` reads all other kinds of files
LOST: dict[str, tuple[str, ...]] = {}  # by file that was read, for whoever reports it
_HEAD = 1 << 16  # bytes, by which a kind is recognized


def read(path: str, label: str | None, otherwise: CassetteError) -> tuple[sqlite3.Connection, tuple[str, ...]]:
    """Read a file into memory; the connection, and what was lost. `otherwise`: the error where it is of no kind."""
    from ..build import Builder

    builder = Builder(None)
    try:
        lost = tuple(load(path, builder, otherwise))
        builder.end()
    except sqlite3.Error as error:
        raise CassetteError(f"cannot read {path}: {error}") from None
    except OSError as error:
        raise CassetteError(f"cannot read {path}: {error.strerror}") from None
    db = builder.connection
    if label is not None:
        db.execute(schema.sessions_of(label))
    return db, lost


def copied(db: sqlite3.Connection) -> TemporaryDirectory[str]:
    """Make a file of a database in memory, for those who need one."""
    from ..older import in_a_directory

    def make(to: str) -> None:
        with closing(file.connect(to)) as copy:
            db.backup(copy)

    return in_a_directory(make)


def load(path: str, builder: Builder, otherwise: CassetteError) -> Sequence[str]:
    """Read a file of any kind but SQLite into a cassette; what was lost."""
    with open(path, "rb") as data:
        head = data.read(_HEAD)
        if lines.is_ours(head):
            data.seek(0)
            lines.load(data, path, builder, defaults(path))
            return ()
    reader: Load = import_module(FOREIGN).load
    lost = reader(path, builder, defaults(path), otherwise)
    LOST[path] = tuple(lost)
    return lost


def defaults(path: str) -> dict[str, Any]:
    """Facts of a session that says nothing of itself: it began when its file was written."""
    from datetime import datetime, timezone

    began = datetime.fromtimestamp(int(os.stat(path).st_mtime), timezone.utc)
    return {"started_at": began.isoformat().replace("+00:00", "Z"), "target": {"command": []}, "recorder": "unknown"}
