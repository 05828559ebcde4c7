"""The secrets on a cassette that is there hidden after the fact.

By the rules of recording, with one more thing to go by: all of it can be read before anything is hidden. So what
stands under a secret key somewhere is hidden also where it turned up before.
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
from .. import derive, file, writer
from ..reader import Cassette
from ..replace import NoChange, changed, still_open, transaction
from .secrets import Change, Fact, Progress, Stored, added, blocks, changes, facts, stored_frames

_ROUNDS = 3  # what was recorded or edited during one is in the next; without an end, a fast recorder would be ahead


class Hidden(NamedTuple):
    """How much was hidden: by kind, and in how many frames; and whether somebody may still be recording."""

    kinds: Counter[str]
    frames: int
    recorded: bool = False


def hide(path: str, redactor: Redactor, progress: Progress = lambda done: None) -> Hidden:
    """Hide what the redactor knows, in every page of the file."""
    with changed(path) as db:
        _bring_up_to_date(db)
        seen = _learn(db, redactor, progress)
        told = list(facts(db, redactor))
        with transaction(db):
            for fact in told:
                _put_fact(db, *fact)
        odd: set[int] = set()
        done = (change for block in blocks(db, progress, seen, _ROUNDS) for change in _put(db, redactor, block, odd))
        hidden = _tally(told, done)
        _rebuild(db, odd)
        hidden = hidden._replace(recorded=bool(still_open(db)))
        if not hidden.kinds:
            raise NoChange
    return hidden


def would_hide(path: str, redactor: Redactor, progress: Progress = lambda done: None) -> Hidden:
    """What `hide` would do."""
    with Cassette(path) as cassette:
        db = cassette.connection
        try:
            seen = _learn(db, redactor, progress)
            found = (change for block in blocks(db, progress, seen) for change in changes(redactor, block))
            return _tally(facts(db, redactor), found)
        except sqlite3.Error as error:
            raise CassetteError(file.unreadable(path, error)) from None


def _tally(told: Iterable[Fact], found: Iterable[Change]) -> Hidden:
    kinds: Counter[str] = Counter()
    for _, _, old, new in told:
        kinds.update(added(old, new))
    count = 0
    for change in found:
        count += 1
        kinds.update(change.kinds())
    return Hidden(kinds, count)


def _bring_up_to_date(db: sqlite3.Connection) -> None:
    """Keys that an older version has made cannot stand beside ours in one session."""
    sql = "SELECT id FROM sessions WHERE key_version IS NOT ?"
    _rebuild(db, [number for (number,) in db.execute(sql, (match.KEY_VERSION,))])


def _rebuild(db: sqlite3.Connection, sessions: Iterable[int]) -> None:
    for session in sorted(sessions):
        with transaction(db):
            derive.rebuild_session(db, session)


def _learn(db: sqlite3.Connection, redactor: Redactor, progress: Progress) -> int:
    """Read all before anything is hidden; how many frames there are."""
    seen = 0
    for block in blocks(db, progress):
        seen += len(block)
        for stored in block:
            try:
                redactor.learn(stored.text, stored.channel)
            except Exception:  # the frame is looked at again, and left out if it fails then
                pass
    return seen


def _put(db: sqlite3.Connection, redactor: Redactor, block: list[Stored], odd: set[int]) -> Iterator[Change]:
    """Hide what is in some frames, in one transaction. Sessions whose messages are to be told apart anew are odd."""
    found = changes(redactor, block)
    if not found:
        return
    with transaction(db):
        # What somebody has edited meanwhile is looked at once more.
        others = [change for change in found if not _is_there(db, change.stored)]
        for other in others:
            found.remove(other)
            found += changes(redactor, stored_frames(db, "id = ?", (other.stored.id,)))
        odd.update(change.stored.session for change in found if _store(db, change))
    yield from found


def _is_there(db: sqlite3.Connection, stored: Stored) -> bool:
    """Whether a frame is still what it was: others may change the cassette, too."""
    sql = "SELECT 1 FROM frames WHERE id = ? AND CAST(text AS BLOB) IS ? AND CAST(head AS BLOB) IS ?"
    return db.execute(sql, (stored.id, stored.text, stored.head)).fetchone() is not None


def _store(db: sqlite3.Connection, change: Change) -> bool:
    """Put the new text in the place of the old one; whether its messages have to be told apart anew."""
    stored, text = change.stored, change.redacted.text
    kind, messages = frames.parse(text)
    is_message = stored.kind in ("message", "batch")
    db.execute(
        "UPDATE frames SET text = ?, head = ?, kind = ?, redactions = redactions + ? WHERE id = ?",
        (
            writer.column_text(text),
            change.head,
            kind if is_message else stored.kind,
            max(1, change.redacted.count),
            stored.id,
        ),
    )
    if text == FAILED:
        writer.update_session(db, stored.session, {"incomplete": LEFT_OUT})
    if not is_message:
        return stored.kind == "control"
    before = frames.parse(stored.text)[1]
    if [_place(m) for m in messages] != [_place(m) for m in before]:
        db.execute("DELETE FROM messages WHERE frame = ?", (stored.id,))
        return True
    _put_messages(db, change, messages)
    for old, new in zip(before, messages, strict=True):
        _put_told(db, stored.session, old, new)
    return False


def _place(message: Message) -> tuple[Any, ...]:
    """All of a message that tells of its place among the others."""
    body, params = message.body, message.body.get("params")
    named = [protocol.member(params, name) for name in ("progressToken", "requestId")]
    asked = protocol.progress_token_asked(body), protocol.subscription_id(body)
    return message.kind, message.method, message.rpc_id, message.status, *named, *asked


def _put_messages(db: sqlite3.Connection, change: Change, messages: list[Message]) -> None:
    if all(message.kind == "response" for message in messages):
        return  # has neither a name nor a key
    matched = change.redacted.matched
    keyed = messages if matched is change.redacted.text else frames.parse(matched)[1]
    for part, message in enumerate(messages):
        if message.kind == "response":
            continue
        key = match.message_key(keyed[part], matched, part) if message.kind == "request" else None
        db.execute(
            """UPDATE messages SET name = CASE WHEN name IS NOT NULL THEN ? END,
               key = CASE WHEN key IS NOT NULL THEN ? END WHERE frame = ? AND part = ?""",
            (file.storable(message.name), key, change.stored.id, part),
        )


def _put_told(db: sqlite3.Connection, session: int, old: Message, new: Message) -> None:
    """What the session's row has from the old message is what the new one tells."""
    method = new.method or protocol.INITIALIZE  # of answers only those to it, and their like, tell something
    before, now = protocol.session_facts(method, old.body), protocol.session_facts(method, new.body)
    for name, told in before.items():
        if now.get(name) != told:
            _put_fact(db, session, name, told, now.get(name))


def _put_fact(db: sqlite3.Connection, session: int, column: str, old: str, new: str | None) -> None:
    values = file.storable(new), session, file.storable(old)
    db.execute(f"UPDATE sessions SET {column} = ? WHERE id = ? AND {column} IS ?", values)
