"""Putting an edited session back onto its cassette: in one transaction, or not at all.

Other sessions are not touched, so somebody may go on recording them. The session itself may be recorded, too: what came
since it was written out stays, and as the recorder goes on counting, the frames before keep their numbers.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from hashlib import sha256
from itertools import takewhile
from tempfile import TemporaryDirectory
from typing import NamedTuple, TextIO

from ..cassette import derive, file, writer
from ..cassette.build import Builder, building
from ..cassette.change import edit
from ..cassette.query.rows import labelled
from ..cassette.reader import Cassette, Session
from ..errors import CassetteError
from ..wire.frames import Frame
from ..wire.ledger import Ledger
from . import sheet

_WAITS = "the request in frame {} waits for its answer; edit it when that has come"
_NOT_WHILE_OPEN = "the session may still be recorded: frames can be changed and deleted, but not added or moved"


class Edit(NamedTuple):
    """What was done to a session."""

    changed: int
    added: int
    removed: int

    @property
    def is_nothing(self) -> bool:
        return self == (0, 0, 0)


class Written(NamedTuple):
    """A session that was written out, and what tells later whether it is still the same."""

    session: Session
    last: int  # of its frames; more may come while it is open
    is_open: bool
    look: str


def write(path: str, number: int | None, out: TextIO) -> Written:
    """The session as text."""
    with Cassette(path) as cassette:
        session = cassette.session(number)
        is_open = session.ended_at is None and file.header_says_wal(path)
        last = cassette.rows("SELECT coalesce(max(seq), 0) FROM frames WHERE session = ?", (session.id,))[0][0]
        server = " ".join(filter(None, (session.server_name, session.server_version)))
        title = f"Session {session.id} of {os.path.basename(path)}, {server or session.transport}"
        out.write(sheet.HELP.format(title=title.encode("ascii", "backslashreplace").decode().replace("\n", " ")))
        for text in sheet.write(labelled(cassette, session.id, _until(last, cassette.frames(session.id)))):
            out.write(text)
        return Written(session, last, is_open, _look_of(_until(last, cassette.frames(session.id))))


def put_back(path: str, written: Written, lines: Iterable[str]) -> Edit:
    """Replace the session by what the lines say; SheetError or CassetteError says why not, and nothing changes."""
    with TemporaryDirectory(prefix="mcp-tape-") as directory:
        new = os.path.join(directory, "new.db")
        with building(new) as builder:
            edit, untold = _build(path, written, lines, builder)
        if edit.is_nothing:
            return edit
        try:
            _swap(path, written, untold, new)
        except sqlite3.Error as error:
            raise CassetteError(f"{path} stays as it was: {error}") from None
    file.tidy(path)
    return edit


def _build(path: str, written: Written, lines: Iterable[str], builder: Builder) -> tuple[Edit, set[str]]:
    """What was done, and what the frames no longer tell of the session."""
    session, last = written.session, written.last
    with Cassette(path) as cassette:
        keys = derive.hidden_keys(cassette, session.id)
        builder.begin(session._asdict())
        seen: set[int] = set()
        changed = added = 0
        for row in sheet.read(lines, lambda seq: cassette.frame(session.id, seq) if seq <= last else None):
            if written.is_open and row.frame.seq != row.seq:
                raise sheet.SheetError(row.line, _NOT_WHILE_OPEN)
            builder.add(row.frame, row.messages, None if row.edited or row.seq is None else keys.get(row.seq))
            if row.seq is None or row.seq in seen:
                added += 1
                continue
            seen.add(row.seq)
            changed += row.changed
        sql = "SELECT count(*) FROM frames WHERE session = ? AND seq <= ?"
        removed = cassette.rows(sql, (session.id, last))[0][0] - len(seen)
        untold = builder.untold()
        if untold:
            untold &= _told_by(_until(last, cassette.frames(session.id)))
            builder.forget(untold)
    if removed and not builder.frames:  # an editor that was cut short, more likely than a wish
        raise sheet.SheetError(1, f"no frame is left; to remove the session: mcp-tape rm --session {session.id} FILE")
    return Edit(changed, added, removed), untold


def _told_by(frames: Iterable[Frame]) -> set[str]:
    """What frames tell of their session: the names of both sides, and so on."""
    ledger = Ledger()
    for frame in frames:
        ledger.derive(frame)
    return set(ledger.facts)


def _swap(path: str, written: Written, untold: set[str], new: str) -> None:
    number = written.session.id
    with closing(file.connect(path)) as db:
        file.guard(db)
        file.check(db, path)
        db.execute("PRAGMA secure_delete = ON")  # what was edited out may have been a secret
        with edit.attached(db, new):
            last = written.last if written.is_open else None
            if _look_of(derive.stored_frames(db, number, last)) != written.look:
                raise CassetteError(f"{path} stays as it was: somebody else has changed session {number} meanwhile")
            if last is None:
                edit.take_over(db, number, number)
                return
            waiting = edit.amend(db, number, last)
            if waiting:
                raise CassetteError(f"{path} stays as it was: {_WAITS.format(waiting[0])}")
            if untold:
                writer.update_session(db, number, dict.fromkeys(untold))
            derive.rebuild_session(db, number)


def _until(last: int, frames: Iterable[Frame]) -> Iterator[Frame]:
    return takewhile(lambda frame: frame.seq <= last, frames)


def _look_of(frames: Iterable[Frame]) -> str:
    digest = sha256()
    for frame in frames:
        digest.update(repr(frame).encode("utf-8", "backslashreplace"))
    return digest.hexdigest()
