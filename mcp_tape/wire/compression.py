"""Compressed bodies, read as they come."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

from ..options import MAX_DECODED

_PIECE = 1 << 20  # what a few bytes decompress to is taken in pieces of this size
_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_RAW_DEFLATE = -15


def readable(codings: str) -> str:
    """What of an Accept-Encoding header we can read too."""
    known = [part.strip() for part in codings.split(",") if part.partition(";")[0].strip().lower() in _WINDOWS]
    return ", ".join(known) or "identity"


class TooLargeError(ValueError):
    """A few bytes that decompress to more than anybody wants to keep."""


class Decoder:
    """One compressed body. ValueError where it is none, or compressed in a way that cannot be read."""

    def __init__(self, coding: str, most: int = MAX_DECODED) -> None:
        """`most`: the bytes that it may decompress to."""
        self._window = _WINDOWS.get(coding.strip().lower())
        self._left = most
        self._body: Any = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What these bytes decompress to, in pieces."""
        if self._window is None:
            raise ValueError("unknown coding")
        try:
            full = False  # zlib may hold more back, although it has taken in all that there is
            while data or full:
                self._body = self._body or self._begin(data)
                piece = self._body.decompress(data, _PIECE)
                self._left -= len(piece)
                if self._left < 0:
                    raise TooLargeError("more than it may decompress to")
                yield piece
                data, full = self._body.unconsumed_tail, len(piece) == _PIECE
                if self._body.eof:  # another member may follow
                    data, full, self._body = self._body.unused_data, False, None
        except zlib.error as error:
            raise ValueError(str(error)) from None

    def _begin(self, data: bytes) -> Any:
        window = self._window
        # Half of all servers say deflate and mean it without the header that zlib expects.
        if window == 15 and (data[0] & 15 != 8 or (len(data) > 1 and int.from_bytes(data[:2], "big") % 31)):
            window = _RAW_DEFLATE
        return zlib.decompressobj(window or 0)
