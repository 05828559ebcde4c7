"""The names of versions to compare: `tape.db`, `tape.db#3`, `git:v1.2:tapes/tape.db`, a command, a URL."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from ..cassette.reader import Cassette
from ..errors import CassetteError, pasted
from .versions import Version, recorded

_GIT = "git:"
_LONGEST_NAME = 200  # bytes
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
        if place.revision is not None:
            path = _from_git(stack, place)
            stack.enter_context(_named(path, place))
        else:
            path = place.path
        cassette = stack.enter_context(Cassette(path))
        version = recorded(cassette, place.session, ignore_paths)
        yield version._replace(title=reference) if version.title == path else version


@contextmanager
def _named(copy: str, place: Place) -> Iterator[None]:
    """Errors name the file in git, and not a copy that nobody will find."""
    try:
        yield
    except CassetteError as error:
        told, _, hint = str(error).rpartition("; ")
        name = f"{place.revision}:{place.path}"
        if told and copy in hint:
            hint = f"to look at it: git show {pasted(name)} > {pasted(os.path.basename(copy))}"
        raise CassetteError("; ".join(filter(None, (told, hint))).replace(copy, _GIT + name)) from None


def _from_git(stack: ExitStack, place: Place) -> str:
    """A file of a revision, copied aside."""
    blob = _blob(place)
    directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="mcp-tape-"))
    name = os.path.basename(place.path)  # git may have what no file here can be called
    copy = os.path.join(directory, name if 0 < len(os.fsencode(name)) <= _LONGEST_NAME else "tape.db")
    with open(copy, "wb") as file:
        file.write(blob)
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
            return _fetched(name, revision) if done.stdout.startswith(_LFS) else done.stdout
        whys.append(done.stderr.decode("utf-8", "replace").strip().partition("\n")[0])
    raise CassetteError(
        f"git has no {place.path} at {revision}: {whys[0]}\nTry: git ls-tree -r --name-only {revision} | grep db"
    )


def _fetched(name: str, revision: str) -> bytes:
    """The file that a pointer of git LFS stands for."""
    found = _git("cat-file", "--filters", name).stdout
    if not found or found.startswith(_LFS):
        raise CassetteError(
            f"{_GIT}{name} is a pointer of git LFS, and the cassette itself is not here\n"
            f"With git-lfs installed, try: git lfs fetch origin {pasted(revision)}"
        )
    return found


def _git(*words: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["git", *words], capture_output=True, stdin=subprocess.DEVNULL, timeout=60, check=False)
    except FileNotFoundError:
        raise CassetteError("git is not installed, so a git: reference cannot be read") from None
    except subprocess.TimeoutExpired:
        raise CassetteError("git did not answer within a minute") from None
