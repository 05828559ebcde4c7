"""Cassettes in a row, each of a bounded size: `time.db`, `time-2.db`, `time-3.db` … Nothing is renamed.

A session is on one cassette from its beginning to its end, so no exchange is ever split. A new cassette is begun where
the newest has reached its size when a session begins; the oldest go, unless somebody uses them.
"""

from __future__ import annotations

import os
import re

from ..errors import CassetteError

SIZE, KEPT = 50 * 10**6, 20  # of what clients record
_JOURNALS = ("-wal", "-shm", "-journal")


def rotated(path: str, size: int, kept: int) -> str:
    """Return the cassette of a row to record into; those that are too many, oldest first, are removed."""
    row = _row(path)
    number = max(row, default=1)
    if _size(row.get(number)) >= size:
        number += 1
    for oldest in sorted(row)[: max(0, len({*row, number}) - kept)]:
        if oldest != number:
            _remove(row[oldest])
    return _name(path, number)


def _name(path: str, number: int) -> str:
    base, ending = os.path.splitext(path)
    return path if number == 1 else f"{base}-{number}{ending}"


def _row(path: str) -> dict[int, str]:
    """The cassettes of a row that are there, by number."""
    place, name = os.path.split(path)
    base, ending = os.path.splitext(name)
    pattern = re.compile(rf"{re.escape(base)}(?:-([2-9]|[1-9][0-9]+))?{re.escape(ending)}")
    try:
        names = os.listdir(place or ".")
    except OSError:
        return {}
    found = ((pattern.fullmatch(one), one) for one in names)
    return {int(match[1] or 1): os.path.join(place, one) for match, one in found if match}


def _size(path: str | None) -> int:
    try:
        return sum(os.path.getsize(path + more) for more in ("", "-wal") if os.path.exists(path + more)) if path else 0
    except OSError:
        return 0


def _remove(path: str) -> None:
    """Remove a cassette that nobody uses: who does keeps a journal beside it. What is none of ours stays."""
    from ..cassette.schema import check_header

    try:
        check_header(path)
        if not any(os.path.exists(path + journal) for journal in _JOURNALS):
            os.unlink(path)
    except (OSError, CassetteError):
        pass  # it is tried again when the next session begins
