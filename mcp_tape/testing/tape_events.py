"""Calls, misses and errors while a cassette is recorded, from its file and the report that recorders write."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..cassette.lookup.playable_sessions import client_send_times, finished_sessions
from ..cassette.reader import Cassette, Session
from ..errors import CassetteError
from ..replay.misses import Advice, RequestDifference
from ..replay.selection import Selection, select
from ..wire import jsontext, protocol
from ..wire.frames import Exchange
from ..wire.times import read_time
from .used import Inexact, When, unplayed_exchanges

Row = dict[str, Any]  # of a report


class TapeEvents(NamedTuple):
    """Everything that a tape in use reports."""

    calls: list[tuple[When, Exchange]]
    misses: list[tuple[Exchange, str, list[Advice]]]
    inexact: list[Inexact]
    unplayed: list[Exchange]
    play_count: int
    notes: list[str]
    errors: list[str]
    grew: int
    stale: int


class ReportSource(NamedTuple):
    """The files to read, and the events to skip because the tape was rewound."""

    part: str
    report: str
    runs: frozenset[str]
    plays: str | None  # which session plays, as text; None if everything is live
    label: str | None = None
    forgotten_rows: int = 0
    forgotten_calls: frozenset[tuple[int | None, int | None]] = frozenset()


def read_events(source: ReportSource) -> TapeEvents:
    rows = _rows(source)[source.forgotten_rows :]
    played = [row for row in rows if row["what"] == "played"]
    calls, left = list[tuple[When, Exchange]](), list[Exchange]()
    try:
        with Cassette(source.part, source.label) as cassette:
            calls = _timed_calls(cassette, source, played)
            left = _unplayed_exchanges(cassette, source, played) if source.plays else []
    except CassetteError:
        pass  # nothing recorded yet
    misses = [_miss(row) for row in rows if row["what"] == "miss"]
    inexact = [_inexact(row) for row in rows if row["what"] == "inexact"]
    grown = [row for row in rows if row["what"] == "grew"]
    grew, stale = (sum(row[name] for row in grown) for name in ("calls", "stale"))
    return TapeEvents(
        calls, misses, inexact, left, len(played), _texts(rows, "note"), recorder_errors(source), grew, stale
    )


def recorder_errors(source: ReportSource) -> list[str]:
    """Reasons why recorders could not serve, each once."""
    found = dict.fromkeys(_texts(_rows(source)[source.forgotten_rows :], "error"))
    return [text if source.label is None else f"{source.label}: {text}" for text in found]


def forget_events(source: ReportSource) -> ReportSource:
    """A source without the events so far."""
    forgotten: set[tuple[int | None, int | None]] = set()
    for session in find_own_sessions(source):
        with Cassette(source.part) as cassette:
            forgotten |= {(call.session, call.seq) for call in cassette.exchanges(session.id)}
    return source._replace(forgotten_rows=len(_rows(source)), forgotten_calls=frozenset(forgotten))


def find_own_sessions(source: ReportSource) -> list[Session]:
    try:
        with Cassette(source.part) as cassette:
            return _sessions_of_runs(cassette, source)
    except CassetteError:
        return []  # nothing recorded yet


def has_begun(source: ReportSource) -> bool:
    """Return whether a recorder has stored a session, or has failed."""
    return bool(find_own_sessions(source) or _texts(_rows(source), "error"))


def has_requests(source: ReportSource) -> bool:
    """Return whether a session of this run can be played."""
    own = {session.id for session in find_own_sessions(source)}
    if not own:
        return False
    with Cassette(source.part) as cassette:
        return not own.isdisjoint(finished_sessions(cassette))


def count_events(source: ReportSource) -> int:
    """A number that grows with each message and each line of the report."""
    try:
        with Cassette(source.part) as cassette:
            frames = sum(cassette.counts(session.id)["frames"] for session in _sessions_of_runs(cassette, source))
    except CassetteError:
        frames = 0
    return frames + len(_rows(source))


def is_being_written(source: ReportSource) -> bool:
    """Return whether a process that has written to the report still runs."""
    from ..system import processes

    return any(processes.is_running(pid) for pid in {row["pid"] for row in _rows(source)})


def _rows(source: ReportSource) -> list[Row]:
    """The complete lines of a report from our runs, each with its place; empty if there is no report yet."""
    try:
        with open(source.report, "rb") as lines:
            rows = [jsontext.loads(line) for line in lines if line.endswith(b"\n")]
    except FileNotFoundError:
        return []
    return [row | {"place": place} for place, row in enumerate(rows) if row["run"] in source.runs]


def _sessions_of_runs(cassette: Cassette, source: ReportSource) -> list[Session]:
    return [session for session in cassette.sessions() if session.run in source.runs]


def _timed_calls(cassette: Cassette, source: ReportSource, played: list[Row]) -> list[tuple[When, Exchange]]:
    """Calls that were played, then live ones, without the handshake that was repeated to the live server.

    A report has no times: the order of its lines is the order of played calls.
    """
    tapes = [cassette.exchanges(number) for number in {row["session"] for row in played}]
    taped = {(e.session, e.seq, e.method, e.name): e for tape in tapes for e in tape}  # those of a batch share a place
    found = [(taped.get((row["session"], row["seq"], row["method"], row["name"])), row) for row in played]
    old = [
        ((0.0, row["place"]), e._replace(id=jsontext.dumps(row["id"]), server=source.label))
        for e, row in found
        if e is not None
    ]
    greeted = {e.method for _, e in old} & {protocol.INITIALIZE, protocol.DISCOVER}
    live = [
        timed
        for session in _sessions_of_runs(cassette, source)
        for timed in _timed_requests(cassette, session, source.label)
    ]
    new = [(at, e) for at, e in live if e.method not in greeted and (e.session, e.seq) not in source.forgotten_calls]
    return old + sorted(new, key=lambda timed: timed[0])


def _timed_requests(cassette: Cassette, session: Session, label: str | None) -> list[tuple[When, Exchange]]:
    """The client's requests of a session, with the time of each."""
    started = read_time(session.started_at)
    began = started.timestamp() if started else 0.0
    sent = client_send_times(cassette, session.id)
    asked = [e._replace(server=label) for e in cassette.exchanges(session.id) if e.sender == "client"]
    return [((began + sent.get(e.seq or 0, 0) / 1e6, number), e) for number, e in enumerate(asked)]


def _unplayed_exchanges(cassette: Cassette, source: ReportSource, played: list[Row]) -> list[Exchange]:
    touched, own = {row["session"] for row in played}, {session.id for session in _sessions_of_runs(cassette, source)}
    chosen = [select(cassette, source.plays or "", legacy) for legacy in (None, True, False)]  # clients have an era
    fitting = next((each for each in chosen if touched & set(each.sessions)), chosen[0])
    before = Selection(cassette, [number for number in fitting.sessions if number not in own])
    # A report does not name the part of a batch, so all of its parts count as played.
    seqs = {(row["session"], row["seq"]) for row in played}
    taken = {row.place for row in before.all_requests() if row.place[:2] in seqs}
    return unplayed_exchanges(cassette, before, taken, source.label)


def _texts(rows: list[Row], what: str) -> list[str]:
    return [row["text"] for row in rows if row["what"] == what]


def _miss(row: Row) -> tuple[Exchange, str, list[Advice]]:
    return _exchange_of(row), row["text"], [Advice(**advice) for advice in row.get("advice", ())]


def _inexact(row: Row) -> Inexact:
    differing = tuple(RequestDifference(**found) for found in row["differing"])
    return Inexact(_exchange_of(row), row["rung"], row["similarity"], row["session"], row["seq"], differing)


def _exchange_of(row: Row) -> Exchange:
    return Exchange(None, None, "client", row["method"], row["name"], jsontext.dumps(row["id"]), None)
