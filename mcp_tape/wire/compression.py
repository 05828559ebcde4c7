"""Compressed HTTP bodies, decompressed incrementally: https://www.rfc-editor.org/rfc/rfc9110#section-8.4.1

Apart from framing.py, because a replay never needs it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from typing import Any

MAX_DECODED = 64 * 10**6  # bytes that a compressed body may decompress to: 64 kB of a bomb do
_PIECE = 1 << 20  # bytes of output at a time, however small the input
_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_RAW_DEFLATE = -15


def readable_codings(codings: str) -> str:
    """The codings in an Accept-Encoding header that `Decoder` can read, or `identity`."""
    known = [part.strip() for part in codings.split(",") if part.partition(";")[0].strip().lower() in _WINDOWS]
    return ", ".join(known) or "identity"


class BodyTooLargeError(ValueError):
    """A body that decompresses to more than the limit."""


class Decoder:
    """Decompress one body, up to a limit in bytes. ValueError for an unknown coding or a malformed body."""

    def __init__(self, coding: str, most: int = MAX_DECODED) -> None:
        self._window = _WINDOWS.get(coding.strip().lower())
        self._left = most
        self._body: Any = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Decompress the next bytes, in pieces."""
        if self._window is None:
            raise ValueError("unknown coding")
        try:
            full = False  # zlib may hold output back although it has consumed all input
            while data or full:
                self._body = self._body or self._begin(data)
                piece = self._body.decompress(data, _PIECE)
                self._left -= len(piece)
                if self._left < 0:
                    raise BodyTooLargeError("more than it may decompress to")
                yield piece
                data, full = self._body.unconsumed_tail, len(piece) == _PIECE
                if self._body.eof:  # another member may follow
                    data, full, self._body = self._body.unused_data, False, None
        except zlib.error as error:
            raise ValueError(str(error)) from None

    def _begin(self, data: bytes) -> Any:
        window = self._window
        # Many servers send raw deflate without the zlib header: https://www.rfc-editor.org/rfc/rfc9110#section-8.4.1.2
        if window == 15 and (data[0] & 15 != 8 or (len(data) > 1 and int.from_bytes(data[:2], "big") % 31)):
            window = _RAW_DEFLATE
        return zlib.decompressobj(window or 0)
