"""Bytes to lines, incrementally. Splits on b"\\n" only; loses and changes nothing."""

from __future__ import annotations

Line = tuple[bytes, bytes]  # text and line end, verbatim


class Lines:
    """Newline framing of one byte stream: what went in comes out, cut behind each newline.

    A line longer than `limit` comes out in pieces, so that a stream without newlines cannot
    eat the memory; `split` then says so.
    """

    def __init__(self, limit: int = 256 << 20) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self.split = False

    @property
    def pending(self) -> bool:
        """Whether a line has begun and not ended."""
        return self._size > 0

    def feed(self, data: bytes) -> list[Line]:
        first, newline, rest = data.partition(b"\n")
        self._parts.append(first)
        self._size += len(first)
        if not newline:
            return self._piece() if self._size >= self._limit else []
        done = [_line(self._take())]
        *lines, last = rest.split(b"\n")
        done += map(_line, lines)
        self._parts.append(last)
        self._size = len(last)
        return done

    def close(self) -> list[Line]:
        """The last line, if it had no newline."""
        last = self._take()
        return [(last, b"")] if last else []

    def _piece(self) -> list[Line]:
        self.split = True
        return [(self._take(), b"")]

    def _take(self) -> bytes:
        parts, self._parts, self._size = self._parts, [], 0
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _line(line: bytes) -> Line:
    return (line[:-1], b"\r\n") if line.endswith(b"\r") else (line, b"\n")
