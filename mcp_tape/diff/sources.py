"""The versions that a command line names: `tape.db`, `tape.db#3`, `git:v1.2:tapes/tape.db`, `mcp.lock`.

`tape.db#git` is the server named git, if a cassette or a lock has several. A URL is a file's if it begins with s3://,
gs:// or az://, or ends in .db or .jsonl.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from ..cassette import revisions
from ..cassette.reader import Cassette
from ..cassette.schema import GIT, is_remote
from ..cassette.text.non_sqlite import fetch_copy
from ..compare.lock import HEAD, Lock, is_lock
from ..compare.versions import Version, recorded_version
from ..redaction.diagnostics import Rules
from .surveys import LiveTarget, survey_like

LOCK = ".lock"


class RecordingReference(NamedTuple):
    """The place of a recorded version: a file, and a session or a server of it."""

    path: str
    session: str = "latest"
    label: str | None = None


def is_live(reference: str) -> bool:
    """Return whether a reference is the URL of a live server."""
    path = reference.partition("#")[0].partition("?")[0]
    return reference.startswith(("http://", "https://")) and not path.endswith((".db", ".jsonl", LOCK))


def parse(reference: str) -> RecordingReference:
    """Parse a reference. A file that exists is itself, even with a # in its name."""
    if reference.startswith(GIT):
        revision, path = revisions.split(reference)
        place = _parse_fragment(path)
        return place._replace(path=f"{GIT}{revision}:{place.path}")
    return RecordingReference(reference) if os.path.exists(reference) else _parse_fragment(reference)


def _parse_fragment(text: str) -> RecordingReference:
    path, mark, which = text.rpartition("#")
    if mark and (which.isdigit() or which in ("latest", "all")):
        return RecordingReference(path, which)
    return (
        RecordingReference(path, label=which)
        if which and path.endswith((".db", ".jsonl", LOCK))
        else RecordingReference(text)
    )


class Sides(NamedTuple):
    """Two versions of a server to compare; None for a missing one. `lock`: a lock to show changes in, and the server's
    name in it."""

    old: Version | None
    new: Version | None
    name: str = ""  # if there are several
    lock: tuple[Lock, str] | None = None


class OpenReference(NamedTuple):
    """An open reference: a lock with the name of a server, or a recorded version."""

    lock: Lock | None
    name: str | None
    recorded: Version | None
    is_here: bool  # not in git or at a URL

    def version(self) -> Version:
        return self.recorded or self.lock.version(self.name)  # type: ignore[union-attr]

    @property
    def place(self) -> tuple[Lock, str] | None:
        """The lock to show changes in, and the server's name there."""
        return (self.lock, self.lock.resolve_name(self.name)) if self.lock and self.is_here else None


@contextmanager
def sides(old: str, new: str | LiveTarget, rules: Rules, ignore_paths: Sequence[str] = ()) -> Iterator[list[Sides]]:
    """The versions to compare: two or, for two locks, two of each server. Only NEW can be live."""
    with ExitStack() as stack:
        before = _open(stack, old, ignore_paths)
        if isinstance(new, LiveTarget):
            version = before.version()
            yield [Sides(version, survey_like(version, new, rules), lock=before.place)]
            return
        after = _open(stack, new, ignore_paths)
        if before.lock and after.lock and before.name is None and after.name is None:
            names = sorted({*before.lock.names, *after.lock.names})
            if before.lock.names != after.lock.names or len(names) > 1:
                yield [_of_locks(before.lock, after.lock, name) for name in names]
                return
        yield [Sides(before.version(), after.version(), lock=after.place or before.place)]


def _of_locks(old: Lock, new: Lock, name: str) -> Sides:
    before, after = (one.version(name) if name in one.names else None for one in (old, new))
    return Sides(before, after, name, (new, name) if after else None)


def read_lock(reference: str) -> Lock | None:
    """Read the lock that a reference names; None if it is not a lock."""
    with ExitStack() as stack:
        return _lock_at(stack, parse(reference).path)


def _open(stack: ExitStack, reference: str, ignore_paths: Sequence[str]) -> OpenReference:
    place = parse(reference)
    if lock := _lock_at(stack, place.path):
        return OpenReference(lock, place.label, None, not is_remote(place.path))
    cassette = stack.enter_context(Cassette(place.path, place.label))
    version = recorded_version(cassette, place.session, ignore_paths)
    if version.title == place.path:
        version = version._replace(title=reference)
    return OpenReference(None, None, version, True)


def _lock_at(stack: ExitStack, path: str) -> Lock | None:
    """Read a lock; None for any other file, and for an unreadable one."""
    name = path
    if is_remote(path) and path.partition("?")[0].endswith(LOCK):
        name, path = stack.enter_context(fetch_copy(path))
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD)
            return Lock(head + file.read(), name) if is_lock(head) else None
    except OSError:
        return None  # the cassette reports why
