"""Secrets on a cassette that is there: where they stand, and the cassette without them.

By the rules of recording, with one more thing to go by: all of it can be read before anything is hidden. So what
stands under a secret key somewhere is hidden also where it turned up before.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import orjson

from . import database, frames, jsontext, match, protocol, rebuilding, storage
from .cassette import Cassette
from .changing import changed, is_in_use, transaction
from .errors import CassetteError
from .frames import Message
from .json_strings import is_json
from .jsonpath import path_text
from .redact import FAILED, Redacted, Redactor
from .remaking import NoChange

_BLOCK = 500
_TRIES = 3
_TEXTS = ("protocol_version", "client_name", "client_version", "server_name", "server_version", "note", "incomplete")
_MARK = re.compile(r"\[redacted:([^\]\r\n]{0,200})\]")
_FIELDS = (b"id:", b"event:", b"retry:")
_FAILED = "a frame could not be redacted and was left out"

Progress = Callable[[int], None]
_Fact = tuple[int, str, str, str]  # the session, the column, the old text and the new one


class Place(NamedTuple):
    """Where a secret stands: `seq` is None for what is said of a session. `kind` names the rule that knows it."""

    session: int
    seq: int | None
    path: str
    kind: str


class Hidden(NamedTuple):
    """How much was hidden: by kind, and in how many frames; and whether the cassette was in use meanwhile."""

    kinds: Counter[str]
    frames: int
    in_use: bool = False


class _Stored(NamedTuple):
    """A frame's row, as far as it matters here."""

    id: int
    session: int
    seq: int
    channel: str
    kind: str
    text: bytes
    head: bytes | None


class _Change(NamedTuple):
    """A frame, and its text and head without its secrets."""

    stored: _Stored
    redacted: Redacted
    head: bytes | None


def secrets(db: sqlite3.Connection, redactor: Redactor, progress: Progress = lambda done: None) -> Iterator[Place]:
    """Everything that recording would hide."""
    for block in _blocks(db, progress):
        for stored, redacted, head in _changes(redactor, block):
            for path, kind in _places(stored.text, redacted.text):
                yield Place(stored.session, stored.seq, path, kind)
            for kind in _added(_plain(stored.head or b""), _plain(head or b"")):
                yield Place(stored.session, stored.seq, "head", kind)
    for session, column, old, text in _facts(db, redactor):
        for kind in _added(old, text):
            yield Place(session, None, column, kind)


def hide(path: str, redactor: Redactor, progress: Progress = lambda done: None) -> Hidden:
    """Hide what the redactor knows, in every page of the file."""
    with changed(path) as db:
        seen = _learn(db, redactor, progress)
        facts = list(_facts(db, redactor))
        with transaction(db):
            for fact in facts:
                _put_fact(db, *fact)
        odd: set[int] = set()
        blocks = _blocks(db, progress, seen)
        hidden = _tally(facts, (change for block in blocks for change in _put(db, redactor, block, odd)))
        for session in sorted(odd):
            with transaction(db):
                rebuilding.rebuild_session(db, session)
        hidden = hidden._replace(in_use=is_in_use(db))
        if not hidden.kinds:
            raise NoChange
    return hidden


def would_hide(path: str, redactor: Redactor, progress: Progress = lambda done: None) -> Hidden:
    """What `hide` would do."""
    with Cassette(path) as cassette:
        db = cassette.connection
        try:
            seen = _learn(db, redactor, progress)
            blocks = _blocks(db, progress, seen)
            changes = (change for block in blocks for change in _changes(redactor, block))
            return _tally(_facts(db, redactor), changes)
        except sqlite3.Error as error:
            raise CassetteError(database.unreadable(path, error)) from None


def _learn(db: sqlite3.Connection, redactor: Redactor, progress: Progress) -> int:
    """Read all before anything is hidden; how many frames there are."""
    seen = 0
    for block in _blocks(db, progress):
        seen += len(block)
        for stored in block:
            try:
                redactor.learn(stored.text, stored.channel)
            except Exception:  # the frame is looked at again, and left out if it fails then
                pass
    return seen


def _put(db: sqlite3.Connection, redactor: Redactor, block: list[_Stored], odd: set[int]) -> Iterator[_Change]:
    """Hide what is in some frames, in one transaction. Sessions whose messages are to be told apart anew are odd."""
    for again in range(_TRIES):
        changes = _changes(redactor, block)
        if not changes:
            return
        with transaction(db):
            done = [change for change in changes if again == _TRIES - 1 or _is_there(db, change.stored)]
            odd.update(change.stored.session for change in done if _store(db, change))
        yield from done
        # What somebody has edited meanwhile is looked at once more.
        block = [
            stored for change in changes if change not in done for stored in _frames(db, "id = ?", (change.stored.id,))
        ]


def _changes(redactor: Redactor, block: Iterable[_Stored]) -> list[_Change]:
    found = (_hide(redactor, stored) for stored in block)
    return [new for new in found if (new.redacted.text, new.head) != (new.stored.text, new.stored.head)]


def _tally(facts: Iterable[_Fact], changes: Iterable[_Change]) -> Hidden:
    kinds: Counter[str] = Counter()
    for _, _, old, new in facts:
        kinds.update(_added(old, new))
    count = 0
    for stored, redacted, head in changes:
        count += 1
        kinds.update(_added(_plain(stored.text), _plain(redacted.text)))
        kinds.update(_added(_plain(stored.head or b""), _plain(head or b"")))
    return Hidden(kinds, count)


def _is_there(db: sqlite3.Connection, stored: _Stored) -> bool:
    """Whether a frame is still what it was: others may change the cassette, too."""
    sql = "SELECT 1 FROM frames WHERE id = ? AND CAST(text AS BLOB) IS ? AND CAST(head AS BLOB) IS ?"
    return db.execute(sql, (stored.id, stored.text, stored.head)).fetchone() is not None


def _store(db: sqlite3.Connection, change: _Change) -> bool:
    """Put the new text in the place of the old one; whether its messages have to be told apart anew."""
    stored, redacted, head = change
    text, matched, count = redacted.text, redacted.matched, redacted.count
    told, messages = frames.parse(text)
    is_message = stored.kind in ("message", "batch")
    db.execute(
        "UPDATE frames SET text = ?, head = ?, kind = ?, redactions = redactions + ? WHERE id = ?",
        (storage.column_text(text), head, told if is_message else stored.kind, max(1, count), stored.id),
    )
    if text == FAILED:
        storage.update_session(db, stored.session, {"incomplete": _FAILED})
    if not is_message:
        return stored.kind == "control"
    before = frames.parse(stored.text)[1]
    if [m[:3] for m in messages] != [m[:3] for m in before]:
        db.execute("DELETE FROM messages WHERE frame = ?", (stored.id,))
        return True
    keyed = frames.parse(matched)[1]
    for n, (old, new) in enumerate(zip(before, messages, strict=True)):
        _put_message(db, stored, n, new, match.message_key(keyed[n], matched, n) if new.kind == "request" else None)
        _put_told(db, stored.session, old, new)
    return False


def _put_message(db: sqlite3.Connection, stored: _Stored, part: int, message: Message, key: bytes | None) -> None:
    if message.kind != "response":  # which has neither
        db.execute(
            """UPDATE messages SET name = CASE WHEN name IS NOT NULL THEN ? END,
               key = CASE WHEN key IS NOT NULL THEN ? END WHERE frame = ? AND part = ?""",
            (database.storable(message.name), key, stored.id, part),
        )


def _put_told(db: sqlite3.Connection, session: int, old: Message, new: Message) -> None:
    """What the session's row has from the old message is what the new one tells."""
    method = new.method or protocol.INITIALIZE  # of answers only those to it, and their like, tell something
    before, now = protocol.session_facts(method, old.body), protocol.session_facts(method, new.body)
    for name, told in before.items():
        if now.get(name) != told:
            _put_fact(db, session, name, told, now.get(name))


def _put_fact(db: sqlite3.Connection, session: int, column: str, old: str, new: str | None) -> None:
    db.execute(f"UPDATE sessions SET {column} = ? WHERE id = ? AND {column} IS ?", (new, session, old))


def _blocks(db: sqlite3.Connection, progress: Progress, done: int = 0) -> Iterator[list[_Stored]]:
    """All frames, in the order in which they were recorded. What is recorded meanwhile comes last."""
    last = -(1 << 63)
    while block := _frames(db, "id > ? ORDER BY id LIMIT ?", (last, _BLOCK)):
        yield block
        done += len(block)
        progress(done)
        database.expect_onward(last, block[-1].id)
        last = block[-1].id


def _frames(db: sqlite3.Connection, which: str, values: tuple[int, ...]) -> list[_Stored]:
    found = db.execute(f"SELECT id, session, seq, channel, kind, text, head FROM frames WHERE {which}", values)
    return [
        _Stored(number, session, seq, channel, kind, _bytes(text), None if head is None else _bytes(head))
        for number, session, seq, channel, kind, text, head in found
    ]


def _hide(redactor: Redactor, stored: _Stored) -> _Change:
    return _Change(stored, _redacted(redactor, stored.text, stored), _hidden_head(redactor, stored))


def _hidden_head(redactor: Redactor, stored: _Stored) -> bytes | None:
    """As in recording: clients echo ids and act on the other fields of an event."""
    if not stored.head:
        return stored.head
    lines = stored.head.splitlines(keepends=True)
    return b"".join(line if line.startswith(_FIELDS) else _redacted(redactor, line, stored).text for line in lines)


def _redacted(redactor: Redactor, text: bytes, stored: _Stored) -> Redacted:
    try:
        return redactor.redact(text, stored.channel, stored.session)
    except Exception:  # fails closed: whatever went wrong, the text must not be kept
        return Redacted(FAILED, FAILED, 1)


def _facts(db: sqlite3.Connection, redactor: Redactor) -> Iterator[_Fact]:
    """What is said of sessions and has to change."""
    for number, target, *texts in db.execute(f"SELECT id, target, {', '.join(_TEXTS)} FROM sessions ORDER BY id"):
        pairs = [("target", target, _target(redactor, target))]
        pairs += [(name, text, redactor.text(text)) for name, text in zip(_TEXTS, texts, strict=True) if _is_text(text)]
        yield from ((number, name, old, new) for name, old, new in pairs if old != new)


def _target(redactor: Redactor, text: Any) -> Any:
    try:
        target = jsontext.loads(text)
        command = target.get("command", [])
        plain = all(isinstance(word, str) for word in command)
    except (ValueError, RecursionError, TypeError, AttributeError):
        return redactor.text(text) if _is_text(text) else text  # not ours, but somebody's
    hidden = redactor.target(target) if plain else target
    return text if hidden == target else orjson.dumps(hidden).decode()


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _places(old: bytes, new: bytes) -> Iterator[tuple[str, str]]:
    """The path and the kind of each value that was hidden in a text; `$` where it is no JSON."""
    if old == new:
        return
    before, after = _strings(_plain(old)), _strings(_plain(new))
    for path, text in after.items():
        for kind in _added(before.get(path, ""), text):
            yield path_text(path), kind


def _strings(text: str) -> dict[jsontext.Path, str]:
    """The strings of a JSON text by their paths; the text itself where it is none."""
    if not is_json(text, deep=False) and not jsontext.is_well_formed(text):
        return {(): text}
    return {path: text[start:end] for path, start, end in jsontext.values(text) if text[start] == '"'}


def _added(old: str, new: str) -> list[str]:
    """The kinds of placeholders that a text has got."""
    return list((Counter(_MARK.findall(new)) - Counter(_MARK.findall(old))).elements())


def _plain(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
