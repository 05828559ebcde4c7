"""Times as other tools write them, in microseconds."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from ...wire.times import read_time
from ..foreign import microseconds


def milliseconds(value: Any) -> int:
    return microseconds(value * 1000 if isinstance(value, (int, float)) else None)


class Clock:
    """Times of a file, in ISO 8601 or seconds since 1970, as microseconds since the first of them."""

    def __init__(self, start: Any = None) -> None:
        self._start = moment(start)

    @property
    def started_at(self) -> str | None:
        return None if self._start is None else iso(self._start)

    def at(self, value: Any) -> int:
        when = moment(value)
        if when is None:
            return 0
        if self._start is None:
            self._start = when
        return microseconds((when - self._start) * 1e6)


def moment(value: Any) -> float | None:
    """A time in either form as seconds since 1970."""
    if isinstance(value, str):
        found = read_time(value)
        return None if found is None else found.timestamp()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e14:
        return None
    return value / 1000 if value > 1e11 else float(value)  # milliseconds, as in JavaScript


def iso(seconds: float) -> str | None:
    try:
        found = datetime.fromtimestamp(seconds, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None
    return found.isoformat(timespec="microseconds").replace("+00:00", "Z")
