"""Putting an edited session back onto its cassette: in one transaction, or not at all.

Other sessions are not touched, so somebody may go on recording them.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from hashlib import sha256
from tempfile import TemporaryDirectory
from typing import NamedTuple, TextIO

from . import database, rebuilding, replacing
from .cassette import Cassette, Session
from .errors import CassetteError
from .formats import jsonl, sheet
from .formats.building import Builder, building
from .formats.labels import labelled
from .frames import Frame
from .ledger import Ledger


class Edit(NamedTuple):
    """What was done to a session."""

    changed: int
    added: int
    removed: int

    @property
    def is_nothing(self) -> bool:
        return self == (0, 0, 0)


def write(path: str, number: int | None, out: TextIO) -> tuple[Session, str]:
    """The session as text, and what tells later whether it is still the same."""
    with Cassette(path) as cassette:
        session = cassette.session(number)
        if session.ended_at is None and database.header_says_wal(path):
            raise CassetteError(f"session {session.id} of {path} is still being recorded; edit it when that is over")
        server = " ".join(filter(None, (session.server_name, session.server_version)))
        title = f"Session {session.id} of {os.path.basename(path)}, {server or session.transport}"
        out.write(sheet.HELP.format(title=title.encode("ascii", "backslashreplace").decode().replace("\n", " ")))
        for text in sheet.write(labelled(cassette, session.id, cassette.frames(session.id))):
            out.write(text)
        return session, _look_of(cassette.frames(session.id))


def put_back(path: str, session: Session, look: str, lines: Iterable[str]) -> Edit:
    """Replace the session by what the lines say; SheetError or CassetteError says why not, and nothing changes."""
    with TemporaryDirectory(prefix="mcp-tape-") as directory:
        new = os.path.join(directory, "new.db")
        with building(new) as builder:
            edit = _build(path, session, lines, builder)
        if edit.is_nothing:
            return edit
        try:
            _swap(path, session.id, look, new)
        except sqlite3.Error as error:
            raise CassetteError(f"{path} stays as it was: {error}") from None
    database.tidy(path)
    return edit


def _build(path: str, session: Session, lines: Iterable[str], builder: Builder) -> Edit:
    with Cassette(path) as cassette:
        keys = jsonl.hidden_keys(cassette, session.id)
        builder.begin(session._asdict())
        seen: set[int] = set()
        changed = added = 0
        for row in sheet.read(lines, lambda seq: cassette.frame(session.id, seq)):
            builder.add(row.frame, row.messages, None if row.edited or row.seq is None else keys.get(row.seq))
            if row.seq is None or row.seq in seen:
                added += 1
                continue
            seen.add(row.seq)
            changed += row.changed
        removed = cassette.counts(session.id)["frames"] - len(seen)
        if untold := builder.untold():
            builder.forget(untold & _told_by(cassette.frames(session.id)))
    if removed and not builder.frames:  # an editor that was cut short, more likely than a wish
        raise sheet.SheetError(1, f"no frame is left; to remove the session: mcp-tape rm --session {session.id} FILE")
    return Edit(changed, added, removed)


def _told_by(frames: Iterable[Frame]) -> set[str]:
    """What frames tell of their session: the names of both sides, and so on."""
    ledger = Ledger()
    for frame in frames:
        ledger.derive(frame)
    return set(ledger.facts)


def _swap(path: str, session: int, look: str, new: str) -> None:
    with closing(database.connect(path)) as db:
        database.guard(db)
        database.check(db, path)
        db.execute("PRAGMA secure_delete = ON")  # what was edited out may have been a secret
        with replacing.attached(db, new):
            if _look_of(rebuilding.stored_frames(db, session)) != look:
                raise CassetteError(f"{path} stays as it was: somebody else has changed session {session} meanwhile")
            replacing.take_over(db, session, session)


def _look_of(frames: Iterable[Frame]) -> str:
    digest = sha256()
    for frame in frames:
        digest.update(repr(frame).encode("utf-8", "backslashreplace"))
    return digest.hexdigest()
