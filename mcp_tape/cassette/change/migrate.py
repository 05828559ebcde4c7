"""Cassettes of older schemas brought up to date, step by step. Every schema that was released is read for ever.

The steps are a set of sqlite-utils' migrations. The version of a cassette is the `user_version` of its header
(https://www.sqlite.org/pragma.html#pragma_user_version); the table in which sqlite-utils keeps count is made of that,
in the copy that is changed, and does not stay. Today there is one version, and no step; cassettes/ has a cassette of
each version, which the tests read.
"""

from __future__ import annotations

import os
import sqlite3

from sqlite_utils import Database, Migrations

from ...errors import CassetteError
from .. import file, schema
from ..reader import Cassette
from ..replace import changed

STEPS = Migrations("mcp-tape")  # each has the name of the version that it starts from, as in @STEPS(name="1")


def migrate(path: str, steps: Migrations = STEPS, target: int = schema.VERSION) -> list[int]:
    """Bring a cassette up to date; return the versions that it went through, from the one that it had."""
    version = schema.version_of(path)
    if version is None:
        what = "is empty" if os.path.exists(path) else "is not there"
        raise CassetteError(f"{path} {what}; give the path of a cassette")
    if version >= target:
        schema.check_version(path, version)
        with Cassette(path):
            return [version]  # it can be read
    with changed(path, _check, also_in_use=False) as db:
        _apply(steps, Database(db), path, range(version, target))
        db.execute(f"PRAGMA user_version = {target}")
        file.check(db, path)
    return list(range(version, target + 1))


def _apply(steps: Migrations, db: Database, path: str, versions: range) -> None:
    """Apply the steps, each in a transaction; one that fails ends it all, and the copy is thrown away."""
    steps.ensure_migrations_table(db)
    applied = db.table(steps.migrations_table)
    earlier = range(versions.start)
    applied.insert_all({"migration_set": steps.name, "name": str(n), "applied_at": ""} for n in earlier)
    if [step.name for step in steps.pending(db)] != [str(n) for n in versions]:
        raise CassetteError(f"{path} has schema {versions.start}, which no mcp-tape has made; it stays as it was")
    steps.apply(db)
    applied.drop()  # a table of others would keep other commands from changing the cassette


def _check(db: sqlite3.Connection, path: str) -> None:
    """Refuse a schema in which something may run. Its tables may be others than today's."""
    found = {(kind, name) for kind, name, _ in file.objects(db)}
    if any(kind == "trigger" for kind, _ in found):
        raise CassetteError(f"{path} holds SQL triggers, which a cassette never does; it was left alone")
    if ("table", Migrations.migrations_table) in found:
        raise CassetteError(
            f"{path} stays as it was: its table {Migrations.migrations_table} is none of a cassette's; "
            f"if you do not need it: sqlite-utils drop-table {path} {Migrations.migrations_table}"
        )
