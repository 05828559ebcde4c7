"""Cassettes of older schemas brought up to date where they stand: `cassette.older` has what that takes."""

from __future__ import annotations

import os

from ...errors import CassetteError
from .. import schema
from ..reader import Cassette
from ..text.names import is_text
from .connect import bring_up_to_date


def migrate(path: str) -> list[int]:
    """Bring a cassette up to date; return the version that it had and, if that is another, the one that it has."""
    if is_text(path) and schema.is_there(path):
        with Cassette(path):  # made anew as today's whenever it is read
            return [schema.VERSION]
    version = schema.version_of(path)
    if version is None:
        what = "is empty" if os.path.exists(path) else "is not there"
        raise CassetteError(f"{path} {what}; give the path of a cassette")
    schema.check_version(path, version)
    bring_up_to_date(path)
    with Cassette(path):  # it can be read
        return sorted({version, schema.VERSION})
