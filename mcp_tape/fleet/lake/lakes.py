"""Lakes in directories and buckets. A file gets there whole or not at all, and never twice.

`lake.json` at its root describes the lake. The first run writes it, and all later runs must agree: rows of two schema
versions, or with and without content, would be duplicates.
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from ...cassette import replace
from ...errors import CassetteError, TapeError
from .. import download, stores
from .columns import VERSION

ROOT = "lake.json"
_STAGED = "mcp-tape-lake"  # prefix of a private directory's name, after a dot
_LARGE = 8 << 20  # bytes: larger files are sent in parts, and not held in memory


class Lake(Protocol):
    """A directory or a bucket. Names are relative, with slashes."""

    name: str

    def has(self, name: str) -> bool:
        """Return whether a file of this name exists."""

    def read(self, name: str) -> bytes:
        """The content of a small file; empty if there is none."""

    def put(self, file: str, name: str) -> None:
        """Move a finished file to a name, unless one exists."""

    def staging(self) -> Any:
        """A context with a private directory for unfinished files."""


class LakeError(TapeError):
    """The lake itself cannot be written, so no other cassette can be added either."""


class DirectoryLake:
    """A lake in a local directory."""

    def __init__(self, path: str) -> None:
        self.name = path
        with report_errors(path):
            os.makedirs(path, exist_ok=True)

    def has(self, name: str) -> bool:
        return os.path.exists(os.path.join(self.name, name))

    def read(self, name: str) -> bytes:
        with suppress(FileNotFoundError), open(os.path.join(self.name, name), "rb") as file:
            return file.read()
        return b""

    def put(self, file: str, name: str) -> None:
        target = os.path.join(self.name, name)
        with report_errors(self.name, (CassetteError,)):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            replace.DraftFile(file, target).put_first()

    def staging(self) -> Any:
        return _private(self.name, self.name)


class BucketLake:
    """A lake at a URL. Files are made in a local directory, and sent whole."""

    def __init__(self, url: str) -> None:
        self.name = url.rstrip("/")
        with self._report_store_errors():
            stores.expect_bucket(url, "a lake")
            self._store, self._prefix = stores.open_store(self.name)

    def has(self, name: str) -> bool:
        import obstore

        with self._report_store_errors():
            try:
                stores.wait_for(self.name, lambda: obstore.head_async(self._store, self._key(name)))
            except FileNotFoundError:
                return False
        return True

    def read(self, name: str) -> bytes:
        with self._report_store_errors():
            try:
                return stores.wait_for(self.name, lambda: self._read(name))
            except FileNotFoundError:
                return b""

    async def _read(self, name: str) -> bytes:
        import obstore

        answer = await obstore.get_async(self._store, self._key(name))
        download.size_of(answer, f"{self.name}/{name}", _LARGE)
        return bytes(await answer.bytes_async())

    def put(self, file: str, name: str) -> None:
        from obstore.exceptions import AlreadyExistsError, NotSupportedError

        key = self._key(name)
        with self._report_store_errors():
            if os.path.getsize(file) <= _LARGE:
                try:
                    self._send(key, file, mode="create", use_multipart=False)
                    return
                except AlreadyExistsError:
                    return
                except NotSupportedError:
                    pass  # writing it twice is harmless: equal names mean equal content; the same holds for parts
            if not self.has(name):
                self._send(key, file)

    def _send(self, key: str, file: str, **more: Any) -> None:
        import obstore

        stores.wait_for(self.name, lambda: obstore.put_async(self._store, key, Path(file), **more))

    def staging(self) -> Any:
        return _private(tempfile.gettempdir(), self.name)

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name

    @contextmanager
    def _report_store_errors(self) -> Iterator[None]:
        """Report a store's error as an error of the lake, in our words."""
        try:
            yield
        except LakeError:
            raise
        except Exception as error:
            raise LakeError(f"cannot write the lake {self.name}: {stores.translate_error(error, self.name)}") from None


def open_lake(dest: str, with_content: bool) -> Lake:
    """Open the lake at a place, or create it. Raises LakeError if it is another kind of lake."""
    place: Lake = BucketLake(dest) if stores.is_url(dest) else DirectoryLake(dest)
    facts = {"schema": VERSION, "content": with_content}
    found = place.read(ROOT)
    if not found:
        with place.staging() as directory, report_errors(dest):
            file = os.path.join(directory, ROOT)
            with open(file, "w", encoding="utf-8") as out:
                json.dump(facts, out)
            place.put(file, ROOT)
        found = place.read(ROOT)
    _expect(dest, found, facts)
    return place


def _expect(dest: str, found: bytes, facts: dict[str, Any]) -> None:
    try:
        there = json.loads(found)
        there = {name: there[name] for name in facts}
    except (ValueError, TypeError, KeyError):
        raise LakeError(f"{dest} is not a lake: its {ROOT} describes something else; choose another place") from None
    if there != facts:
        asked = f"and not {_words(facts)}; choose another place"
        raise LakeError(f"{dest} is a lake {_words(there)}, {asked}")


def _words(facts: dict[str, Any]) -> str:
    return f"{'with' if facts['content'] else 'without'} content (schema {facts['schema']})"


@contextmanager
def _private(directory: str, dest: str) -> Iterator[str]:
    """A private directory inside another. It is removed at the end, or after a kill by the next run."""
    with ExitStack() as stack:
        with report_errors(dest, (CassetteError,)):
            part = stack.enter_context(replace.beside(os.path.join(directory, _STAGED)))
        yield os.path.dirname(part.file)


@contextmanager
def report_errors(dest: str, more: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Report disk errors, and others given, as errors of the lake."""
    errors: tuple[type[Exception], ...] = (OSError, *more)
    try:
        yield
    except LakeError:
        raise
    except errors as error:
        number = error.errno if isinstance(error, OSError) else None
        why = os.strerror(number) if number else str(error)
        is_unwritable = number in (errno.EEXIST, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EROFS)
        hint = "name a directory that you can write to" if is_unwritable else "its files are complete: try again"
        raise LakeError(f"cannot write the lake {dest}: {why}; {hint}") from None
