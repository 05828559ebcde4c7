"""A cassette in another form: SQLite or text, from any readable source."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import NamedTuple

from ...errors import CassetteError, TapeError
from .. import file, replace, schema
from ..reader import Cassette
from ..text import opening
from . import connect


class ConvertError(TapeError):
    """The output would replace a file that must be kept."""

    exit_code = 2


class Converted(NamedTuple):
    """How much was converted."""

    sessions: int
    frames: int


def convert(path: str, output: str, *, as_text: bool, overwrite: bool = False) -> Converted:
    """Make a cassette from another, as a whole or not at all."""
    expect_room(output, overwrite)
    try:
        with replace.beside(output) as part:
            with Cassette(path) as cassette, closing(file.connect(part.file)) as copy:
                cassette.connection.backup(copy)
                made = converted(cassette)
            with connect.private(part.file):
                pass  # rewritten: a copy has the journal mode of a cassette in use
            part.put(as_text=as_text)
    except (sqlite3.Error, OSError) as error:
        raise CassetteError(f"{output} was not made: {getattr(error, 'strerror', None) or error}") from None
    return made


def converted(cassette: Cassette) -> Converted:
    """The counts of a cassette that is converted as a whole."""
    numbers = [session.id for session in cassette.each_session()]
    frames = sum(cassette.counts(number)["frames"] for number in numbers)
    return Converted(len(numbers), frames)


def expect_room(output: str, overwrite: bool) -> None:
    """Refuse an existing output, unless it is a cassette that may be replaced."""
    replace.expect_room(output, overwrite)
    try:
        opening.expect_cassette(output)
    except schema.NoDatabaseError:
        raise ConvertError(f"{output} is no cassette, and stays as it is; choose another name") from None
