"""Tools that read cassettes: lists of them, messages line by line, one exchange in full, words, statistics."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import chain, islice
from typing import Any

from ..cassette.query import filters, totals, word_search
from ..cassette.query.exchanges import Counts
from ..cassette.query.filters import EVERYTHING, Filter, FilterError
from ..cassette.query.inventory import facts, select_sessions, server
from ..cassette.query.timeline import TimelineRow, related_rows, session_rows, whole_text
from ..cassette.reader import Cassette, Session
from ..contracts import reasons
from ..errors import CassetteError, TapeError, count
from ..formats import pretty
from ..formats.row_lines import Line, duration, is_left_out_by_default, line_of
from ..values import size_text
from ..wire import protocol
from .paging import SHORT, Item, ToolAnswer, ToolError, brief, number, numbers, page, short, window, words_of
from .places import HOW_TO_RECORD, ToolCall

_OF_MESSAGE = "session seq seconds sender kind id what status size odd exchange".split()
_EXCERPT = 200  # characters around a hit
_MORE_STDERR = "[There is more on stderr: call show_session with filter kind:stderr]\n"
_HEAD = "session.seq · seconds · → client, ← server, ! needs attention · what · bytes · content"


def show_session(
    call: ToolCall,
    file: str | None = None,
    session: int | None = None,
    filter: str = "",  # noqa: A002 - as the option of show is called
    all: bool = False,  # noqa: A002 - the same
    cursor: str | None = None,
) -> ToolAnswer:
    """Show the messages of a session, one line each."""
    kept = _parse_filter(filter)
    with call.open_cassette(file) as cassette:
        place = numbers(cursor, 2, 3) if cursor else []
        if place and session is None and not kept.names_sessions:
            session = place[0]  # the newest when the first page was read
        rows = _rows(cassette, filters.sessions(cassette, kept, session), kept, place)
        items = (_message(line_of(cassette, row)) for row in rows if all or not is_left_out_by_default(row))
        nothing = "No message matches the filter." if kept.terms else "There is nothing on it yet."
        return page("messages", items, f"{cassette.path}: {_HEAD}", nothing)


def _parse_filter(text: str) -> Filter:
    try:
        return filters.parse(text) if text else EVERYTHING
    except FilterError as error:
        raise ToolError(f"filter, at {short(text[error.position :], 40)!r}: {error}. Example: status:error") from None


def _rows(cassette: Cassette, sessions: list[int], kept: Filter, place: list[int]) -> Iterator[TimelineRow]:
    """Rows after a place: a session, a frame in it, and a part of the frame if it is a batch."""
    if not place:
        return chain.from_iterable(session_rows(cassette, each, kept) for each in sessions)
    first, *behind = place
    later = (session_rows(cassette, each, kept) for each in sessions if each > first)
    return chain(session_rows(cassette, first, kept, *behind) if first in sessions else (), chain.from_iterable(later))


def _message(line: Line, excerpt: str | None = None) -> Item:
    row = line.row
    found = line.as_json() | {"seconds": row.at / 1e6}
    value = brief({name: found[name] for name in _OF_MESSAGE})
    detail = value["detail"] = _detail(line.detail, row.is_cut) if excerpt is None else excerpt
    arrow = "→" if row.sender == "client" else "←"
    parts = [
        f"{row.session}.{row.seq}",
        f"{row.at / 1e6:.3f}",
        f"{'!' * line.odd}{arrow}",
        value["what"],
        "" if row.frame_kind == "control" else str(row.size),
        detail,
    ]
    part = "" if row.part is None else f".{row.part}"
    return Item(" · ".join(filter(None, parts)), value, f"{row.session}.{row.seq}{part}")


def _detail(text: str, is_cut: bool = False, most: int = SHORT) -> str:
    """The beginning of a content, on one line. The size column shows its length."""
    line = " ".join(text[: 8 * most].split())
    is_whole = not is_cut and len(line) <= most and len(text) <= 8 * most
    return line if is_whole else f"{line[:most]}… [show_exchange has all]"


def show_exchange(
    call: ToolCall, seq: int, file: str | None = None, session: int | None = None, cursor: str | None = None
) -> ToolAnswer:
    """Show one exchange in full: the request, its answer, the messages that belong to it, and stderr at that time."""
    with call.open_cassette(file) as cassette:
        asked, start = numbers(cursor or "0.0", 2)
        which = cassette.session(asked or session).id
        notes: list[str] = []
        found = related_rows(cassette, which, seq, lambda: notes.append(_MORE_STDERR))
        return ToolAnswer(window(chain(_pieces(cassette, found), notes), start, place=f"{which}."))


def _pieces(cassette: Cassette, rows: Iterator[TimelineRow]) -> Iterator[str]:
    for row in rows:
        line = line_of(cassette, row)
        is_small = row.frame_kind == "control" or row.method == protocol.PROGRESS  # there may be thousands of these
        if is_small and len(line.detail) <= SHORT:
            yield f"{_message(line).text}\n"
            continue
        yield f"{_message(line, '').text}\n"
        text = whole_text(cassette, row)
        yield from pretty.pieces(text) if row.is_message and row.frame_kind != "noise" else pretty.join_pieces([text])
        yield "\n"


def search_words(
    call: ToolCall, words: str, file: str | None = None, session: int | None = None, cursor: str | None = None
) -> ToolAnswer:
    """Find the messages that have all of some words, on one cassette or on all."""
    terms = word_search.parse(words)
    paths, unread = call.places.paths_of(file, session), list[str]()
    with closing(_hits(call, paths, terms, session, numbers(cursor or "0.0.0", 3), unread)) as items:
        head = f"{paths[0]}: {_HEAD}" if len(paths) == 1 else f"{count(len(paths), 'cassette')}: file · {_HEAD}"
        return page("messages", items, head, f"Nothing has: {short(words)}", unread=unread)


def _hits(
    call: ToolCall,
    paths: list[str],
    terms: list[word_search.SearchTerm],
    session: int | None,
    place: list[int],
    unread: list[str],
) -> Generator[Item, None, None]:
    """Hits after a place: the number of a cassette, a session, a frame in it."""
    for at, path in enumerate(paths[place[0] :], place[0]):
        first, after = place[1:] if at == place[0] else (0, 0)
        try:
            with call.open_cassette(path) as cassette:
                sessions = [each for each in select_sessions(cassette, session) if each >= first]
                with closing(word_search.search(cassette, terms, sessions, call.check, (first, after))) as hits:
                    for hit in hits:
                        found = _hit(cassette, hit, terms)
                        text = f"{path} · {found.text}" if paths[1:] else found.text
                        yield Item(text, {"file": path} | found.value, f"{at}.{found.cursor}")
        except CassetteError as error:
            _leave_out(error, path, paths, unread)


def _leave_out(error: CassetteError, path: str, paths: list[str], unread: list[str]) -> None:
    """Note why one of several cassettes is not read. The error of a single one is the answer."""
    if len(paths) == 1:
        raise error
    unread.append(f"{path}: {short(words_of(error))}")


def _hit(cassette: Cassette, hit: word_search.Hit, terms: list[word_search.SearchTerm]) -> Item:
    line = line_of(cassette, word_search.row_of(cassette, hit, terms))
    found = _message(line, _detail(hit.excerpt, most=_EXCERPT))
    return found._replace(cursor=f"{hit.session}.{hit.seq}")


def show_stats(
    call: ToolCall,
    file: str | None = None,
    session: int | None = None,
    filter: str = "",  # noqa: A002 - as the option of stats is called
    cursor: str | None = None,
) -> ToolAnswer:
    """Count calls, errors, durations and bytes of each tool and method, on one cassette or on all."""
    kept = _parse_filter(filter)
    skipped = number(cursor)
    paths, unread, several = call.places.paths_of(file, session), list[str](), 0
    found: dict[totals.CallGroup, totals.CallTally] = {}
    for path in paths:
        call.check()
        try:
            with call.open_cassette(path) as cassette:
                sessions = select_sessions(cassette, session)
                totals.tallies(cassette, sessions, kept, found)
                several += len(sessions)
        except CassetteError as error:
            _leave_out(error, path, paths, unread)
    rows = totals.figures(found)
    items = (_figures(row, place) for place, row in enumerate(islice(rows, skipped, None), skipped + 1))
    head = f"{paths[0] if len(paths) == 1 else count(len(paths), 'cassette')}, {count(several, 'session')}:"
    return page("calls", items, head, "There are no such calls.", unread=unread)


def _figures(row: totals.Figures, place: int) -> Item:
    value = brief(row.as_json())
    what = " ".join(filter(None, (value["method"], value["name"])))
    times = [f"{name} {duration(took)}" for name, took in (("p50", row.p50), ("p95", row.p95), ("max", row.max))]
    parts = [
        f"{what} by the {row.sender}",
        count(row.calls, "call"),
        count(row.errors, "error") if row.errors else "",
        f"{row.unanswered} without an answer" if row.unanswered else "",
        *(times if row.max is not None else ()),
        f"{size_text(row.bytes)} bytes",
    ]
    return Item(" · ".join(filter(None, parts)), value, str(place))


def show_reasons(
    call: ToolCall, file: str | None = None, session: int | None = None, cursor: str | None = None
) -> ToolAnswer:
    """List reasons for a hang."""
    skipped = number(cursor)
    with call.open_cassette(file) as cassette:
        found = reasons.reasons(cassette, select_sessions(cassette, session))
        items = (_reason(one, place) for place, one in enumerate(islice(found, skipped, None), skipped + 1))
        return page("reasons", items, f"{cassette.path}:", "All calls were answered, and nothing else is odd.")


def _reason(one: reasons.Reason, place: int) -> Item:
    value = brief(one._asdict()) | {"evidence": [short(line) for line in one.evidence]}
    where = f"{one.session}.{one.seq}" if one.seq is not None else str(one.session)
    lines = [f"{where} · {one.rule} · {value['what']}", *(f"    {line}" for line in value["evidence"])]
    return Item("\n".join(lines), value, str(place))


# -- tools that list: the cassettes, and the sessions on one

_OF_SESSION = (
    "id started_at ended_at exit_code protocol_version transport exchanges open errors label incomplete note".split()
)


def list_cassettes(call: ToolCall, cursor: str | None = None) -> ToolAnswer:
    """List the readable cassettes with a summary of each, or the reason why one cannot be read."""
    items = _cassettes(call, number(cursor))
    return page("cassettes", items, "file · sessions · newest", f"There are no cassettes. {HOW_TO_RECORD}")


def _cassettes(call: ToolCall, skipped: int) -> Iterator[Item]:
    for place, path in enumerate(islice(call.places.cassettes(), skipped, None), skipped + 1):
        call.check()
        size = os.path.getsize(path) if os.path.exists(path) else 0  # remote cassettes have no size yet
        value: dict[str, Any] = {"file": path, "bytes": size, "sessions": 0, "newest": None}
        try:
            with call.open_cassette(path) as cassette:
                value |= _summary(cassette) | {"bytes": os.path.getsize(cassette.local)}
            problem = None
        except TapeError as error:
            problem = short(words_of(error))
        said = f"cannot be read: {problem}" if problem else f"{count(value['sessions'], 'session')} · {value['newest']}"
        yield Item(f"{path} · {said}", value | {"problem": problem}, str(place))


def _summary(cassette: Cassette) -> dict[str, Any]:
    sessions, newest = 0, None
    for newest in cassette.each_session():  # noqa: B007 - used below
        sessions += 1
    return {"sessions": sessions, "newest": f"{short(server(newest), 80)}, {newest.started_at}" if newest else None}


def list_sessions(call: ToolCall, file: str | None = None, cursor: str | None = None) -> ToolAnswer:
    """List the sessions on a cassette in recorded order: server, client, size and number of errors."""
    with call.open_cassette(file) as cassette:
        items = _sessions(cassette, number(cursor))
        head = f"{cassette.path}: session · started · server · protocol · size"
        return page("sessions", items, head, "There is no session on it yet.")


def _sessions(cassette: Cassette, after: int) -> Iterator[Item]:
    for block in cassette.session_blocks(after or None):
        counts = cassette.counts_of(block[0].id, block[-1].id)
        for session in block:
            yield _session(cassette.path, session, counts.get(session.id, Counts()))


def _session(path: str, session: Session, counts: Counts) -> Item:
    found = facts(path, session, counts)
    client = " ".join(filter(None, (session.client_name, session.client_version)))
    named = {"server": server(session), "client": client}
    seconds = None if counts.microseconds is None else counts.microseconds / 1e6
    value = brief({name: found[name] for name in _OF_SESSION} | named | {"seconds": seconds})
    parts = [
        f"{session.id}",
        value["started_at"],
        value["server"],
        f"label {value['label']}" if session.label else "",
        value["protocol_version"] or "-",
        count(counts.exchanges, "exchange"),
        f"{counts.open} without an answer" if counts.open else "",
        count(counts.errors, "error") if counts.errors else "",
        duration(counts.microseconds),
        f"exit code {session.exit_code}" if session.exit_code else "",
        "" if session.ended_at else "not ended: it is being recorded, or its recorder was killed",
        f"INCOMPLETE: {value['incomplete']}" if value["incomplete"] else "",
        value["note"] or "",
    ]
    return Item(" · ".join(filter(None, parts)), value, str(session.id))
