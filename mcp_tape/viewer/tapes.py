"""Cassettes on one page: their sessions, with their numbers and facts there, and findings in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ..cassette.query import inventory
from ..cassette.query.filters import EVERYTHING, Filter
from ..cassette.query.timeline import TimelineRow, session_rows
from ..cassette.reader import Cassette, Session
from ..contracts import reasons
from ..contracts.audit import audit, meaning_of
from .pack import encodable


class PageTape(NamedTuple):
    """Sessions of a cassette, and the name of its file."""

    cassette: Cassette
    sessions: Sequence[int]
    name: str

    def rows(self, kept: Filter = EVERYTHING) -> Iterator[TimelineRow]:
        for number in self.sessions:
            yield from session_rows(self.cassette, number, kept)


class SessionNumbers:
    """Numbers of sessions on the page: their own, or consecutive ones for several cassettes."""

    def __init__(self, several: bool) -> None:
        self._several = several
        self._given: dict[tuple[int, int], int] = {}
        self._origins: dict[int, tuple[int, int]] = {}

    def of(self, tape: int, session: int) -> int:
        """The number of a session of the cassette at this place."""
        place = tape, session
        if place not in self._given:
            number = len(self._given) + 1 if self._several else session
            self._given[place], self._origins[number] = number, place
        return self._given[place]

    def knows(self, tape: int, session: int) -> bool:
        return (tape, session) in self._given

    def origin(self, number: int) -> tuple[int, int]:
        """The place of a session's cassette, and its own number there."""
        return self._origins[number]

    def head(self, tape: int, session: Session, name: str) -> dict[str, Any]:
        """A session, as the page shows it."""
        named = {key: encodable(value) if isinstance(value, str) else value for key, value in session._asdict().items()}
        return named | {
            "id": self.of(tape, session.id), "number": session.id, "file": encodable(name),
            "server": encodable(inventory.server(session)), "open": inventory.is_open(session),
        }  # fmt: skip


# -- findings of `why` and `check --audit` in a cassette, for the page


def findings(cassette: Cassette, sessions: Sequence[int], number: Callable[[int], int]) -> Iterator[dict[str, Any]]:
    """Yield findings with rule, line and evidence. `number` maps a session to its number on the page."""
    for reason in reasons.reasons(cassette, sessions):
        facts = {
            "by": "why",
            "says": reasons.RULES[reason.rule],
            "evidence": [encodable(line) for line in reason.evidence],
        }
        yield facts | _place(reason.rule, reason.what, number(reason.session), reason.seq)
    for suspect in audit(cassette, sessions):
        facts = {"by": "audit", "says": meaning_of(suspect.rule), "path": encodable(suspect.path)}
        yield facts | _place(suspect.rule, suspect.why, number(suspect.session), suspect.seq)


def _place(rule: str, what: str, session: int, seq: int | None) -> dict[str, Any]:
    return {"rule": rule, "what": encodable(what), "session": session, "seq": seq}
