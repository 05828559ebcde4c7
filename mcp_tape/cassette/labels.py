"""What to call the messages of a frame when it is shown: from the derived rows, read in blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ..errors import CassetteError
from ..wire import jsontext
from ..wire.frames import Frame
from .batches import question_of
from .reader import Cassette

_BLOCK_FRAMES, _BLOCK_BYTES = 500, 4 << 20

_LABELS = f"""SELECT m.seq, m.part, m.sender, m.kind, coalesce(m.method, q.method), coalesce(m.name, q.name), m.rpc_id,
    m.status, m.exchange, CASE WHEN q.frame IS NOT NULL THEN f.at - qf.at END
    FROM frames f JOIN messages m ON m.frame = f.id
    {question_of("m")} """
_OF_FRAMES = _LABELS + "WHERE f.session = ? AND f.seq BETWEEN ? AND ? ORDER BY f.seq, m.part"
_OF_EXCHANGE = _LABELS + "WHERE m.session = ? AND m.exchange = ? ORDER BY m.seq, m.part"


class Label(NamedTuple):
    """A message, in words."""

    seq: int
    part: int
    sender: str
    kind: str
    method: str | None  # of an answer: that of its request
    name: str | None
    rpc_id: str | None
    status: str | None
    exchange: int | None
    microseconds: int | None  # that an answer took

    def words(self) -> str:
        """`tools/call search ok`."""
        unknown = "answer" if self.kind == "response" and self.method is None else None
        return " ".join(filter(None, (self.method or unknown, self.name, self.status)))


_NONE = type(None)
_TEXT, _NUMBER = (str, _NONE), (int, _NONE)
_TYPES: tuple[type | tuple[type, ...], ...] = (int, int, str, str, _TEXT, _TEXT, _TEXT, _TEXT, _NUMBER, _NUMBER)


def _label(cassette: Cassette, row: tuple[Any, ...]) -> Label:
    """SQLite takes any type in any column, and a stranger may have put it there."""
    if not all(map(isinstance, row, _TYPES)):
        raise CassetteError(
            f"cannot read {cassette.path}: a row of its table messages holds what does not belong there"
        )
    return Label(*row)


def labelled(cassette: Cassette, session: int, frames: Iterable[Frame]) -> Iterator[tuple[Frame, list[Label]]]:
    """Frames in their order, each with the labels of its messages."""
    for block in _blocks(frames):
        found: dict[int, list[Label]] = {}
        for row in cassette.rows(_OF_FRAMES, (session, block[0].seq, block[-1].seq)):
            found.setdefault(row[0], []).append(_label(cassette, row))
        for frame in block:
            yield frame, found.get(frame.seq, [])


def of_exchange(cassette: Cassette, session: int, exchange: int) -> list[Label]:
    """Every message that belongs to an exchange, in order."""
    return [_label(cassette, row) for row in cassette.rows(_OF_EXCHANGE, (session, exchange))]


def happened(frame: Frame) -> tuple[str, str]:
    """The event of a control frame, and what else there is to say of it in a line."""
    try:
        facts = jsontext.loads(frame.text)
        event = str(facts["event"])
    except (ValueError, RecursionError, TypeError, KeyError):
        return "control", frame.text.decode("utf-8", "replace")
    if event == "request":
        return event, f"{facts.get('verb')} {facts.get('path')}"
    rest = [str(facts[name]) for name in ("code", "status", "why", "data", "text") if name in facts]
    return event, " ".join(rest).strip()


def _blocks(frames: Iterable[Frame]) -> Iterator[list[Frame]]:
    block: list[Frame] = []
    size = 0
    for frame in frames:
        block.append(frame)
        size += len(frame.text)
        if len(block) >= _BLOCK_FRAMES or size >= _BLOCK_BYTES:
            yield block
            block, size = [], 0
    if block:
        yield block
