"""Secrets on a cassette that recording would have hidden: their places, and their frames without them.

Read-only; `redact` changes a cassette.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from ...redaction.redactor import FAILED, RedactedText, Redactor
from ...redaction.strings import is_json
from ...wire import jsontext
from ...wire.frames import Frame
from ...wire.jsonpath import path_text
from ...wire.jsontext import PathNumbers
from ...wire.secret_names import MARK, PLACEHOLDER, source_of
from .. import schema
from ..file import OddRowError
from ..pages import pages
from ..reader import FRAME_COLUMNS, OF_SESSION, frame_of

_STORED = f"SELECT id, session, {FRAME_COLUMNS} FROM frames WHERE"
_TEXT = 2 + Frame._fields.index("text")
_BLOCK = 500
_FACTS = ("protocol_version", "client_name", "client_version", "server_name", "server_version", "note", "incomplete")
_FIELDS = (b"id:", b"event:", b"retry:")

Progress = Callable[[int], None]
FactChange = tuple[int, str, str, str]  # the session, the column, the old text and the new one


class SecretPlace(NamedTuple):
    """The place of a secret: `seq` is None for a fact of a session. `kind` names the rule that found it."""

    session: int
    seq: int | None
    path: str
    kind: str


class StoredFrame(NamedTuple):
    """A frame with its session and its id in the table."""

    id: int
    session: int
    frame: Frame


class FrameChange(NamedTuple):
    """A frame, with its redacted text and head."""

    stored: StoredFrame
    redacted: RedactedText
    head: bytes | None

    def kinds(self) -> list[str]:
        """The rules that found the hidden values."""
        frame = self.stored.frame
        return added_kinds(_decode(frame.text), _decode(self.redacted.text)) + _kinds_added_to_head(frame, self.head)


def secrets(
    db: sqlite3.Connection, redactor: Redactor, progress: Progress = lambda done: None
) -> Iterator[SecretPlace]:
    """Yield everything that recording would hide."""
    for block in blocks(db, progress):
        for (_, session, frame), redacted, head in changes(redactor, block):
            for path, kind in _places(frame.text, redacted.text):
                yield SecretPlace(session, frame.seq, path, kind)
            for kind in _kinds_added_to_head(frame, head):
                yield SecretPlace(session, frame.seq, "head", kind)
    for session, column, old, text in facts(db, redactor):
        for kind in added_kinds(old, text):
            yield SecretPlace(session, None, column, kind)


def changes(redactor: Redactor, block: Iterable[StoredFrame]) -> list[FrameChange]:
    """Redact frames; return those that change."""
    found = (FrameChange(it, _redact_text(redactor, it.frame.text, it), _hidden_head(redactor, it)) for it in block)
    return [new for new in found if (new.redacted.text, new.head) != (new.stored.frame.text, new.stored.frame.head)]


def blocks(db: sqlite3.Connection, progress: Progress, done: int = 0, rounds: int = 1) -> Iterator[list[StoredFrame]]:
    """Read all frames in recorded order. A further round has the frames recorded during the previous one."""
    read: dict[int, int] = {}  # by session, the last id read
    for _ in range(rounds):
        for (session,) in db.execute("SELECT id FROM sessions ORDER BY id").fetchall():
            first, last = schema.row_ids(session)
            (end,) = db.execute(f"SELECT max(id) FROM facts WHERE {OF_SESSION}", (first, last)).fetchone()
            sql, after = f"{_STORED} id <= ?", (read.get(session, first - 1),)
            for block in pages(db, sql, (end,), {"id": 0}, _make_stored, after=after, most=_BLOCK, text=_TEXT):
                yield block
                done += len(block)
                progress(done)
                read[session] = block[-1].id


def stored_frame(db: sqlite3.Connection, number: int) -> list[StoredFrame]:
    """Read one frame, if it exists."""
    return [_make_stored(row) for row in db.execute(f"{_STORED} id = ?", (number,)).fetchall()]


def _make_stored(row: Sequence[Any]) -> StoredFrame:
    number, session, *values = row
    if not isinstance(session, int):
        raise OddRowError("frames")
    return StoredFrame(number, session, frame_of(values))


def _hidden_head(redactor: Redactor, stored: StoredFrame) -> bytes | None:
    """Redact the fields before an event's data as in recording: clients echo ids and act on the other fields.

    https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
    """
    head = stored.frame.head
    if not head:
        return head
    lines = head.splitlines(keepends=True)
    return b"".join(line if line.startswith(_FIELDS) else _redact_text(redactor, line, stored).text for line in lines)


def _redact_text(redactor: Redactor, text: bytes, stored: StoredFrame) -> RedactedText:
    try:
        return redactor.redact(text, stored.frame.channel, stored.session)
    except Exception:  # fails closed: after any error, the text must not be kept
        return RedactedText(FAILED, FAILED, 1)


def facts(db: sqlite3.Connection, redactor: Redactor) -> Iterator[FactChange]:
    """Redact the facts of sessions; yield those that change."""
    for number, target, *texts in db.execute(f"SELECT id, target, {', '.join(_FACTS)} FROM sessions ORDER BY id"):
        pairs = [("target", target, _target(redactor, target))]
        named = zip(_FACTS, texts, strict=True)
        pairs += [(name, text, redactor.text(text)) for name, text in named if isinstance(text, str)]
        yield from ((number, name, old, new) for name, old, new in pairs if old != new)


def _target(redactor: Redactor, text: Any) -> Any:
    if not isinstance(text, str):
        return text  # untrusted
    try:
        target = jsontext.loads(text)
        command = target.get("command", [])
        plain = all(isinstance(word, str) for word in command)
    except (ValueError, RecursionError, TypeError, AttributeError):
        return redactor.text(text)  # not ours, but possibly secret
    hidden = redactor.target(target) if plain else target
    return text if hidden == target else orjson.dumps(hidden).decode()


def _places(old: bytes, new: bytes) -> Iterator[tuple[str, str]]:
    """Yield path and kind of each value hidden in a text. The path is `$` if the text is not JSON."""
    if old == new:
        return
    places = PathNumbers()
    before, after = _strings(_decode(old), places), _strings(_decode(new), places)
    for place, text in after.items():
        for kind in added_kinds(before.get(place, ""), text):
            yield path_text(places.path(place)), kind


def _strings(text: str, places: PathNumbers) -> dict[int, str]:
    """The strings of a JSON text by place; the text itself if it is not JSON."""
    if not is_json(text, deep=False) and not jsontext.is_well_formed(text):
        return {0: text}
    found = jsontext.walk(text, 0, places.number_below)
    return {place: text[start:end] for place, start, end in found if text[start] == '"'}


def added_kinds(old: str, new: str) -> list[str]:
    """The kinds of the placeholders added to a text."""
    kinds = _sources(new)
    if len(kinds) < 2 and MARK not in old:
        return kinds
    return list((Counter(kinds) - Counter(_sources(old))).elements())


def _kinds_added_to_head(frame: Frame, head: bytes | None) -> list[str]:
    return added_kinds(_decode(frame.head or b""), _decode(head or b""))


def _sources(text: str) -> list[str]:
    return [source_of(found) for found in PLACEHOLDER.findall(text)]


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "replace")
