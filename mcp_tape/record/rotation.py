"""A series of cassettes, each of a bounded size: `time.db`, `time-2.db`, `time-3.db` … Files are never renamed.

A session that begins when the newest cassette is full begins the next one. A session that fills a cassette continues in
the next when no exchange is open, so that none is split. At twice the size, it splits exchanges that have been open
since the cassette was full, such as a call that hangs; at three times the size, all open exchanges.

Each part can be read and replayed by itself: it begins with a control frame that names the previous part, and repeats
the frames that still apply (introductions, unanswered requests, the state of open channels). The last frame of a part
names the next. If a number of cassettes to keep is given, the oldest are removed, except those that are in use or wait
for `--on-rotate`: such a cassette has a file beside it, `time-3.db.waiting`, until the command succeeds. The command
gets only whole cassettes.

A kill loses no stored data: a part is complete on its cassette before the next begins.
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

SIZE, KEPT = 50 * 10**6, 20  # for client recordings
_WAITING = ".waiting"
_LATE, _AT_MOST = 2, 3  # times the size


class CassetteSeries(NamedTuple):
    """A series of cassettes: its path, the size of each, and how many are kept (None: all)."""

    path: str
    size: int
    kept: int | None = None
    is_handed_on: bool = False  # by `--on-rotate`: each recording begins a cassette that no other process writes

    @property
    def late_size(self) -> int:
        """The size at which exchanges are split that have been open since the cassette was full."""
        return self.size * _LATE

    @property
    def largest_size(self) -> int:
        """The size at which all open exchanges are split."""
        return self.size * _AT_MOST

    def newest(self, full: str | None = None) -> str:
        """Return the cassette to record into, other than `full`."""
        if self.is_handed_on:
            return self._take_next()
        row = self._existing()
        number = max(row, default=1)
        if _size(row.get(number)) >= self.size or row.get(number) == full is not None:
            number += 1
        return self._name(number)

    def expected_newest(self) -> str:
        """Return the expected result of `newest`, unless another process is faster. Creates nothing."""
        return self._name(max(self._existing(), default=0) + 1) if self.is_handed_on else self.newest()

    def _take_next(self) -> str:
        """Create the next cassette, for this recording alone."""
        while True:
            path = self.expected_newest()
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
                os.close(os.open(path + _WAITING, os.O_CREAT | os.O_WRONLY, 0o644))
            except FileExistsError:
                continue  # another process was faster
            except OSError as error:
                raise CassetteError(str(error.strerror)) from None
            return path

    def prune(self, current: str) -> None:
        """Remove the oldest cassettes beyond the number to keep."""
        if self.kept is None:
            return
        row = self._existing()
        too_many = len({*row.values(), current}) - self.kept
        for _, path in sorted(row.items())[: max(0, too_many)]:
            if path != current and not os.path.exists(path + _WAITING):
                _remove(path)

    def give_back(self, path: str) -> None:
        """Remove a cassette that was just created and could not be written."""
        if self.is_handed_on:
            for name in (path, path + _WAITING):
                with suppress(OSError):
                    os.unlink(name)

    def _name(self, number: int) -> str:
        base, ending = os.path.splitext(self.path)
        return self.path if number == 1 else f"{base}-{number}{ending}"

    def _existing(self) -> dict[int, str]:
        """The existing cassettes, by number."""
        place, name = os.path.split(self.path)
        base, ending = os.path.splitext(name)
        pattern = re.compile(rf"{re.escape(base)}(?:-([2-9]|[1-9][0-9]+))?{re.escape(ending)}")
        try:
            names = os.listdir(place or ".")
        except OSError:
            return {}
        found = ((pattern.fullmatch(one), one) for one in names)
        return {int(match[1] or 1): os.path.join(place, one) for match, one in found if match}


def mark_handed_on(path: str) -> None:
    """Mark a cassette as handed on, so that it can be removed later."""
    with suppress(OSError):
        os.unlink(path + _WAITING)


def is_whole(path: str) -> bool:
    """Return whether a finished cassette is one file that can be copied; make it one if possible.

    Part of it stays in SQLite's journal if the disk was full or another process read it when it was closed.
    """
    from sqlite3 import Error

    from ..cassette.file import tidy

    with suppress(Error):
        tidy(path)
    try:
        return os.path.getsize(os.path.realpath(path) + "-wal") == 0
    except OSError:
        return True


def begin_series(path: str, size: int | None, kept: int | None, is_handed_on: bool) -> tuple[str, CassetteSeries]:
    """Return the cassette to record into, and its series, after removing cassettes beyond the number to keep."""
    from ..cassette.text.recognize import is_text

    if is_text(path):
        raise SettingsError(f"--rotate is for SQLite, and {path} is text; record into a .db, then: mcp-tape convert")
    row = CassetteSeries(path, size or SIZE, kept, is_handed_on)
    newest = row.expected_newest()
    row.prune(newest)
    return newest, row._replace(path=os.path.abspath(path))


def describe_last(path: str, following: Sequence[str]) -> str:
    """Name the last cassette of a recording that began at a path."""
    last = os.path.join(os.path.dirname(path), os.path.basename(following[-1]))
    return f"{last}, the last of {len(following) + 1} cassettes"


def _size(path: str | None) -> int:
    try:
        return sum(os.path.getsize(path + more) for more in ("", "-wal") if os.path.exists(path + more)) if path else 0
    except OSError:
        return 0


def _remove(path: str) -> None:
    """Remove a cassette of ours, unless it is in use; then the next `prune` tries again."""
    from ..cassette.change.remove import discard
    from ..cassette.schema import check_header

    try:
        check_header(path)
        discard(path)
    except (OSError, CassetteError):
        pass


def beginning(path: str, session: int, frames: Sequence[Frame]) -> list[Frame]:
    """Return the first frames of a part, followed by the frames repeated from a session of the previous cassette."""
    from ..wire.frames import Frame
    from ..wire.jsontext import dumps

    facts = {"event": CONTINUES, "cassette": os.path.basename(path), "session": session, "repeated": len(frames)}
    return [Frame(0, 0, "server", TAPE, "control", dumps(facts).encode()), *frames]


def end(path: str) -> dict[str, str]:
    """Return the facts of the last frame of a part that continues in another cassette."""
    return {"event": CONTINUED, "cassette": os.path.basename(path)}
