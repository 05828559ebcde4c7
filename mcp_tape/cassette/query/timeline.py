"""A session as rows for people: one per message, noise and event, with the status and duration of its call.

Reads rows in pages, and of each text only the part to show. `Label` holds the few facts that formats need of a frame's
messages. Knows nothing of terminals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import chain, islice
from typing import Any, NamedTuple

from ...errors import CassetteError, quote_path
from ...wire import frames
from ...wire.channels import PIPES, STDERR, STDIO, is_http
from ...wire.frames import Frame
from .. import schema
from ..functions import BEFORE_NEXT, MEMBERS, members_of, question_of, text_of
from ..reader import OF_SESSION, Cassette, row_maker
from . import filters
from .exchanges import FAILED
from .filters import EVERYTHING, Filter

EXPECTED_CODES = (0, 128 + 15)  # of a server that its client ends, some with SIGTERM
EXCERPT = 4096  # characters of a text to read for one line
_FACTS = 1 << 20  # characters of a control frame, which is short
_FIRST = 100  # rows of the first page: people want to see something at once
_OF_ONE_FRAME = 1_000
ALL_PARTS = 1 << 62
_LABELLED, _LABELLED_BYTES = 500, 4 << 20  # frames and bytes at a time
_A_LITTLE = 10  # frames


class TimelineRow(NamedTuple):
    """A message, or a frame without one. `status` and `microseconds` are those of its call."""

    session: int
    seq: int
    part: int | None
    at: int
    sender: str
    channel: str
    frame_kind: str
    kind: str | None
    method: str | None
    name: str | None
    rpc_id: str | None
    status: str | None
    microseconds: int | None
    answers: int | None
    exchange: int | None
    size: int
    excerpt: str | bytes
    frame: int

    @property
    def is_cut(self) -> bool:
        text = self.excerpt
        return self.size > (len(text) if isinstance(text, bytes) or text.isascii() else len(text.encode()))

    @property
    def is_message(self) -> bool:
        return self.kind in ("request", "response", "notification")

    @property
    def is_odd(self) -> bool:
        """True if it needs a person's attention. Servers may log to stderr; HTTP streams may begin empty."""
        if self.kind == "request":
            return self.status == "unanswered"
        if self.kind == "response":
            return self.status in FAILED
        return self.frame_kind == "noise" and self.channel in PIPES

    @property
    def is_priming(self) -> bool:
        """True for an event without data, which tells a client from where to resume its stream:
        https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server
        """
        return self.frame_kind == "noise" and not self.is_message and is_http(self.channel) and not self.excerpt


_COLUMNS = f"""f.session, f.seq, m.part, f.elapsed, f.sender, f.channel, f.kind, m.kind,
    {filters.METHOD}, {filters.NAME}, m.rpc_id, {filters.STATUS}, {filters.MICROSECONDS}, q.seq, m.exchange,
    {filters.SIZE},
    CASE WHEN typeof(f.data) NOT IN ('null', 'blob') THEN f.data
    WHEN f.kind = 'control' THEN substr(f.text, 1, {_FACTS}) ELSE substr({filters.TEXT}, 1, {EXCERPT}) END,
    f.id"""
_SELECT = f"SELECT {_COLUMNS} FROM {filters.ROWS} WHERE "
_PART, _EXCERPT, _FRAME = map(TimelineRow._fields.index, ("part", "excerpt", "frame"))
_PLACE = {"f.id": _FRAME, "m.part": _PART}
_row = row_maker(TimelineRow)


def session_rows(
    cassette: Cassette, session: int, kept: Filter = EVERYTHING, after: int = 0, part: int = ALL_PARTS
) -> Iterator[TimelineRow]:
    """Yield the rows of a session that the filter keeps, in order, after a frame or after a part of it."""
    where, values = kept.sql()
    behind = {"within": schema.row_ids(session), "after": (schema.row_id(session, after), part)}
    return chain.from_iterable(
        cassette.pages(_SELECT + where, values, _PLACE, _row, **behind, first=_FIRST, text=_EXCERPT)
    )


def exchange_rows(cassette: Cassette, session: int, root: int) -> Iterator[TimelineRow]:
    """Yield the messages of an exchange, in order; `root` is the request that opened it."""
    opened = frame_row(cassette, session, root)
    member, values = MEMBERS, members_of(session, root)
    if opened is not None and opened.sender != "client":
        yield opened  # a server's request outside of any exchange
        member, values = f"SELECT id FROM derived WHERE answers = ? AND {OF_SESSION}", (root, *schema.row_ids(session))
    sql = f"SELECT {_COLUMNS} FROM {filters.ROWS_OF_MESSAGES} WHERE m.id IN ({member})"
    yield from chain.from_iterable(cassette.pages(sql, values, _PLACE, _row, text=_EXCERPT))


def end_of_exchange(cassette: Cassette, session: int, root: int, sender: str) -> int | None:
    """The last answer to a side's request; None without one."""
    sql = f"SELECT max(seq) FROM messages WHERE id IN ({MEMBERS}) AND kind = 'response' AND sender <> ?"
    values: tuple[object, ...] = (*members_of(session, root), sender)
    if sender != "client":
        sql = f"SELECT max(seq) FROM messages WHERE answers = ? AND {OF_SESSION}"
        values = root, *schema.row_ids(session)
    ((last,),) = cassette.rows(sql, values)
    return last if isinstance(last, int) else None


def last_seq(cassette: Cassette, session: int) -> int:
    """The number of the newest frame; 0 without frames."""
    ((newest,),) = cassette.rows(f"SELECT max(id) FROM facts WHERE {OF_SESSION}", schema.row_ids(session))
    return newest & schema.MOST if isinstance(newest, int) else 0


def first_underived(cassette: Cassette, session: int) -> int | None:
    """The first frame whose messages are not derived yet; None if all are."""
    found = cassette.rows("SELECT pending FROM sessions WHERE id = ?", (session,))
    return next((pending for (pending,) in found if isinstance(pending, int)), None)


def frame_count(cassette: Cassette, sessions: Iterable[int] | None = None) -> int:
    """The number of frames, in all sessions or in these."""
    sql = "SELECT count(*) FROM facts"
    if sessions is None:
        return int(cassette.rows(sql)[0][0])
    return sum(cassette.rows(f"{sql} WHERE {OF_SESSION}", schema.row_ids(session))[0][0] for session in sessions)


def frame_rows(cassette: Cassette, session: int, seq: int) -> list[TimelineRow]:
    """The first rows of one frame; empty if it does not exist."""
    sql = f"{_SELECT} f.id = ? ORDER BY m.part LIMIT {_OF_ONE_FRAME}"
    return cassette.rows(sql, (schema.row_id(session, seq),), _row)


def frame_row(cassette: Cassette, session: int, seq: int) -> TimelineRow | None:
    return next(iter(frame_rows(cassette, session, seq)), None)


def rows_around(cassette: Cassette, session: int, first: int, last: int | None, channel: str) -> Iterator[TimelineRow]:
    """Rows of stderr between two frames, and control frames of an HTTP channel."""
    where = f"""f.seq <= ? AND ((f.kind = 'stderr' AND f.seq <= ?)
        OR (f.kind = 'control' AND f.channel = ? AND f.channel NOT IN ('{STDIO}', '{STDERR}')))"""
    until = 1 << 62 if last is None else last
    # An HTTP response closes a little after its last message.
    return session_rows(cassette, session, Filter(((where, (until + _A_LITTLE, until, channel)),)), first)


def whole_text(cassette: Cassette, row: TimelineRow) -> str:
    """The whole text of a message; in a batch, its part."""
    if not row.is_cut:
        return decode_text(row.excerpt)
    rows = cassette.rows(f"SELECT {text_of('f', '?')} FROM facts f WHERE f.id = ?", (row.part, row.frame))
    return "".join(decode_text(text) for (text,) in rows)


def facts(row: TimelineRow) -> dict[str, Any]:
    """The facts of a control frame; empty for an untrusted text without an event."""
    found = frames.facts(row.excerpt)
    return found if isinstance(found.get("event"), str) else {}


def is_plumbing(row: TimelineRow, facts: dict[str, Any]) -> bool:
    """Return whether an HTTP event adds no information: a POST, a success status, the end of a response."""
    match facts.get("event"):
        case "request":
            return facts.get("verb") == "POST"
        case "response":
            status = facts.get("status")
            return isinstance(status, int) and 200 <= status < 300
        case "close":
            return is_http(row.channel)
    return False


def decode_text(text: Any) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)


_LABELS = f"""SELECT m.seq, m.part, m.sender, m.kind, coalesce(m.method, q.method), coalesce(m.name, q.name), m.rpc_id,
    m.status, m.exchange, f.elapsed - qf.elapsed
    FROM messages m CROSS JOIN facts f ON f.id = m.frame
    {question_of("m")} """
_OF_FRAMES = f"{_LABELS} WHERE m.id >= ? AND {BEFORE_NEXT.format('m')} ORDER BY m.id"
_OF_EXCHANGE = f"{_LABELS} WHERE m.id IN ({MEMBERS}) ORDER BY m.id"


class Label(NamedTuple):
    """The facts about a message that formats show."""

    seq: int
    part: int
    sender: str
    kind: str
    method: str | None  # of an answer: that of its request
    name: str | None
    rpc_id: str | None
    status: str | None
    exchange: int | None
    microseconds: int | None  # between a request and this answer

    def words(self) -> str:
        """`tools/call search ok`."""
        unknown = "answer" if self.kind == "response" and self.method is None else None
        return " ".join(filter(None, (self.method or unknown, self.name, self.status)))


_label = row_maker(Label, "messages")


def label_frames(cassette: Cassette, session: int, frames: Iterable[Frame]) -> Iterator[tuple[Frame, list[Label]]]:
    """Yield frames in order, each with the labels of its messages."""
    for block in _blocks(frames):
        found: dict[int, list[Label]] = {}
        span = (schema.row_id(session, frame.seq) for frame in (block[0], block[-1]))
        for label in cassette.rows(_OF_FRAMES, (*span,), _label):
            found.setdefault(label.seq, []).append(label)
        for frame in block:
            yield frame, found.get(frame.seq, [])


def exchange_labels(cassette: Cassette, session: int, exchange: int) -> list[Label]:
    """Every message that belongs to an exchange, in order."""
    return cassette.rows(_OF_EXCHANGE, members_of(session, exchange), _label)


def describe_event(frame: Frame) -> tuple[str, str]:
    """The event of a control frame, and its details on one line."""
    facts = frames.facts(frame.text)
    if "event" not in facts:
        return "control", frame.text.decode("utf-8", "replace")
    event = str(facts["event"])
    if event == "request":
        return event, f"{facts.get('verb')} {facts.get('path')}"
    rest = [str(facts[name]) for name in ("code", "status", "why", "data", "text", "cassette") if name in facts]
    return event, " ".join(rest).strip()


def _blocks(frames: Iterable[Frame]) -> Iterator[list[Frame]]:
    block: list[Frame] = []
    size = 0
    for frame in frames:
        block.append(frame)
        size += len(frame.text)
        if len(block) >= _LABELLED or size >= _LABELLED_BYTES:
            yield block
            block, size = [], 0
    if block:
        yield block


# -- one exchange with all that belongs to it, for `show FILE SEQ` and agents: messages, HTTP around them, stderr

_MEANWHILE = 1_000  # lines of stderr
_BEFORE = 10  # frames; an HTTP request comes before its messages


def related_rows(cassette: Cassette, session: int, seq: int, on_more: Callable[[], None]) -> Iterator[TimelineRow]:
    """Rows of the exchanges of a frame, in order; the frame alone if it belongs to none.

    `on_more` is called if stderr has more lines than are read.
    """
    rows = frame_rows(cassette, session, seq) if 0 <= seq <= schema.MOST else []
    if not rows:
        path = cassette.path
        raise CassetteError(
            f"session {session} of {path} has no frame {seq}", f"; see: mcp-tape show {quote_path(path)}"
        )
    return _rows_of_exchanges(cassette, rows, on_more)


def _rows_of_exchanges(
    cassette: Cassette, rows: list[TimelineRow], on_more: Callable[[], None]
) -> Iterator[TimelineRow]:
    for root in dict.fromkeys(map(_root_of, rows)):
        if root is None:
            yield from (row for row in rows if _root_of(row) is None)
        else:
            yield from _exchange_rows(cassette, rows[0].session, root, on_more)


def _root_of(row: TimelineRow) -> int | None:
    """The request that opened the exchange of a message."""
    if not row.is_message:
        return None
    if row.exchange is not None:
        return row.exchange
    return row.seq if row.kind == "request" else row.answers


def _exchange_rows(cassette: Cassette, session: int, root: int, on_more: Callable[[], None]) -> Iterator[TimelineRow]:
    opened = frame_row(cassette, session, root)
    channel = opened.channel if opened else STDIO
    messages = exchange_rows(cassette, session, root)
    # Without an answer, anything that follows may be the reason.
    last = end_of_exchange(cassette, session, root, opened.sender if opened else "client")
    meanwhile = _at_most(_MEANWHILE, rows_around(cassette, session, root, last, channel), on_more)
    yield from _before(cassette, session, root, channel)
    yield from merge(messages, meanwhile, key=lambda row: row.seq)


def _at_most(number: int, rows: Iterator[TimelineRow], on_more: Callable[[], None]) -> Iterator[TimelineRow]:
    yield from islice(rows, number)
    if next(rows, None) is not None:
        on_more()


def _before(cassette: Cassette, session: int, root: int, channel: str) -> Iterator[TimelineRow]:
    """The HTTP request that carried a message."""
    found = rows_around(cassette, session, root - _BEFORE, root - 1, channel)
    return (row for row in found if row.frame_kind == "control" and row.seq < root)
