"""Secrets of a cassette hidden after recording.

The rules are those of recording, with one advantage: everything can be read before anything is hidden. So a value under
a secret key is hidden even where it occurred before.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ...errors import CassetteError
from ...redaction.redactor import FAILED, Redactor
from ...wire import frames, match, protocol
from ...wire.frames import LEFT_OUT, Message
from .. import batch, file, writer
from ..reader import TEXT, Cassette
from . import derive
from .secrets import FactChange, FrameChange, Progress, StoredFrame, added_kinds, blocks, changes, facts, stored_frame
from .write_access import NoChange, connect_for_changes, find_open_sessions, transaction

_ROUNDS = 3  # each has the frames of the previous one's time; unbounded, a fast recorder would stay ahead


class HiddenCounts(NamedTuple):
    """The number of hidden values by kind, the number of frames, and whether a session may still be recording."""

    kinds: Counter[str]
    frames: int
    recorded: bool = False


def hide(path: str, redactor: Redactor, progress: Progress = lambda done: None) -> HiddenCounts:
    """Hide everything that the redactor finds, in every page of the file."""
    with connect_for_changes(path) as db:
        # Keys of two versions cannot be mixed in one session.
        older = db.execute("SELECT id FROM sessions WHERE key_version IS NOT ?", (match.KEY_VERSION,))
        _rebuild(db, [number for (number,) in older])
        seen = _learn(db, redactor, progress)
        found = list(facts(db, redactor))
        with transaction(db):
            for fact in found:
                _put_fact(db, *fact)
        odd: set[int] = set()
        done = (change for block in blocks(db, progress, seen, _ROUNDS) for change in _put(db, redactor, block, odd))
        hidden = _tally(found, done)
        _rebuild(db, odd)
        hidden = hidden._replace(recorded=bool(find_open_sessions(db)))
        if not (hidden.kinds or hidden.frames or found):  # a function may hide without a placeholder
            raise NoChange
    return hidden


def would_hide(path: str, redactor: Redactor, progress: Progress = lambda done: None) -> HiddenCounts:
    """Count what `hide` would hide."""
    with Cassette(path) as cassette:
        db = cassette.connection
        try:
            seen = _learn(db, redactor, progress)
            found = (change for block in blocks(db, progress, seen) for change in changes(redactor, block))
            return _tally(facts(db, redactor), found)
        except sqlite3.Error as error:
            raise CassetteError(file.describe_unreadable(path, error)) from None


def _tally(facts: Iterable[FactChange], found: Iterable[FrameChange]) -> HiddenCounts:
    kinds: Counter[str] = Counter()
    for _, _, old, new in facts:
        kinds.update(added_kinds(old, new))
    count = 0
    for change in found:
        count += 1
        kinds.update(change.kinds())
    return HiddenCounts(kinds, count)


def _rebuild(db: sqlite3.Connection, sessions: Iterable[int]) -> None:
    for session in sorted(sessions):
        with transaction(db):
            derive.rebuild_session(db, session)


def _learn(db: sqlite3.Connection, redactor: Redactor, progress: Progress) -> int:
    """Read everything before anything is hidden; return the number of frames."""
    seen = 0
    for block in blocks(db, progress):
        seen += len(block)
        for stored in block:
            try:
                redactor.learn(stored.frame.text, stored.frame.channel)
            except Exception:  # the frame is redacted later, and left out if that fails
                pass
    return seen


def _put(db: sqlite3.Connection, redactor: Redactor, block: list[StoredFrame], odd: set[int]) -> Iterator[FrameChange]:
    """Redact some frames, in one transaction. Add sessions whose messages must be derived again to `odd`."""
    found = changes(redactor, block)
    if not found:
        return
    with transaction(db):
        # Frames that were edited meanwhile are redacted again.
        others = [change for change in found if not _is_there(db, change.stored)]
        for other in others:
            found.remove(other)
            found += changes(redactor, stored_frame(db, other.stored.id))
        odd.update(change.stored.session for change in found if _store(db, change))
    yield from found


def _is_there(db: sqlite3.Connection, stored: StoredFrame) -> bool:
    """True if a frame is unchanged: other processes may edit the cassette too."""
    sql = f"SELECT 1 FROM facts WHERE id = ? AND CAST({TEXT} AS BLOB) IS ? AND CAST(head AS BLOB) IS ?"
    return db.execute(sql, (stored.id, stored.frame.text, stored.frame.head)).fetchone() is not None


def _store(db: sqlite3.Connection, change: FrameChange) -> bool:
    """Store the new text; return whether the messages of its session must be derived again."""
    stored, frame, text = change.stored, change.stored.frame, change.redacted.text
    kind, messages = frames.parse(text)
    is_message = frame.kind in ("message", "batch")
    new_kind, count = kind if is_message else frame.kind, max(1, change.redacted.hidden)
    sql = "UPDATE facts SET text = ?, data = ?, head = ?, kind = ?, redactions = redactions + ? WHERE id = ?"
    named = None if new_kind == "message" else new_kind
    db.execute(sql, (*batch.text_columns(text), change.head, named, count, stored.id))
    if text == FAILED:
        writer.update_session(db, stored.session, {"incomplete": LEFT_OUT})
    if not is_message:
        return frame.kind == "control"
    if derive.is_pending(db, stored.session, frame.seq):
        return True  # its recorder would store the original ones
    before = frames.parse(frame.text)[1]
    if [_place(m) for m in messages] != [_place(m) for m in before]:
        return True
    _put_messages(db, change, messages)
    for old, new in zip(before, messages, strict=True):
        _put_facts(db, stored.session, old, new)
    return False


def _place(message: Message) -> tuple[Any, ...]:
    """The parts of a message that decide its place among the others."""
    body, params = message.body, message.body.get("params")
    named = [protocol.member(params, name) for name in ("progressToken", "requestId")]
    asked = protocol.requested_progress_token(body), protocol.subscription_id(body)
    return message.kind, message.method, message.rpc_id, message.status, *named, *asked


def _put_messages(db: sqlite3.Connection, change: FrameChange, messages: list[Message]) -> None:
    if all(message.kind == "response" for message in messages):
        return  # has neither a name nor a key
    matched = change.redacted.matched
    keyed = messages if matched is change.redacted.text else frames.parse(matched)[1]
    for part, message in enumerate(messages):
        if message.kind == "response":
            continue
        key = match.message_key(keyed[part], matched, part) if message.kind == "request" else None
        db.execute(
            """UPDATE derived SET name = CASE WHEN name IS NOT NULL THEN ? END,
               key = CASE WHEN key IS NOT NULL THEN ? END WHERE id = ?""",
            (file.storable_text(message.name), key, change.stored.id + part),
        )


def _put_facts(db: sqlite3.Connection, session: int, old: Message, new: Message) -> None:
    """Replace session facts that came from the old message by those of the new one."""
    method = new.method or protocol.INITIALIZE  # only answers to such methods state facts
    before, now = protocol.session_facts(method, old.body), protocol.session_facts(method, new.body)
    for name, fact in before.items():
        if now.get(name) != fact:
            _put_fact(db, session, name, fact, now.get(name))


def _put_fact(db: sqlite3.Connection, session: int, column: str, old: str, new: str | None) -> None:
    values = file.storable_text(new), session, file.storable_text(old)
    db.execute(f"UPDATE sessions SET {column} = ? WHERE id = ? AND {column} IS ?", values)
