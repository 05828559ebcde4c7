"""The cassettes that a model may read: those at or below the server's files and directories."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from ..cassette.query.inventory import cassettes_in
from ..cassette.query.sql import STEPS
from ..cassette.reader import Cassette
from ..cassette.schema import absolute, is_remote
from ..errors import CassetteError, quote_path
from .paging import ToolError, short

_NAMED = 5  # files to name in an error


class ReadableCassettes:
    """Files and directories, by the names that the user gave."""

    def __init__(self, given: Sequence[str]) -> None:
        self.given = tuple(given)
        self._roots = [os.path.realpath(path) for path in given]

    def cassettes(self) -> Iterator[str]:
        """Yield every cassette once, by a name that `path_of` accepts."""
        seen = set()
        for place in self.given:
            if is_remote(place):
                yield place
                continue
            for path in cassettes_in(place) if os.path.isdir(place) else [place]:
                real = os.path.realpath(path)
                if real not in seen and os.path.isfile(path) and self._is_inside(real):
                    seen.add(real)
                    yield path

    def path_of(self, file: str | None) -> str:
        """Return the path of the cassette that a model names, or of the only one."""
        if file is None:
            return self._only_one()
        if is_remote(file) and file in self.given:
            return file
        try:
            real = os.path.realpath(file)
        except ValueError:  # a NUL byte
            raise ToolError("that is not a file name; list_cassettes has the names") from None
        # Reveal nothing about other files, not even whether they exist.
        if not self._is_inside(real):
            raise ToolError(
                f"refused: {short(file)} is not among the cassettes that may be read here, which are at or below: "
                f"{self._printable_places()}. list_cassettes has their names."
            )
        if not os.path.isfile(real):
            raise ToolError(f"there is no cassette {short(file)}; list_cassettes has the names of those there are")
        return file

    def paths_of(self, file: str | None, session: int | None) -> list[str]:
        """Return the paths of the cassettes that a model means: the one it names, or all.

        A session belongs to one cassette.
        """
        if file is not None or session is not None:
            return [self.path_of(file)]
        return list(self.cassettes()) or [self._only_one()]

    def _is_inside(self, real: str) -> bool:
        """Return whether a path without links is one of the roots, or below one."""
        return any(real == root or real.startswith(os.path.join(root, "")) for root in self._roots)

    def _only_one(self) -> str:
        few = list(islice(self.cassettes(), _NAMED + 1))
        if len(few) == 1:
            return few[0]
        if not few:
            raise ToolError(f"there is no cassette at or below {self._printable_places()}. {HOW_TO_RECORD}")
        named = ", ".join(few[:_NAMED]) + (", …" if len(few) > _NAMED else "")
        raise ToolError(f'there are several cassettes: name one as "file", such as {few[0]!r}. There are: {named}')

    def _printable_places(self) -> str:
        return ", ".join(map(absolute, self.given))


HOW_TO_RECORD = "Record one with: mcp-tape record -- SERVER"


def readable_cassettes(files: Sequence[str]) -> ReadableCassettes:
    """The places of a command line. Each must exist."""
    for file in files:
        if not os.path.exists(file) and not is_remote(file):
            raise CassetteError(
                f"there is no cassette at {file}; record one with: mcp-tape record -o {quote_path(file)} -- SERVER"
            )
    return ReadableCassettes(files)


class ToolCall:
    """One call of a tool: the cassettes that it may read, and whether the client still waits."""

    def __init__(self, places: ReadableCassettes, is_stopped: Callable[[], bool] = lambda: False) -> None:
        self.places, self.is_stopped = places, is_stopped
        self._stops: list[Callable[[], None]] = []

    def stop(self) -> None:
        """Stop work elsewhere for this call, once `is_stopped` is true."""
        for stop in [*self._stops]:
            stop()

    @contextmanager
    def stop_with(self, stop: Callable[[], None]) -> Iterator[None]:
        """Let `stop` end work elsewhere while the context is open."""
        self._stops.append(stop)
        if self.is_stopped():
            stop()
        try:
            yield
        finally:
            self._stops.remove(stop)

    @contextmanager
    def open_cassette(self, file: str | None, label: str | None = None) -> Iterator[Cassette]:
        with Cassette(self.places.path_of(file), label) as cassette:
            cassette.connection.set_progress_handler(self.is_stopped, STEPS)
            yield cassette

    def check(self, *_: object) -> None:
        """End a call that the client no longer waits for."""
        if self.is_stopped():
            raise ToolError("stopped")
