"""Finds cassettes from files, directories, patterns and URLs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from glob import glob, has_magic

from ..cassette import schema
from ..cassette.query.inventory import files_in, may_be_cassette
from ..cassette.schema import is_url
from ..errors import CassetteError

_ENDINGS = (".db", schema.TEXT)


def cassettes(places: Iterable[str]) -> list[str]:
    """The cassettes at places, in the order given; those from a directory or a pattern are sorted by name.

    Named files are not checked: opening one reports what is wrong with it. A file that is found is taken once. Raises
    CassetteError if a directory has none.
    """
    found = list[str]()
    for place in places:
        there = _find_at(place)
        known = set(found) if there != [place] else ()
        found += [path for path in there if path not in known]
    return found


def expand_places(places: Iterable[str]) -> list[str]:
    """Replace patterns and bucket prefixes by the cassettes that they match. Directories stay."""
    return [one for place in places for one in ([place] if os.path.isdir(place) else cassettes([place]))]


def printable_place(place: str) -> str:
    """A place in a form that is safe to print: a URL may contain a signature."""
    if not is_url(place):
        return place
    from .stores import safe_name

    return safe_name(place)


def is_directory(place: str) -> bool:
    """Return whether a place means the cassettes below it: a directory, or a URL that ends with a slash."""
    return place.endswith("/") if is_url(place) else os.path.isdir(place)


def find_below(directory: str) -> list[str]:
    """The cassettes in a directory and below, recognized by name and content; damaged ones too.

    A recording that waits for a review, `tape.db.new`, is not one yet. In a bucket, only names are checked. Raises
    CassetteError if there are none.
    """
    found = list(_in_bucket(directory) if is_url(directory) else _find_on_disk(directory))
    if not found:
        what = f"there is no cassette below {directory}"
        if not is_url(directory):
            what = f"{directory} is a directory without cassettes, and so are those below"
        raise CassetteError(f"{what}; give a file, e.g. tape.db")
    return found


def _find_on_disk(directory: str) -> Iterator[str]:
    for path in files_in(directory):
        if path.endswith(_ENDINGS) and (may_be_cassette(path) or _may_have_been(path)):
            yield path


def _in_bucket(url: str) -> list[str]:
    from .stores import cassettes_below

    found = list(cassettes_below(url))
    problem = next((one.problem for one in found if one.problem), None)
    if problem is not None:
        raise CassetteError(problem)
    return sorted(one.url for one in found)


def _find_at(place: str) -> list[str]:
    if is_directory(place):
        return find_below(place)
    if has_magic(place) and not is_url(place) and not os.path.lexists(place):
        return sorted(_match_pattern(place)) or [place]  # as shells do
    return [place]


def _match_pattern(pattern: str) -> Iterator[str]:
    for path in glob(pattern, recursive=True):
        if os.path.isdir(path):
            yield from find_below(path)
        else:
            yield path


def _may_have_been(path: str) -> bool:
    """Return whether a file is named like a cassette and is no other database: it may be damaged, or an LFS pointer."""
    try:
        return path.endswith(".db") and not schema.first_bytes(path).startswith(schema.MAGIC)
    except CassetteError:
        return True
