"""The names of versions to compare: `tape.db`, `tape.db#3`, `git:v1.2:tapes/tape.db`, a command, a URL."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from .cassette import Cassette
from .diff.versions import Version, recorded
from .errors import CassetteError

_GIT = "git:"
_LFS = b"version https://git-lfs"


class Place(NamedTuple):
    """Where a recorded version is: a file, in a revision or on disk, and which of its sessions."""

    path: str
    session: str = "latest"
    revision: str | None = None


def parse(reference: str) -> Place:
    """A reference taken apart. A file whose name has a # in it is still that file."""
    if reference.startswith(_GIT):
        revision, colon, rest = reference[len(_GIT) :].partition(":")
        if not colon or not revision or not rest:
            raise CassetteError(f"{reference!r} does not name a file in git; write it as git:REVISION:path/tape.db")
        return Place(*_session(rest), revision)
    return Place(reference) if os.path.exists(reference) else Place(*_session(reference))


def _session(text: str) -> tuple[str, str]:
    path, mark, session = text.rpartition("#")
    return (path, session) if mark and (session.isdigit() or session in ("latest", "all")) else (text, "latest")


@contextmanager
def opened(reference: str, ignore_paths: Sequence[str] = ()) -> Iterator[Version]:
    """The version that a reference names, for as long as it is compared."""
    place = parse(reference)
    with ExitStack() as stack:
        path = place.path if place.revision is None else _from_git(stack, place)
        cassette = stack.enter_context(Cassette(path))
        yield recorded(cassette, place.session, ignore_paths)


def _from_git(stack: ExitStack, place: Place) -> str:
    """A file of a revision, copied aside."""
    directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="mcp-tape-"))
    copy = os.path.join(directory, os.path.basename(place.path) or "tape.db")
    with open(copy, "wb") as file:
        file.write(_blob(place))
    return copy


def _blob(place: Place) -> bytes:
    """From the repository's root, or else from the working directory, as git itself has it."""
    revision = place.revision or ""
    if revision.startswith("-"):
        raise CassetteError(f"{revision!r} is no revision of git")
    whys = []
    for name in (f"{revision}:{place.path}", f"{revision}:./{place.path}"):
        done = _git("cat-file", "blob", name)
        if done.returncode == 0:
            return _git("cat-file", "--filters", name).stdout if done.stdout.startswith(_LFS) else done.stdout
        whys.append(done.stderr.decode("utf-8", "replace").strip().partition("\n")[0])
    raise CassetteError(
        f"git has no {place.path} at {revision}: {whys[0]}\nTry: git ls-tree -r --name-only {revision} | grep db"
    )


def _git(*words: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["git", *words], capture_output=True, stdin=subprocess.DEVNULL, timeout=60, check=False)
    except FileNotFoundError:
        raise CassetteError("git is not installed, so a git: reference cannot be read") from None
    except subprocess.TimeoutExpired:
        raise CassetteError("git did not answer within a minute") from None
