"""Shards: a share of many cassettes for each of several workers, by content, so that the workers need not talk.

The same cassettes give the same shares, whatever their names and places. A copy is in the same share as its original. A
cassette that one worker changes, as `redact` does, may move to another share as well; none is ever left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from time import sleep
from typing import NamedTuple, TypeVar

from ..cassette import file
from ..cassette.schema import first_bytes, is_url
from ..errors import CassetteError

T = TypeVar("T")
_NAMED = re.compile(r"/([0-9a-f]{64})\.(?:db|jsonl)(?:#[^/]*)?\Z")  # the names that `push` gives
_BLOCK = 1 << 20
_TRIES, _MOMENT = 10, 0.02  # seconds


class Shard(NamedTuple):
    """A share, such as 1/4: the first of four."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def has(self, digest: str) -> bool:
        """Return whether content with this hash belongs to the share."""
        return int(digest, 16) % self.of == self.number - 1


def parse_shard(text: str) -> Shard:
    """Parse a share: `1/4` to `4/4`."""
    number, slash, of = text.partition("/")
    if not (slash and all(part.isascii() and part.isdigit() and len(part) < 7 for part in (number, of))):
        raise ValueError(f"{text!r} is not a share; write its number and how many there are, e.g. 1/4")
    if not 1 <= int(number) <= int(of):
        raise ValueError(f"{text!r} is not a share; the first of {int(of) or 4} is 1/{int(of) or 4}")
    return Shard(int(number), int(of))


def content_hash(path: str) -> str:
    """SHA-256 of a cassette's bytes, in hexadecimal digits. Raises CassetteError if it cannot be read.

    In a bucket, a name may contain the hash: then the object need not be fetched.

    Like every reader, this first puts a killed recorder's leftovers into the cassette; otherwise the first to read it
    would change its share for later readers. A cassette that is being recorded is hashed as it is now.
    """
    if is_url(path):
        if known := _NAMED.search(path):
            return known[1]
        from .cache import local

        path = local(path)
    if not first_bytes(path) and not os.path.exists(path):
        raise CassetteError(f"there is no cassette {path}")
    try:
        for _ in range(_TRIES):
            file.tidy(path)
            before, digest = file.file_state(path), _sha256(path)
            if not file.header_says_wal(path) and file.file_state(path) == before:
                break
            sleep(_MOMENT)  # another process may be tidying it up
    except OSError as error:
        raise CassetteError(f"cannot read {path}: {error.strerror}") from None
    return digest


def hash_of(files: Sequence[str]) -> str:
    """The hash of a cassette; for several that belong together, one hash of all."""
    digests = list(map(content_hash, files))
    return digests[0] if len(digests) == 1 else sha256("".join(digests).encode()).hexdigest()


def share(
    things: Iterable[T],
    shard: Shard | None,
    files: Callable[[T], Sequence[str]] = lambda path: [path],  # type: ignore[list-item]
) -> Iterator[T]:
    """Yield the cassettes that are in a share. One that cannot be read is assigned by its name.

    `files`: the files of an item, if it is not itself a path.
    """
    for thing in things:
        if shard is None or shard.has(_hash_or_name(files(thing))):
            yield thing


def _hash_or_name(files: Sequence[str]) -> str:
    try:
        return hash_of(files)
    except CassetteError:
        return sha256(b"\0".join(map(os.fsencode, files))).hexdigest()


def _sha256(path: str) -> str:
    digest = sha256()
    with open(path, "rb") as data:
        while block := data.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
