"""Secrets on a cassette that is there: where they stand, and the cassette without them.

By the rules of recording, with one more thing to go by: all of it can be read before anything is hidden. So what
stands under a secret key somewhere is hidden also where it turned up before.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import orjson

from . import database, frames, jsontext, match, rebuilding, storage
from .json_strings import is_json
from .jsonpath import path_text
from .redact import FAILED, Redacted, Redactor
from .remaking import NoChange, only_ours, remade

_FRAMES = "SELECT id, session, seq, channel, kind, text, head FROM frames WHERE id > ? ORDER BY id LIMIT ?"
_BLOCK = 500
_TEXTS = ("protocol_version", "client_name", "client_version", "server_name", "server_version", "note", "incomplete")
_MARK = re.compile(r"\[redacted:([^\]\r\n]{0,200})\]")
_FIELDS = (b"id:", b"event:", b"retry:")
_FAILED = "a frame could not be redacted and was left out"

Progress = Callable[[int], None]


class Place(NamedTuple):
    """Where a secret stands: `seq` is None for what is said of a session. `kind` names the rule that knows it."""

    session: int
    seq: int | None
    path: str
    kind: str


class Hidden(NamedTuple):
    """How much was hidden: by kind, and in how many frames."""

    kinds: Counter[str]
    frames: int


class _Stored(NamedTuple):
    """A frame's row, as far as it matters here."""

    id: int
    session: int
    seq: int
    channel: str
    kind: str
    text: bytes
    head: bytes | None


class _New(NamedTuple):
    """The same without its secrets."""

    redacted: Redacted
    head: bytes | None


def secrets(db: sqlite3.Connection, redactor: Redactor, progress: Progress = lambda done: None) -> Iterator[Place]:
    """Everything that recording would hide."""
    for done, stored in enumerate(_stored(db)):
        progress(done)
        new = _hide(redactor, stored)
        for path, kind in _places(stored.text, new.redacted.text):
            yield Place(stored.session, stored.seq, path, kind)
        for kind in _added(_plain(stored.head or b""), _plain(new.head or b"")):
            yield Place(stored.session, stored.seq, "head", kind)
    for session, column, old, text in _facts(db, redactor):
        for kind in _added(old, text):
            yield Place(session, None, column, kind)


def hide(path: str, redactor: Redactor, *, dry_run: bool = False, progress: Progress = lambda done: None) -> Hidden:
    """Hide what the redactor knows, in every page of the file."""
    with remade(path, only_ours) as db:
        seen = 0
        for seen, stored in enumerate(_stored(db), 1):
            _learn(redactor, stored)
            progress(seen)
        db.execute("BEGIN")
        hidden = _hide_in_frames(db, redactor, lambda done: progress(seen + done))
        for session, column, old, text in list(_facts(db, redactor)):
            hidden.kinds.update(_added(old, text))
            storage.update_session(db, session, {column: text})
        if dry_run or not hidden.kinds:
            raise NoChange
    return hidden


def _learn(redactor: Redactor, stored: _Stored) -> None:
    try:
        redactor.learn(stored.text, stored.channel)
    except Exception:  # the frame is looked at again, and left out if it fails then
        pass


def _hide_in_frames(db: sqlite3.Connection, redactor: Redactor, progress: Progress) -> Hidden:
    kinds: Counter[str] = Counter()
    changed: dict[int, list[tuple[bytes, int, int]]] = {}  # by session, the new keys
    count = 0
    for done, stored in enumerate(_stored(db)):
        progress(done)
        new = _hide(redactor, stored)
        if (new.redacted.text, new.head) != (stored.text, stored.head):
            count += 1
            for before, after in ((stored.text, new.redacted.text), (stored.head or b"", new.head or b"")):
                kinds.update(_added(_plain(before), _plain(after)))
            changed.setdefault(stored.session, []).extend(_store(db, stored, new))
    for session, keys in changed.items():
        rebuilding.rebuild_session(db, session)
        db.executemany("UPDATE messages SET key = ? WHERE frame = ? AND part = ? AND key IS NOT NULL", keys)
    return Hidden(kinds, count)


def _store(db: sqlite3.Connection, stored: _Stored, new: _New) -> list[tuple[bytes, int, int]]:
    """Put the new text in the place of the old one: the keys of the requests in it."""
    text, matched, count = new.redacted.text, new.redacted.matched, new.redacted.count
    told, messages = frames.parse(text)
    kind = told if stored.kind in ("message", "batch") else stored.kind
    db.execute(
        "UPDATE frames SET text = ?, head = ?, kind = ?, redactions = redactions + ? WHERE id = ?",
        (storage.column_text(text), new.head, kind, max(1, count), stored.id),
    )
    if text == FAILED:
        storage.update_session(db, stored.session, {"incomplete": _FAILED})
    keyed = frames.parse(matched)[1]
    return [
        (match.message_key(keyed[n], matched, n), stored.id, n)
        for n, message in enumerate(messages)
        if message.kind == "request"
    ]


def _stored(db: sqlite3.Connection) -> Iterator[_Stored]:
    """Every frame, in the order in which they were recorded, read in blocks."""
    last = -(1 << 63)
    while block := db.execute(_FRAMES, (last, _BLOCK)).fetchall():
        for number, session, seq, channel, kind, text, head in block:
            yield _Stored(number, session, seq, channel, kind, _bytes(text), None if head is None else _bytes(head))
        database.expect_onward(last, block[-1][0])
        last = block[-1][0]


def _hide(redactor: Redactor, stored: _Stored) -> _New:
    return _New(_redacted(redactor, stored.text, stored), _hidden_head(redactor, stored))


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


def _facts(db: sqlite3.Connection, redactor: Redactor) -> Iterator[tuple[int, str, str, str]]:
    """What is said of sessions and has to change: the session, the column, the old text and the new one."""
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
