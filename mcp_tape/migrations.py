"""Cassettes of older schemas brought up to date, step by step. What was made once is readable for ever.

Each step takes a cassette from one version to the next, as a function of a sqlite-utils database. The version that a
cassette has stands in its own header (`user_version`), so no table has to keep count of steps. Today there is one
version, and no step; cassettes/ has a cassette of each version, which the tests read.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from . import database, schema
from .cassette import Cassette
from .errors import CassetteError
from .remaking import remade

if TYPE_CHECKING:
    from sqlite_utils import Database

Step = Callable[["Database"], None]
STEPS: Mapping[int, Step] = {}  # by the version that a step starts from


def migrate(path: str, steps: Mapping[int, Step] = STEPS, target: int = schema.VERSION) -> list[int]:
    """Bring a cassette up to date; the versions that it went through, from the one that it had."""
    version = schema.version_of(path)
    if version is None:
        what = "is empty" if os.path.exists(path) else "is not there"
        raise CassetteError(f"{path} {what}; give the path of a cassette")
    if version >= target:
        schema.check_version(path, version)
        with Cassette(path):
            return [version]  # it can be read
    versions = [version]
    if not all(number in steps for number in range(version, target)):
        raise CassetteError(f"{path} has schema {version}, which no mcp-tape has made; it stays as it was")
    from sqlite_utils import Database  # takes a while

    with remade(path, _check) as db:
        for number in range(version, target):
            steps[number](Database(db))
            db.execute(f"PRAGMA user_version = {number + 1}")
            versions.append(number + 1)
        database.check(db, path)
    return versions


def _check(db: sqlite3.Connection, path: str) -> None:
    """Its tables may be others than today's, but nothing in it may run."""
    if any(kind == "trigger" for kind, _ in database.objects(db)):
        raise CassetteError(f"{path} holds SQL triggers, which a cassette never does; it was left alone")
