"""A cassette in another form: SQLite or text, from any readable source."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import NamedTuple

from ...errors import CassetteError, TapeError
from .. import file, replace, schema
from ..build import build_cassette
from ..reader import Cassette
from ..text import non_sqlite, read
from . import write_access

STDIN = "stdin"  # in the place of a path


class ConvertError(TapeError):
    """The output would replace a file that must be kept."""

    exit_code = 2


class ConversionCounts(NamedTuple):
    """How much was converted. `lone`: sessions that extend one that is not there, each with that one's number."""

    sessions: int
    frames: int
    lone: tuple[tuple[int, int], ...] = ()


def convert(path: str, output: str, *, as_text: bool, overwrite: bool = False) -> ConversionCounts:
    """Make a cassette from another, as a whole or not at all."""
    expect_room(output, overwrite)
    try:
        with replace.beside(output) as part:
            with Cassette(path) as cassette, closing(file.connect(part.file)) as copy:
                cassette.connection.backup(copy)
                made = count_converted(cassette)
            with write_access.connect_private(part.file):
                pass  # rewritten: a copy has the journal mode of a cassette in use
            part.put(as_text=as_text)
    except (sqlite3.Error, OSError) as error:
        raise CassetteError(f"{output} was not made: {getattr(error, 'strerror', None) or error}") from None
    return made


def build(lines: Iterable[bytes], path: str, output: str, *, overwrite: bool = False) -> ConversionCounts:
    """Make a database of lines, as a whole or not at all. `path`: where they are from, for errors."""
    expect_room(output, overwrite)
    try:
        with replace.beside(output) as part:
            defaults = non_sqlite.defaults(os.path.dirname(part.file) if path == STDIN else path)
            with build_cassette(part.file, part.path) as builder:
                loaded = read.load(lines, path, builder, defaults)
            part.put(as_text=False)
    except OSError as error:
        raise CassetteError(f"{output} was not made: {error.strerror}") from None
    extending = ((session, extends) for session, extends in loaded.sessions.items() if extends is not None)
    lone = tuple((session, extends) for session, extends in extending if extends not in loaded.sessions)
    return ConversionCounts(len(loaded.sessions), loaded.frames, lone)


def count_converted(cassette: Cassette, numbers: Sequence[int] | None = None) -> ConversionCounts:
    """The counts of a cassette that is converted, or of some of its sessions."""
    if numbers is None:
        numbers = [session.id for session in cassette.each_session()]
    frames = sum(cassette.counts(number)["frames"] for number in numbers)
    return ConversionCounts(len(numbers), frames)


def expect_room(output: str, overwrite: bool) -> None:
    """Refuse an existing output, unless it is a cassette that may be replaced."""
    replace.expect_room(output, overwrite)
    try:
        non_sqlite.expect_cassette(output)
    except schema.NoDatabaseError:
        raise ConvertError(f"{output} is not a cassette, and was not changed; choose another name") from None
