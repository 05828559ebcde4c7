"""What a cassette says that recording would have hidden: in which frames, and what they are without it.

Knows where secrets stand, and changes nothing.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any, NamedTuple

import orjson

from ...redaction.redactor import FAILED, Redacted, Redactor
from ...redaction.strings import is_json
from ...wire import jsontext
from ...wire.jsonpath import path_text
from ...wire.jsontext import Places
from ...wire.secret_names import MARK, PLACEHOLDER, source_of
from .. import file

_COLUMNS = "id, session, seq, channel, kind, text, head"
_TYPES = (int,), (int,), (int,), (str,), (str,), (str, bytes), (str, bytes, type(None))
_BLOCK, _BLOCK_BYTES = 500, 4 << 20
_TEXTS = ("protocol_version", "client_name", "client_version", "server_name", "server_version", "note", "incomplete")
_FIELDS = (b"id:", b"event:", b"retry:")

Progress = Callable[[int], None]
Fact = tuple[int, str, str, str]  # the session, the column, the old text and the new one


class Place(NamedTuple):
    """Where a secret stands: `seq` is None for what is said of a session. `kind` names the rule that knows it."""

    session: int
    seq: int | None
    path: str
    kind: str


class Stored(NamedTuple):
    """A frame's row, as far as it matters here."""

    id: int
    session: int
    seq: int
    channel: str
    kind: str
    text: bytes
    head: bytes | None


class Change(NamedTuple):
    """A frame, and its text and head without its secrets."""

    stored: Stored
    redacted: Redacted
    head: bytes | None

    def kinds(self) -> list[str]:
        """The rules that know what was hidden."""
        before, after = _plain(self.stored.head or b""), _plain(self.head or b"")
        return added(_plain(self.stored.text), _plain(self.redacted.text)) + added(before, after)


def secrets(db: sqlite3.Connection, redactor: Redactor, progress: Progress = lambda done: None) -> Iterator[Place]:
    """Everything that recording would hide."""
    for block in blocks(db, progress):
        for stored, redacted, head in changes(redactor, block):
            for path, kind in _places(stored.text, redacted.text):
                yield Place(stored.session, stored.seq, path, kind)
            for kind in added(_plain(stored.head or b""), _plain(head or b"")):
                yield Place(stored.session, stored.seq, "head", kind)
    for session, column, old, text in facts(db, redactor):
        for kind in added(old, text):
            yield Place(session, None, column, kind)


def changes(redactor: Redactor, block: Iterable[Stored]) -> list[Change]:
    """Those of some frames that recording would have changed."""
    found = (_hide(redactor, stored) for stored in block)
    return [new for new in found if (new.redacted.text, new.head) != (new.stored.text, new.stored.head)]


def blocks(db: sqlite3.Connection, progress: Progress, done: int = 0, rounds: int = 1) -> Iterator[list[Stored]]:
    """All frames, in the order in which they were recorded. Each round more has those that came during the last one."""
    last = -(1 << 63)
    for _ in range(rounds):
        ((end,),) = db.execute("SELECT max(id) FROM frames")
        while block := stored_frames(db, "id > ? AND id <= ? ORDER BY id LIMIT ?", (last, end, _BLOCK)):
            yield block
            done += len(block)
            progress(done)
            file.expect_onward(last, block[-1].id)
            last = block[-1].id


def stored_frames(db: sqlite3.Connection, which: str, values: tuple[int | None, ...]) -> list[Stored]:
    """Frames, not more at once than memory should hold; at least one, if there is one."""
    block, size = [], 0
    with closing(db.execute(f"SELECT {_COLUMNS} FROM frames WHERE {which}", values)) as rows:
        for row in rows:
            file.expect_types(row, _TYPES, "frames")
            number, session, seq, channel, kind, text, head = row
            block.append(
                Stored(number, session, seq, channel, kind, _bytes(text), None if head is None else _bytes(head))
            )
            size += len(block[-1].text)
            if size >= _BLOCK_BYTES:
                break
    return block


def _hide(redactor: Redactor, stored: Stored) -> Change:
    return Change(stored, _redacted(redactor, stored.text, stored), _hidden_head(redactor, stored))


def _hidden_head(redactor: Redactor, stored: Stored) -> bytes | None:
    """As in recording: clients echo ids and act on the other fields of an event."""
    if not stored.head:
        return stored.head
    lines = stored.head.splitlines(keepends=True)
    return b"".join(line if line.startswith(_FIELDS) else _redacted(redactor, line, stored).text for line in lines)


def _redacted(redactor: Redactor, text: bytes, stored: Stored) -> Redacted:
    try:
        return redactor.redact(text, stored.channel, stored.session)
    except Exception:  # fails closed: whatever went wrong, the text must not be kept
        return Redacted(FAILED, FAILED, 1)


def facts(db: sqlite3.Connection, redactor: Redactor) -> Iterator[Fact]:
    """What is said of sessions and has to change."""
    for number, target, *texts in db.execute(f"SELECT id, target, {', '.join(_TEXTS)} FROM sessions ORDER BY id"):
        pairs = [("target", target, _target(redactor, target))]
        pairs += [(name, text, redactor.text(text)) for name, text in zip(_TEXTS, texts, strict=True) if _is_text(text)]
        yield from ((number, name, old, new) for name, old, new in pairs if old != new)


def _target(redactor: Redactor, text: Any) -> Any:
    if not _is_text(text):
        return text  # a stranger's
    try:
        target = jsontext.loads(text)
        command = target.get("command", [])
        plain = all(isinstance(word, str) for word in command)
    except (ValueError, RecursionError, TypeError, AttributeError):
        return redactor.text(text)  # not ours, but somebody's
    hidden = redactor.target(target) if plain else target
    return text if hidden == target else orjson.dumps(hidden).decode()


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _places(old: bytes, new: bytes) -> Iterator[tuple[str, str]]:
    """The path and the kind of each value that was hidden in a text; `$` where it is no JSON."""
    if old == new:
        return
    places = Places()
    before, after = _strings(_plain(old), places), _strings(_plain(new), places)
    for place, text in after.items():
        for kind in added(before.get(place, ""), text):
            yield path_text(places.path(place)), kind


def _strings(text: str, places: Places) -> dict[int, str]:
    """The strings of a JSON text by their places; the text itself where it is none."""
    if not is_json(text, deep=False) and not jsontext.is_well_formed(text):
        return {0: text}
    found = jsontext.walk(text, 0, places.down)
    return {place: text[start:end] for place, start, end in found if text[start] == '"'}


def added(old: str, new: str) -> list[str]:
    """The kinds of placeholders that a text has got."""
    marks = _sources(new)
    if len(marks) < 2 and MARK not in old:
        return marks
    return list((Counter(marks) - Counter(_sources(old))).elements())


def _sources(text: str) -> list[str]:
    return [source_of(found) for found in PLACEHOLDER.findall(text)]


def _plain(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
