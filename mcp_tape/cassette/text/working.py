"""The working database of a text: `tape.jsonl.db`, recorded into beside the text, and appended to it at the end.

So a text keeps every promise of recording: it is not written while a session is open, and a killed recorder leaves the
database. Readers of the text read it too (see `non_sqlite`), and the next recorder adds to it. Several recorders share
it, each with a lock. The last one to leave appends its sessions to the text, which is replaced as a whole, and removes
the database. Existing lines stay, byte for byte.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO

from ...errors import CassetteError
from .. import replace
from ..change.derive import hidden_keys
from ..reader import Cassette, EmptyError
from . import non_sqlite, write
from .recognize import recorder_database


class WorkingDatabase:
    """The database of a recorder, from start to end."""

    def __init__(self, path: str) -> None:
        """Wait for processes that are rewriting the text. CassetteError if it cannot be recorded into."""
        self.path, self.file = path, recorder_database(path)
        self._lock = _lock_working(self.file, shared=True)
        self.known = list(non_sqlite.sessions(path))

    def leave(self) -> None:
        """If last, append the sessions to the text. OSError and CassetteError leave the database in place."""
        if self._lock is not None and replace.claim_if_last(self._lock):
            try:
                fold(self.path)
            finally:
                replace.unlock(self.file + replace.LOCK, self._lock)


def _lock_working(file: str, *, shared: bool = False) -> int | None:
    try:
        return replace.lock(file + replace.LOCK, wait=shared, shared=shared)
    except OSError as error:
        raise CassetteError(f"cannot write {file}: {error.strerror}; choose another place") from None


@contextmanager
def lock_out_recorders(path: str) -> Iterator[bool]:
    """Keep recorders away from a text while it is changed; False if one records into it."""
    non_sqlite.expect_ours(path)
    file = recorder_database(path)
    held = _lock_working(file)
    try:
        if held is not None:
            fold(path)
        yield held is not None
    finally:
        if held is not None:
            replace.unlock(file + replace.LOCK, held)


def fold(path: str) -> None:
    """Append the sessions in the working database to the text. The caller holds the lock."""
    file = recorder_database(path)
    if not os.path.exists(file):
        return
    out = BytesIO()
    with suppress(EmptyError), Cassette(file) as left:  # empty: its recorder was killed before it had made the tables
        for session, was in non_sqlite.new_sessions(left, non_sqlite.sessions(path)):
            out.write(write.header(session))
            out.writelines(write.lines(left.frames(was), hidden_keys(left, was)))
    if out.tell():
        with replace.beside(path) as part:
            with open(part.file, "wb") as text:
                text.write(_read_ended_text(path))
                text.write(out.getbuffer())
            part.put()
    replace.remove(file)


def _read_ended_text(path: str) -> bytes:
    """The text, with its last line ended."""
    try:
        with open(path, "rb") as text:
            data = text.read()
    except FileNotFoundError:
        return b""
    return data if data.endswith(b"\n") or not data else data + b"\n"
