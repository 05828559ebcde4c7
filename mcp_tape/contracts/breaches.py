"""Checks a run against a contract: the sessions of a cassette, or the calls of a test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from os.path import join
from tempfile import TemporaryDirectory
from typing import NamedTuple

from ..cassette.build import Builder, build_cassette
from ..cassette.query.filters import EVERYTHING, Filter, parse, seqs
from ..cassette.query.timeline import TimelineRow, session_rows
from ..cassette.reader import Cassette
from ..compare.surface import walks
from ..compare.transcript import Transcript
from ..errors import count, replace_control_characters
from ..formats.row_lines import duration
from ..model.cost import definitions
from ..replay.selection import choose
from ..values import size_text
from ..wire import frames, jsontext, protocol
from ..wire.channels import STDIO
from ..wire.frames import Exchange, Frame, Side
from .terms import CallLimit, ContractTerm, Terms

_MOST = 20  # frames reported per term: beyond that, the number matters more than the list
_CALLS = parse("kind:request from:client -status:retry").terms  # of a retried call, the last try counts
_AT_ONCE = parse(f"-method:{protocol.LISTEN}").terms  # not listen: its stream is open for as long as the client likes
(_TOOLS,) = (kind for kind in protocol.KINDS if kind.method == protocol.TOOLS)


class Breach(NamedTuple):
    """A broken term, the reason, and the frame that breaks it (None if something is missing)."""

    term: str
    why: str
    session: int | None = None
    seq: int | None = None


def sessions_of(cassette: Cassette, which: str) -> list[int]:
    """The sessions of a run, in order: `all`, or those that `latest` or a number selects for a replay."""
    if which == "all":
        return [session.id for session in cassette.sessions()]
    return sorted(choose(cassette, which))


def check(cassette: Cassette, sessions: Sequence[int], terms: Terms) -> Iterator[Breach]:
    """Report every frame that breaks a term, and every term that nothing fulfils."""
    for term in terms.expect:
        if not any(True for session in sessions for _ in seqs(cassette, session, term.kept)):
            yield Breach(f"expect {term.text!r}", "nothing matches")
    for term in terms.forbid:
        yield from _few(f"forbid {term.text!r}", _forbidden(cassette, sessions, term))
    for limit in terms.limits:
        yield from _few(f"max '{limit.term.text}<={limit.most}'", _rows_beyond(cassette, sessions, limit))
    if terms.duration is not None:
        name = f"max-duration {duration(terms.duration)}"
        yield from _few(name, _slow(cassette, sessions, terms.duration))
    if terms.definitions is not None:
        name = f"max-definition-bytes {size_text(terms.definitions)}"
        yield from (broken._replace(term=name) for broken in _large(cassette, sessions, terms.definitions))


def _few(term: str, found: Iterable[tuple[TimelineRow, str]]) -> Iterator[Breach]:
    found = iter(found)
    for row, why in islice(found, _MOST):
        yield Breach(term, why, row.session, row.seq)
    more = sum(1 for _ in found)
    if more:
        yield Breach(term, f"and {more} more")


def _forbidden(cassette: Cassette, sessions: Sequence[int], term: ContractTerm) -> Iterator[tuple[TimelineRow, str]]:
    """Frames that match a forbidden term. If a request and its answer both match, only the request counts."""
    for session in sessions:
        asked: set[int] = set()
        for row in session_rows(cassette, session, term.kept):
            if row.kind == "request":
                asked.add(row.seq)
            if row.answers not in asked:
                yield row, _title(row)


def _rows_beyond(cassette: Cassette, sessions: Sequence[int], limit: CallLimit) -> Iterator[tuple[TimelineRow, str]]:
    kept = limit.term.kept
    rows = [row for session in sessions for row in session_rows(cassette, session, _with_call_terms(kept))]
    for number, row in enumerate(rows[limit.most :], limit.most + 1):
        yield row, f"{_title(row)} is number {number} of {len(rows)}"


def _slow(cassette: Cassette, sessions: Sequence[int], most: int) -> Iterator[tuple[TimelineRow, str]]:
    kept = _with_call_terms(EVERYTHING, *_AT_ONCE, *parse(f"dur:>{most}us").terms)
    for session in sessions:
        for row in session_rows(cassette, session, kept):
            yield row, f"{_title(row)} took {duration(row.microseconds)}"


def _with_call_terms(kept: Filter, *terms: tuple[str, tuple[object, ...]]) -> Filter:
    return kept._replace(terms=(*kept.terms, *_CALLS, *terms))


def _large(cassette: Cassette, sessions: Sequence[int], most: int) -> Iterator[Breach]:
    """Tool lists that are too large, each where it was first listed."""
    recording = Transcript(cassette, sessions)
    asked = [recording.surface_answer(one) for one in recording.requests() if one.method == protocol.TOOLS]
    if not asked:
        yield Breach("", f"nothing to measure: there is no {protocol.TOOLS}")
    seen: set[int] = set()
    for walk in walks(_TOOLS, asked):
        size = definitions(walk.items).bytes
        if size > most and size not in seen:
            seen.add(size)
            why = f"{count(len(walk.items), 'definition')} of {size_text(size)} bytes"
            yield Breach("", why, *walk.last)


def _title(row: TimelineRow) -> str:
    if row.kind == "response":
        return f"answer to {protocol.call_title(row.method or '', row.name)}".rstrip()
    return protocol.call_title(row.method or "", row.name) or row.frame_kind


# -- checks the calls of a test against a contract
#
# They are written to a temporary cassette, so that filters work exactly as in every command.

_MADE = {"started_at": "1970-01-01T00:00:00Z", "target": {}, "recorder": "mcp-tape"}
_MOST_SHOWN = 10


def report(path: str, calls: Sequence[Exchange], terms: Terms) -> str | None:
    """The breaches, one line each, as the message of an AssertionError; None if there are none."""
    with TemporaryDirectory() as directory:
        place = join(directory, "calls.db")
        with build_cassette(place, place) as builder:
            numbers = _put(builder, calls)
        with Cassette(place) as cassette:
            broken = list(check(cassette, [1], terms))
    if not broken:
        return None
    lines = [f"{one.term}: {f'call {numbers[one.seq]}, ' if one.seq else ''}{one.why}" for one in broken]
    return "\n  ".join(
        [f"{path}: the contract is broken", *map(replace_control_characters, lines), f"called: {_summary(calls)}"]
    )


def _put(builder: Builder, calls: Sequence[Exchange]) -> dict[int, int]:
    """Write the calls in order; return the number of each, by the number of its frame."""
    builder.begin(_MADE)
    at, numbers = 0, {}
    for number, call in enumerate(calls, 1):
        rpc_id = number if call.id is None else jsontext.loads(call.id)
        message = {"jsonrpc": "2.0", "id": rpc_id}
        outcome = {name: value for name in ("result", "error") if (value := getattr(call, name)) is not None}
        params = {} if call.params is None else {"params": call.params}
        _add(builder, 2 * number - 1, at, "client", {**message, "method": call.method, **params})
        at += call.microseconds or 0
        if outcome:
            _add(builder, 2 * number, at, "server", message | outcome)
        numbers[2 * number - 1] = numbers[2 * number] = number
    return numbers


def _add(builder: Builder, seq: int, at: int, sender: Side, message: dict[str, object]) -> None:
    text = jsontext.dumps(message).encode()
    kind, messages = frames.parse(text)
    builder.add(Frame(seq, at, sender, STDIO, kind, text, b"\n"), messages)


def _summary(calls: Sequence[Exchange]) -> str:
    """The calls by name, the most frequent first."""
    titles = Counter(protocol.call_title(call.method, call.name) for call in calls)
    shown = [
        replace_control_characters(title) if times == 1 else f"{replace_control_characters(title)} ×{times}"
        for title, times in titles.most_common(_MOST_SHOWN)
    ]
    left = len(titles) - len(shown)
    return ", ".join([*shown, *([f"{left} more"] if left else [])]) or count(0, "call")
