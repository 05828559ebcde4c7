"""Reports of a replay as it runs: to people on stderr, to machines as JSON lines.

Each line is one write to a file opened for appending, so nothing is lost or interleaved if a replay is killed or a
client starts the command twice.
"""

from __future__ import annotations

import errno
import os

from ..light import NamedTuple
from ..redaction.diagnostics import DiagnosticRedactor
from ..wire import jsontext

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Literal

    from ..cassette.lookup.messages import RecordedMessage
    from .misses import Advice, RequestDifference
    from .sends import ClientCall

_SHOWN = 10  # unplayed requests that are reported to a person one by one


class InexactDetails(NamedTuple):
    """The details of an inexact answer: the rung, the similarity of the requests, and the differences."""

    rung: str
    similarity: float | None
    differing: tuple[RequestDifference, ...]


class ReplayEvent(NamedTuple):
    """An event to report."""

    what: Literal["played", "inexact", "miss", "note", "refused"]
    text: str = ""
    call: ClientCall | None = None
    advice: tuple[Advice, ...] = ()  # on a miss
    inexact: InexactDetails | None = None


class Reporter:
    """Writes events to stderr and to the report file."""

    def __init__(
        self,
        say: Callable[[str], None],
        file: str | None,
        run: str | None,
        discreet: DiagnosticRedactor,
        *,
        quiet: bool = False,
    ) -> None:
        """`quiet`: write misses only to the file, whose reader shows them."""
        self._say = say
        self._discreet = discreet
        self._quiet = quiet
        self._run = run
        self._file = -1
        if file is not None:
            self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def report(self, fact: ReplayEvent) -> None:
        if fact.what == "played" and self._file < 0:
            return
        text = fact.text
        if fact.inexact is not None and fact.inexact.rung == "nearest" and not self._quiet:
            self._say(f"note: {text}")
        if fact.what in ("note", "refused") or (fact.what == "miss" and not self._quiet):
            self._say(f"note: {text}" if fact.what == "note" else text)
        call = fact.call
        if call is None:
            self._write({"what": fact.what, "text": text})
            return
        recorded = call.recorded
        self._write(
            {
                "what": fact.what,
                "method": self._redact(call.message.method),
                "name": self._redact(call.message.name),
                "id": self._redact(jsontext.loads(call.rpc_id)),
                "session": recorded.session if recorded else None,
                "seq": recorded.seq if recorded else None,
            }
            | ({"text": text} if text else {})
            | ({"advice": [advice._asdict() for advice in fact.advice]} if fact.advice else {})
            | (_inexact_fields(fact.inexact) if fact.inexact else {})
        )

    def fail(self, why: str) -> None:
        """Report an error that is raised as well."""
        self._write({"what": "error", "text": self._redact(why)})

    def report_growth(self, calls: int, stale: int) -> None:
        """Report how many calls went to the live server, and how many recorded answers may be stale after them."""
        self._write({"what": "grew", "calls": calls, "stale": stale})

    def report_unstruck(self, fault: str, cassette: str) -> None:
        """Report a fault that matched no answer."""
        text = f"the fault {self._discreet.remark(fault)} has struck nothing on {cassette}"
        self._say(text)
        self._write({"what": "unstruck", "text": text})

    def report_unplayed(
        self, rows: Iterable[RecordedMessage], place: Callable[[RecordedMessage], str], *, loud: bool
    ) -> int:
        """Report the recorded requests that no client made, each with its place on the tape; return how many."""
        count = 0
        for row in rows:
            count += 1
            if loud and count <= _SHOWN:
                self._say(f"unplayed: {place(row)} {self._discreet.call(row)}")
            self._write(
                {"what": "unplayed", "method": row.method, "name": row.name, "session": row.session, "seq": row.seq}
            )
        if loud and count > _SHOWN:
            self._say(f"unplayed: and {count - _SHOWN} more")
        return count

    def _redact(self, value: Any) -> Any:
        return self._discreet.text(value) if self._file >= 0 and isinstance(value, str) else value

    def _write(self, row: dict[str, Any]) -> None:
        if self._file >= 0:
            from ..cassette.text.safe_lines import json_line  # loaded only if there is a report

            text = json_line({"pid": os.getpid(), "run": self._run} | row)
            try:
                if os.write(self._file, text) < len(text):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError as error:  # a full disk must not stop the replay
                os.close(self._file)
                self._file = -1
                self._say(f"the report is not whole, as it cannot be written: {error.strerror}; the replay goes on")


def _inexact_fields(inexact: InexactDetails) -> dict[str, Any]:
    return inexact._asdict() | {"differing": [found._asdict() for found in inexact.differing]}
