"""Which sessions of a cassette play, and to whom: the newest, those of one run, those of the client's era."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..cassette import file
from ..errors import CassetteError, pasted
from ..wire import protocol
from ..wire.frames import KILLED

if TYPE_CHECKING:
    from ..cassette.reader import Cassette
    from ..wire.frames import Message


def newest(cassette: Cassette) -> int:
    """The number of the newest session; 0 if there is none."""
    ((number,),) = cassette.rows("SELECT coalesce(max(id), 0) FROM sessions")
    return int(number)


def choose(
    cassette: Cassette, which: str, legacy: bool | None = None, nth: int | None = None, until: int | None = None
) -> list[int]:
    """`latest`, `all` or a session's number, in the order of playing; of `legacy` or modern ones where there are some.

    For the `nth` client of a run, the latest is what the nth client said when the run was recorded. `until`: the newest
    session that counts, so that what is recorded meanwhile does not change what plays.
    """
    last = newest(cassette) if until is None else until
    rows = cassette.rows("SELECT id, extends FROM sessions WHERE id <= ? ORDER BY id DESC", (last,))
    if which == "all":
        chosen = _of_era(cassette, rows, legacy)
    elif which == "latest":
        chosen = _latest(cassette, rows, legacy, nth, last)
    else:
        chosen = [cassette.session(int(which)).id]
    if not chosen:
        raise CassetteError(_nothing_to_play(cassette.path, rows))
    return chosen


def _of_era(cassette: Cassette, rows: Sequence[tuple[int, int]], legacy: bool | None) -> list[int]:
    """All of one pool: answers of two eras differ in shape, so a client gets those of its own."""
    fitting = [number for number, extends in rows if _fits(cassette, extends or number, legacy)]
    return fitting or [number for number, _ in rows]


def _latest(
    cassette: Cassette, rows: Sequence[tuple[int, int]], legacy: bool | None, nth: int | None, last: int
) -> list[int]:
    # One that is still being recorded, or only a probe, plays where there is no other.
    own = [number for number, extends in rows if extends is None]
    unfinished = (number for number in own if _has_an_exchange(cassette, number))
    of_era = (n for n in finished(cassette, last) if legacy is not None and is_legacy(cassette, n) == legacy)
    whole = finished(cassette, last)
    base = next(of_era, None) or next(whole, None) or next(unfinished, None) or next(iter(own), None)
    if base is None:
        return []
    run = run_of(cassette, base, last) if nth is not None else None
    mates = [number for number in run.sessions if _fits(cassette, number, legacy)] if run else []
    mates = mates or [base]
    first = mates[(nth or 0) % len(mates)]  # a process may do the same again
    chosen = [first, *(number for number in mates if number != first)]
    bases = set(chosen)
    return chosen + sorted(number for number, extends in rows if extends in bases)


def _nothing_to_play(path: str, rows: Sequence[tuple[int, int]]) -> str:
    if not rows:
        return f"{path} has no session to play; record one with: mcp-tape record -o {pasted(path)} -- SERVER"
    number, extends = rows[0]
    return (
        f"{path} holds session {number}, which extends session {extends}, and that is not here; "
        f"to play it alone: mcp-tape replay {pasted(path)} --session {number}"
    )


def finished(cassette: Cassette, until: int | None = None) -> Iterator[int]:
    """The sessions that can be played and are closed, newest first."""
    sql = "SELECT id FROM sessions WHERE extends IS NULL AND ended_at IS NOT NULL AND id <= ? ORDER BY id DESC"
    rows = cassette.rows(sql, (newest(cassette) if until is None else until,))
    return (session for (session,) in rows if _has_an_exchange(cassette, session))


def whole(cassette: Cassette) -> Iterator[int]:
    """The same without those whose recorder was killed, or could not write: their client may have asked for more.

    Nor is any session of a run whole in which that happened to one: the others do not have what it lacks.
    """
    cut = "FROM sessions WHERE incomplete = ?1 OR incomplete LIKE 'cannot write %'"
    sql = f"SELECT id {cut} OR run IN (SELECT run {cut})"
    short = {number for (number,) in cassette.rows(sql, (KILLED,))}
    return (session for session in finished(cassette) if session not in short)


class Run(NamedTuple):
    """A recorded run: when its first session began, and those that can be played, in order."""

    id: str
    began: str
    sessions: list[int]


def run_of(cassette: Cassette, session: int, until: int | None = None) -> Run | None:
    """The run that a session was recorded in."""
    ((name,),) = cassette.rows("SELECT run FROM sessions WHERE id = ?", (session,))
    return None if name is None else run_named(cassette, str(name), until)


def run_named(cassette: Cassette, name: str, until: int | None = None) -> Run | None:
    """A run by its id."""
    sql = "SELECT id, started_at FROM sessions WHERE run = ? AND extends IS NULL AND id <= ? ORDER BY id"
    rows = cassette.rows(sql, (file.storable(name), newest(cassette) if until is None else until))
    sessions = [number for number, _ in rows if _has_an_exchange(cassette, number)]
    return Run(name, str(rows[0][1]), sessions) if rows else None


# -- eras


def is_legacy(cassette: Cassette, session: int) -> bool:
    """Whether a session began with the legacy era's handshake."""
    return _asks(cassette, session, protocol.INITIALIZE)


def is_modern(cassette: Cassette, session: int) -> bool:
    """Whether it is of the modern era: without a handshake, but with a version in its requests. Some have neither."""
    ((version,),) = cassette.rows("SELECT protocol_version FROM sessions WHERE id = ?", (session,))
    return version is not None and protocol.is_modern({}, str(version)) and not is_legacy(cassette, session)


def has_both_eras(cassette: Cassette) -> bool:
    """Whether what plays depends on the client's era."""
    numbers = [number for (number,) in cassette.rows("SELECT id FROM sessions")]
    if len(numbers) < 2:
        return False
    legacy = any(is_legacy(cassette, number) for number in numbers)
    return legacy and any(is_modern(cassette, number) for number in numbers)


def era_of(cassette: Cassette, message: Message, until: int | None = None) -> bool | None:
    """Whether a client that begins with this request is of the legacy era; None where that does not tell.

    Clients that speak both eras ask `server/discover` first: what they were answered last decides.
    """
    if message.method == protocol.INITIALIZE:
        return True
    if message.method != protocol.DISCOVER:
        return False if protocol.is_modern(message.body) else None
    for session in finished(cassette, until):
        if is_modern(cassette, session) or _asks(cassette, session, protocol.DISCOVER):
            return is_legacy(cassette, session)
    return None


def _fits(cassette: Cassette, session: int, legacy: bool | None) -> bool:
    if legacy is None:
        return True
    return not is_modern(cassette, session) if legacy else not is_legacy(cassette, session)


def _asks(cassette: Cassette, session: int, method: str) -> bool:
    sql = "SELECT 1 FROM messages WHERE session = ? AND method = ? AND sender = 'client' LIMIT 1"
    return bool(cassette.rows(sql, (session, method)))


def _has_an_exchange(cassette: Cassette, session: int) -> bool:
    """Probes do not count: clients start the command just to ask which era it speaks. Nor does being turned away."""
    marks = ", ".join("?" * len(protocol.PROBES))
    sql = f"""SELECT 1 FROM messages m WHERE session = ? AND kind = 'request' AND sender = 'client'
              AND method NOT IN ({marks}) AND NOT EXISTS (SELECT 1 FROM messages a WHERE a.session = m.session
              AND a.answers = m.seq AND a.status IN ('refused', 'retry')) LIMIT 1"""
    return bool(cassette.rows(sql, (session, *protocol.PROBES)))
