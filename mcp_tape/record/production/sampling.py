"""A sample of all sessions. Who is in it follows from the session's name and a seed, so that the relay and the writer
agree without talking, and a test can tell beforehand."""

from __future__ import annotations

import os
from hashlib import blake2b

from ...light import NamedTuple, pattern
from ..recorder import Recorder, Summary

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...wire.frames import Side

_SHARE = pattern(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%")
_ALL = 1 << 64


def parse_share(text: str) -> float:
    """The share that a percentage is, from 0 to 1."""
    found = _SHARE.fullmatch(text)
    share = float(found[1]) / 100 if found else 2.0
    if share > 1:
        raise ValueError(f"{text!r} is no share of all sessions; write a percentage, e.g. 1% or 0.5%")
    return share


class Sample(NamedTuple):
    share: float
    seed: bytes

    def takes(self, name: str) -> bool:
        """Return whether a session of this name is recorded."""
        drawn = blake2b(name.encode("utf-8", "surrogateescape"), key=self.seed, digest_size=8).digest()
        return int.from_bytes(drawn, "big") < self.share * _ALL

    def __str__(self) -> str:
        return f"{self.share * 100:g}%"


def drawn(share: float, seed: str | None) -> Sample:
    """A sample by chance, or by a seed."""
    return Sample(share, os.urandom(16) if seed is None else blake2b(seed.encode(), digest_size=16).digest())


class Passing(Recorder):
    """A recorder of nothing, for a session that is not in the sample."""

    def __init__(self) -> None:
        pass

    def stream(self, side: Side, channel: str) -> Callable[[bytes], None]:
        return lambda data: None

    def control(self, side: Side, channel: str, **facts: str | int | dict[str, str] | None) -> None:
        pass

    def close(self) -> Summary:
        return Summary()
