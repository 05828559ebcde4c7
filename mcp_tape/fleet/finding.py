"""Finding the cassettes that are meant: files, directories, patterns and URLs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from glob import glob, has_magic

from ..cassette import schema
from ..cassette.query.sessions import files_in, may_be_cassette
from ..errors import CassetteError


def cassettes(places: Iterable[str]) -> list[str]:
    """The cassettes at places, in their order; those below a directory, or of a pattern, in the order of their names.

    What is named is taken as it is, whatever it is: whoever opens it says what is wrong with it. What is found, is
    taken once. CassetteError: there is none in a directory.
    """
    found = list[str]()
    for place in places:
        there = _at(place)
        known = set(found) if there != [place] else ()
        found += [path for path in there if path not in known]
    return found


def is_url(place: str) -> bool:
    return "://" in place


def below(directory: str) -> list[str]:
    """The cassettes in a directory and below, by their names and what is in them; also those that are damaged.

    A recording that waits for a review, `tape.db.new`, is none yet. CassetteError: there is none.
    """
    named = (path for path in files_in(directory) if path.endswith((".db", schema.TEXT)))
    found = [path for path in named if may_be_cassette(path) or _may_have_been(path)]
    if not found:
        raise CassetteError(
            f"{directory} is a directory without cassettes, and so are those below; give a file, e.g. tape.db"
        )
    return found


def _at(place: str) -> list[str]:
    if is_url(place):
        return _in_a_bucket(place) if place.endswith("/") else [place]
    if os.path.isdir(place):
        return below(place)
    if has_magic(place) and not os.path.lexists(place):
        return sorted(_matching(place)) or [place]  # as shells do
    return [place]


def _in_a_bucket(prefix: str) -> list[str]:
    from . import remote  # only where there is one

    found = sorted(one.url for one in remote.listed(prefix) if one.url.endswith((".db", schema.TEXT)))
    if not found:
        raise CassetteError(f"there is no cassette below {prefix}; a cassette is an object such as tape.db")
    return found


def _matching(pattern: str) -> Iterator[str]:
    for path in glob(pattern, recursive=True):
        if os.path.isdir(path):
            yield from below(path)
        else:
            yield path


def _may_have_been(path: str) -> bool:
    """Return whether a file is named as a cassette and is no other database: it may be damaged, or a pointer of LFS."""
    try:
        return path.endswith(".db") and not schema.first_bytes(path).startswith(schema.MAGIC)
    except CassetteError:
        return True
