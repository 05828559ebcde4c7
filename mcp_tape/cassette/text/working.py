"""What is recorded into a text: a database beside it, `tape.jsonl.db`, which becomes lines of the text at the end.

So a text keeps every promise of recording: nothing of it is written while a session goes on, and a killed recorder
leaves the database. Whoever reads the text reads that, too (see `opening`), and the next recorder adds to it. Several
recorders share it, each with a lock; the last one out appends its sessions to the text, which replaces the old one as
a whole, and removes it. Lines that are there stay as they are, byte for byte.
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
from . import opening, write
from .names import written


class Working:
    """The database of a recorder, from its beginning to its end."""

    def __init__(self, path: str) -> None:
        """Wait for others who are just making the text anew. CassetteError: it cannot be recorded into."""
        self.path, self.file = path, written(path)
        self._lock = _locked(self.file, shared=True)
        self.known = list(opening.sessions(path))

    def leave(self) -> None:
        """Append what is there to the text, as the last one; OSError and CassetteError leave it where it is."""
        if self._lock is not None and replace.is_last(self._lock):
            try:
                fold(self.path)
            finally:
                replace.unlock(self.file + replace.LOCK, self._lock)


def _locked(file: str, *, shared: bool = False) -> int | None:
    try:
        return replace.lock(file + replace.LOCK, wait=shared, shared=shared)
    except OSError as error:
        raise CassetteError(f"cannot write {file}: {error.strerror}; choose another place") from None


@contextmanager
def alone(path: str) -> Iterator[bool]:
    """Keep recorders away from a text while it is changed; False where somebody records into it."""
    opening.expect_ours(path)
    file = written(path)
    held = _locked(file)
    try:
        if held is not None:
            fold(path)
        yield held is not None
    finally:
        if held is not None:
            replace.unlock(file + replace.LOCK, held)


def fold(path: str) -> None:
    """Make lines of the text of what was recorded. The caller has the lock."""
    file = written(path)
    if not os.path.exists(file):
        return
    out = BytesIO()
    with suppress(EmptyError), Cassette(file) as left:  # empty: its recorder was killed before it had made the tables
        for session, was in opening.new_sessions(left, opening.sessions(path)):
            out.write(write.header(session))
            write.dump(left.frames(was), out, hidden_keys(left, was))
    if out.tell():
        with replace.beside(path) as part:
            with open(part.file, "wb") as text:
                text.write(_ended(path))
                text.write(out.getbuffer())
            part.put()
    replace.remove(file)


def _ended(path: str) -> bytes:
    """The text as it is, its last line ended."""
    try:
        with open(path, "rb") as text:
            data = text.read()
    except FileNotFoundError:
        return b""
    return data if data.endswith(b"\n") or not data else data + b"\n"
