"""Cassettes in a row, each of a bounded size: `time.db`, `time-2.db`, `time-3.db` … Nothing is renamed.

A new one is begun where the newest has reached its size when a session begins. A session that makes it that large goes
on in the next, at a moment when no exchange is open, so that none is split. At twice the size, those are that have been
open all the while, such as a call that hangs; at three times, where calls always overlap, all that are open.

Each part can be read and replayed by itself: it begins with what is still in force of the part before (introductions,
requests without an answer, the state of open channels), behind a control frame that names that part. The last frame of
the part before says where it goes on. If only so many are kept, the oldest go, unless somebody uses them or they are
still to be handed on: a file beside each of those, `time-3.db.waiting`, stays until the command has succeeded.

Whenever the writer is killed, what was stored stays: a part is whole on its cassette before the next is begun.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress

from ..errors import CassetteError, SettingsError
from ..light import NamedTuple
from ..wire.channels import CONTINUED, CONTINUES, TAPE

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..wire.frames import Frame

SIZE, KEPT = 50 * 10**6, 20  # of what clients record
_WAITING = ".waiting"
_LATE, _AT_MOST = 2, 3  # times the size


class Row(NamedTuple):
    """The cassettes in a row with a path: how large they get, and how many are kept; None: all."""

    path: str
    size: int
    kept: int | None = None
    is_handed_on: bool = False  # each is, by `--on-rotate`; so each recording begins one that nobody else writes

    @property
    def late(self) -> int:
        """The size from which on exchanges are split that have been open since the cassette was full."""
        return self.size * _LATE

    @property
    def most(self) -> int:
        """The size at which all that are open are split."""
        return self.size * _AT_MOST

    def newest(self, full: str | None = None) -> str:
        """Return the cassette to record into. `full`: the one that is not to be it."""
        if self.is_handed_on:
            return self._taken()
        row = self._there()
        number = max(row, default=1)
        if _size(row.get(number)) >= self.size or row.get(number) == full is not None:
            number += 1
        return self._name(number)

    def expected(self) -> str:
        """Return what `newest` will, if nobody comes first, and leave all as it is."""
        return self._name(max(self._there(), default=0) + 1) if self.is_handed_on else self.newest()

    def _taken(self) -> str:
        """Begin the next, in which nobody else records."""
        while True:
            path = self.expected()
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
                os.close(os.open(path + _WAITING, os.O_CREAT | os.O_WRONLY, 0o644))
            except FileExistsError:
                continue  # somebody was faster
            except OSError as error:
                raise CassetteError(str(error.strerror)) from None
            return path

    def prune(self, current: str) -> None:
        """Remove the oldest, if they are too many."""
        if self.kept is None:
            return
        row = self._there()
        too_many = len({*row.values(), current}) - self.kept
        for _, path in sorted(row.items())[: max(0, too_many)]:
            if path != current and not os.path.exists(path + _WAITING):
                _remove(path)

    def give_back(self, path: str) -> None:
        """Remove a cassette that was just begun, and in which nothing could be written."""
        if self.is_handed_on:
            for name in (path, path + _WAITING):
                with suppress(OSError):
                    os.unlink(name)

    def _name(self, number: int) -> str:
        base, ending = os.path.splitext(self.path)
        return self.path if number == 1 else f"{base}-{number}{ending}"

    def _there(self) -> dict[int, str]:
        """The cassettes that are there, by number."""
        place, name = os.path.split(self.path)
        base, ending = os.path.splitext(name)
        pattern = re.compile(rf"{re.escape(base)}(?:-([2-9]|[1-9][0-9]+))?{re.escape(ending)}")
        try:
            names = os.listdir(place or ".")
        except OSError:
            return {}
        found = ((pattern.fullmatch(one), one) for one in names)
        return {int(match[1] or 1): os.path.join(place, one) for match, one in found if match}


def handed_on(path: str) -> None:
    """Let a cassette be removed when its time comes: it is in other hands."""
    with suppress(OSError):
        os.unlink(path + _WAITING)


def begun(path: str, size: int | None, kept: int | None, is_handed_on: bool) -> tuple[str, Row]:
    """Return the cassette to record into, and its row; those that are too many are removed."""
    from ..cassette.text.names import is_text

    if is_text(path):
        raise SettingsError(f"--rotate is for SQLite, and {path} is text; record into a .db, then: mcp-tape convert")
    row = Row(path, size or SIZE, kept, is_handed_on)
    newest = row.expected()
    row.prune(newest)
    return newest, row._replace(path=os.path.abspath(path))


def last_of(path: str, following: Sequence[str]) -> str:
    """Name the last cassette of a recording that began at a path."""
    last = os.path.join(os.path.dirname(path), os.path.basename(following[-1]))
    return f"{last}, the last of {len(following) + 1} cassettes"


def _size(path: str | None) -> int:
    try:
        return sum(os.path.getsize(path + more) for more in ("", "-wal") if os.path.exists(path + more)) if path else 0
    except OSError:
        return 0


def _remove(path: str) -> None:
    """Remove a cassette that nobody uses. What is none of ours stays, and what is in use until the next is begun."""
    from ..cassette.change.remove import discard
    from ..cassette.schema import check_header

    try:
        check_header(path)
        discard(path)
    except (OSError, CassetteError):
        pass


def beginning(path: str, session: int, frames: Sequence[Frame]) -> list[Frame]:
    """Return the first frames of a part, with those that are repeated from a session of the cassette before."""
    from ..wire.frames import Frame
    from ..wire.jsontext import dumps

    facts = {"event": CONTINUES, "cassette": os.path.basename(path), "session": session, "repeated": len(frames)}
    return [Frame(0, 0, "server", TAPE, "control", dumps(facts).encode()), *frames]


def end(path: str) -> dict[str, str]:
    """Return the facts of the last frame of a part, which goes on in another cassette."""
    return {"event": CONTINUED, "cassette": os.path.basename(path)}
