"""JSON lines: a line that describes the session, then one frame a line, text verbatim inside a JSON string."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

import orjson

from ..cassette.reader import MESSAGE_TYPES, Cassette, Session
from ..wire import match
from ..wire.frames import Frame, parse
from .pretty import harmless

FORMAT = 1  # of the lines; a reader refuses what is newer
# By the number of a frame, the keys of its requests by part.
Keys = Mapping[int, Mapping[int, bytes]]


def dump(frames: Iterable[Frame], out: BinaryIO, keys: Keys | None = None) -> None:
    for frame in frames:
        out.write(line(_row(frame) | _keys(frame, keys)))


def line(row: dict[str, Any]) -> bytes:
    """One JSON object and a newline, safe to print: JSON allows as they are what terminals act on, or nobody sees."""
    try:
        data = orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # a lone surrogate
        data = json.dumps(row, separators=(",", ":")).encode() + b"\n"
    return data if data.isascii() and b"\x7f" not in data else harmless(data.decode()).encode()


def header(session: Session) -> bytes:
    """The line of a session. It has no sender, so that those who look for one side's frames pass over it."""
    row = {"kind": "session", "sender": None, "format": FORMAT, "session": session.id}
    rest = session._asdict() | {"target": _target(session.target)}
    del rest["id"]
    return line(row | rest)


def hidden_keys(cassette: Cassette, session: int) -> Keys:
    """The keys that the frames no longer tell, because something in them was hidden."""
    keys: dict[int, dict[int, bytes]] = {}
    sql = """SELECT m.seq, m.part, m.key FROM messages m JOIN frames f ON f.id = m.frame
             WHERE m.session = ? AND m.key IS NOT NULL AND f.redactions > 0"""
    types = tuple(MESSAGE_TYPES[name] for name in ("seq", "part", "key"))
    for seq, part, key in cassette.expected(cassette.rows(sql, (session,)), types):
        keys.setdefault(seq, {})[part] = key
    return keys


def fingerprint(text: bytes) -> str:
    """What tells whether a text is still the one that keys were given for."""
    from hashlib import sha256

    return sha256(text).hexdigest()[:16]


def _target(text: str) -> Any:
    """As a value, which is nicer to edit, where that gives the same text again."""
    try:
        value = orjson.loads(text)
        return value if isinstance(value, (dict, list)) and orjson.dumps(value).decode() == text else text
    except ValueError:
        return text


def _row(frame: Frame) -> dict[str, Any]:
    row: dict[str, Any] = {
        "seq": frame.seq,
        "at": frame.at,
        "sender": frame.sender,
        "channel": frame.channel,
        "kind": frame.kind,
        "eol": frame.eol.decode("latin-1"),
    }
    if frame.head is not None:
        row |= _data(frame.head, "head", "head_base64")
    if frame.redactions:
        row["redactions"] = frame.redactions
    return row | _data(frame.text, "text", "base64")


def _data(data: bytes, as_text: str, as_base64: str) -> dict[str, str]:
    try:
        return {as_text: data.decode()}
    except UnicodeDecodeError:
        return {as_base64: b64encode(data).decode()}


def _keys(frame: Frame, keys: Keys | None) -> dict[str, Any]:
    """The stored keys of a frame, where those made of its text are others."""
    stored = keys.get(frame.seq) if keys else None
    if not stored:
        return {}
    messages = parse(frame.text)[1]
    made = {n: match.message_key(m, frame.text, n) for n, m in enumerate(messages) if m.kind == "request"}
    told = {str(part): key.hex() for part, key in stored.items() if part in made and made[part] != key}
    return {"keys": {"of": fingerprint(frame.text)} | told} if told else {}
