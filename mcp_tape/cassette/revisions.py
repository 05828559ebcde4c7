"""Files in a revision of git, as in `git:v1.2:tapes/tape.db`: each is read through a temporary copy."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import CassetteError, quote_path
from .schema import GIT

_LONGEST_NAME = 200  # bytes
_LFS = b"version https://git-lfs"


@contextmanager
def fetch_file(reference: str) -> Iterator[tuple[str, str]]:
    """Yield a reference and a copy of its file. Errors name the reference rather than the copy."""
    revision, path = split(reference)
    blob = _blob(revision, path)
    name = os.path.basename(path)  # git may have names that are invalid here
    with tempfile.TemporaryDirectory(prefix="mcp-tape-") as directory:
        copy = os.path.join(directory, name if 0 < len(os.fsencode(name)) <= _LONGEST_NAME else "tape.db")
        with open(copy, "wb") as file:
            file.write(blob)
        try:
            yield reference, copy
        except CassetteError as error:
            said, _, hint = str(error).rpartition("; ")
            if said and (copy in hint or "sqlite3" in hint):  # sqlite3 can't read a git: reference
                hint = (
                    f"to look at it: git show {quote_path(f'{revision}:{path}')} > {quote_path(os.path.basename(copy))}"
                )
            raise type(error)("; ".join(filter(None, (said, hint))).replace(copy, reference)) from None


def split(reference: str) -> tuple[str, str]:
    """Return the revision and the path in a reference."""
    revision, colon, path = reference[len(GIT) :].partition(":")
    if not colon or not revision or not path:
        raise CassetteError(f"{reference!r} does not name a file in git; write it as git:REVISION:path/tape.db")
    if revision.startswith("-"):
        raise CassetteError(f"{revision!r} is not a git revision")
    return revision, path


def _blob(revision: str, path: str) -> bytes:
    """Read a file of a revision, by its path from the repository's root, or else from the working directory."""
    whys = []
    for name in (f"{revision}:{path}", f"{revision}:./{path}"):
        done = git("cat-file", "blob", name)
        if done.returncode == 0:
            return _read_lfs_file(name, revision) if done.stdout.startswith(_LFS) else done.stdout
        whys.append(done.stderr.decode("utf-8", "replace").strip().partition("\n")[0])
    if "not a git repository" in whys[0]:
        raise CassetteError(
            f"{GIT}{revision}:{path} needs a git repository, and this directory is not in one; cd into one"
        )
    raise CassetteError(
        f"git has no {path} at {revision}: {whys[0]}\nTry: git ls-tree -r --name-only {revision} | grep db"
    )


def _read_lfs_file(name: str, revision: str) -> bytes:
    """Read the file behind a pointer of git LFS."""
    found = git("cat-file", "--filters", name).stdout
    if not found or found.startswith(_LFS):
        raise CassetteError(
            f"{GIT}{name} is a pointer of git LFS, and the cassette itself is not here\n"
            f"With git-lfs installed, try: git lfs fetch origin {quote_path(revision)}"
        )
    return found


def git(*words: str) -> subprocess.CompletedProcess[bytes]:
    """Run git in the working directory."""
    try:
        return subprocess.run(["git", *words], capture_output=True, stdin=subprocess.DEVNULL, timeout=60, check=False)
    except FileNotFoundError:
        raise CassetteError("git is not installed, so a git: reference cannot be read") from None
    except subprocess.TimeoutExpired:
        raise CassetteError("git did not answer within a minute") from None
