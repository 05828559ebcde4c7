"""Incremental framing of byte streams: lines, whole bodies, server-sent events. No byte is lost or changed.

stdio: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio
Event streams: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

from ..light import NamedTuple, pattern

Line = tuple[bytes, bytes]  # text and line end, verbatim
_LIMIT = 256 << 20
_BREAK = pattern(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"

EVENT_STREAM = "text/event-stream"


class _Buffer:
    """An unfinished unit.

    A unit longer than `limit` is returned in pieces and sets `split`, so that an endless stream cannot exhaust memory.
    """

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self.split = False

    def _take(self) -> bytes:
        parts, self._parts, self._size = self._parts, [], 0
        return parts[0] if len(parts) == 1 else b"".join(parts)


class Lines(_Buffer):
    """Newline framing of one byte stream, split on b"\\n" only, without changing a byte."""

    @property
    def pending(self) -> bool:
        """True within a line."""
        return self._size > 0

    def feed(self, data: bytes) -> list[Line]:
        *lines, rest = data.split(b"\n")
        if lines and self._size:
            self._parts.append(lines[0])
            lines[0] = self._take()
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
        found = [(line[:-1], b"\r\n") if line[-1:] == b"\r" else (line, b"\n") for line in lines]
        return found + self.overflow() if self._size >= self._limit else found

    def take_complete(self, data: bytes) -> list[bytes]:
        """Take data; return the lines it completes. Complete lines that arrive together come as one piece."""
        pieces, start, end = [], 0, data.rfind(b"\n") + 1
        if self._size and end:
            start = data.index(b"\n") + 1
            self._parts.append(data[:start])
            pieces.append(self._take())
        if start < end:
            pieces.append(data[start:end])
        if end < len(data):
            self._parts.append(data[end:])
            self._size += len(data) - end
        return pieces

    def overflow(self) -> list[Line]:
        """Return an unfinished line that has reached the limit."""
        if self._size < self._limit:
            return []
        self.split = True
        return [(self._take(), b"")]

    def close(self) -> list[Line]:
        """Return the last line, if it had no newline."""
        last = self._take()
        return [(last, b"")] if last else []


def lines_of(lines: bytes) -> list[Line]:
    """Split a block of complete lines."""
    return [_line(line) for line in lines[:-1].split(b"\n")]


def _line(line: bytes) -> Line:
    return (line[:-1], b"\r\n") if line.endswith(b"\r") else (line, b"\n")


class WholeBody(_Buffer):
    """A body that is one frame, however it was chunked."""

    def feed(self, data: bytes) -> list[Line]:
        self._parts.append(data)
        self._size += len(data)
        if self._size < self._limit:
            return []
        self.split = True
        return self.close()

    def close(self) -> list[Line]:
        """Return the body, and the line end that some servers append."""
        body = self._take()
        if not body:
            return []
        return [_line(body[:-1])] if body.endswith(b"\n") else [(body, b"")]


class Event(NamedTuple):
    """One event of a stream: its data, and its other lines verbatim.

    `text` is None for a block of comments. `eol` is empty if the stream ended within the event; clients discard such an
    event.
    """

    head: bytes
    text: bytes | None
    eol: bytes

    def field(self, name: bytes) -> str | None:
        return field(self.head, name)


def field(head: bytes, name: bytes) -> str | None:
    """Return the last value of a field in the head of an event."""
    found = None
    for line in _BREAK.split(head.removeprefix(_BOM)):
        key, _, value = line.partition(b":")
        if key == name:
            found = value.removeprefix(b" ").decode("utf-8", "replace")
    return found


class Events(_Buffer):
    """Event-stream framing. Lines end with LF, CRLF or CR, and chunks may end anywhere."""

    def __init__(self, limit: int = _LIMIT) -> None:
        super().__init__(limit)  # `_parts` holds the current line
        self._carry = b""  # a CR that may be the first half of a CRLF
        self._head: list[bytes] = []
        self._data: list[bytes] | None = None
        self._eol = b"\n"
        self._is_first = True  # the first line of a stream may begin with a byte order mark

    @property
    def pending(self) -> bool:
        """True within an event. A byte order mark alone does not start one."""
        begun = self._parts and not (self._is_first and b"".join(self._parts) == _BOM)
        return bool(begun or self._head or self._data is not None)

    def feed(self, data: bytes) -> list[Event]:
        events: list[Event] = []
        start, data = 0, self._hold_back_break(data)
        for found in _BREAK.finditer(data):
            event = self._line(self._join_line(data[start : found.start()]), found[0])
            if event:
                events.append(event)
            start = found.end()
        if start < len(data):
            self._parts.append(data[start:])
            self._size += len(data) - start
        if self._size >= self._limit:
            self.split = True
            events += self.close()
        return events

    def close(self) -> list[Event]:
        """Return the unfinished event at the end of the stream, if any."""
        rest = self._join_line(b"")
        if rest:
            self._line(rest, b"")
        self._carry = b""
        event = self._event()
        return [event._replace(eol=b"")] if event else []

    def _hold_back_break(self, data: bytes) -> bytes:
        """Hold back a trailing CR, which may be half of a CRLF.

        A CR that ends a blank line, and so the event, is not held back: a LF after it would only end another blank
        line.
        """
        data, self._carry = self._carry + data, b""
        if data.endswith(b"\r"):
            before = data[:-1]
            blank = before.endswith((b"\r", b"\n")) if before else not self._parts
            if not blank:
                data, self._carry = before, b"\r"
        return data

    def _join_line(self, last: bytes) -> bytes:
        if not self._parts:
            return last
        self._size -= sum(map(len, self._parts))  # `_line` counts the whole line
        parts, self._parts = [*self._parts, last], []
        return b"".join(parts)

    def _line(self, line: bytes, eol: bytes) -> Event | None:
        bare = line.removeprefix(_BOM) if self._is_first else line
        self._is_first = False
        if not bare:
            return self._event()
        name, _, value = bare.partition(b":")
        if name == b"data":
            self._data = self._data or []
            self._data.append(value.removeprefix(b" "))
            self._eol = eol
        else:
            self._head.append(line + eol)
        self._size += len(line)
        return None

    def _event(self) -> Event | None:
        head, data, eol = b"".join(self._head), self._data, self._eol
        self._head, self._data, self._eol, self._size = [], None, b"\n", 0
        if not head and data is None:
            return None
        if data is None and any(not line.startswith(b":") for line in _BREAK.split(head) if line):
            data = [b""]  # an id or a retry on its own
        return Event(head, None if data is None else b"\n".join(data), eol)


def is_event_stream(content_type: str | None) -> bool:
    """True if a body of this type is an event stream."""
    return (content_type or "").lower().startswith(EVENT_STREAM)


def encode(head: bytes, text: bytes, eol: bytes) -> bytes:
    """Return an event as bytes, with one `data:` line per line of the text."""
    lines = b"".join(b"data: " + line + eol for line in _BREAK.split(text))
    return head + lines + eol
