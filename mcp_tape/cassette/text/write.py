"""Sessions as JSON lines: one that describes the session, then one per frame, with its text verbatim in a string."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import orjson

from ...wire import match
from ...wire.frames import Frame, parse
from ..change.derive import Keys, hidden_keys
from ..reader import Cassette, Session
from .lines import json_line
from .read import FORMAT, fingerprint
from .times import Kept


def write(path: str, text: str, before: str | None = None) -> None:
    """Write a cassette as a new text file. `before`: a text whose times are kept where the rest is unchanged."""
    with ExitStack() as stack:
        cassette = stack.enter_context(Cassette(path))
        kept = Kept(stack.enter_context(Cassette(before))) if before else None
        out = stack.enter_context(open(text, "xb"))
        for place, found in enumerate(cassette.each_session()):
            facts, timed = kept.of(cassette, found, place) if kept else (found, iter)
            out.write(header(facts))
            out.writelines(lines(timed(cassette.frames(found.id)), hidden_keys(cassette, found.id)))


def lines(frames: Iterable[Frame], keys: Keys | None = None) -> Iterator[bytes]:
    for frame in frames:
        yield json_line(_row(frame) | _keys(frame, keys))


def header(session: Session) -> bytes:
    """The line of a session. It has no sender, so a search for one side's frames skips it."""
    row = {"kind": "session", "sender": None, "format": FORMAT, "session": session.id}
    rest = session._asdict() | {"target": _target(session.target)}
    del rest["id"]
    return json_line(row | rest)


def _target(text: str) -> Any:
    """A target as a value, which is easier to edit, if that gives the same text again."""
    try:
        value = orjson.loads(text)
        return value if isinstance(value, (dict, list)) and orjson.dumps(value).decode() == text else text
    except ValueError:
        return text


def _row(frame: Frame) -> dict[str, Any]:
    seq, at, sender, channel, kind, text, eol, head, redactions = frame
    row: dict[str, Any] = {"seq": seq, "at": at, "sender": sender, "channel": channel, "kind": kind}
    row["eol"] = eol.decode("latin-1")
    if head is not None:
        row |= _data(head, "head", "head_base64")
    if redactions:
        row["redactions"] = redactions
    return row | _data(text, "text", "base64")


def _data(data: bytes, as_text: str, as_base64: str) -> dict[str, str]:
    try:
        return {as_text: data.decode()}
    except UnicodeDecodeError:
        return {as_base64: b64encode(data).decode()}


def _keys(frame: Frame, keys: Keys | None) -> dict[str, Any]:
    """The stored keys of a frame that differ from those made from its text."""
    stored = keys.get(frame.seq) if keys else None
    if not stored:
        return {}
    messages = parse(frame.text)[1]
    made = {n: match.message_key(m, frame.text, n) for n, m in enumerate(messages) if m.kind == "request"}
    others = {str(part): key.hex() for part, key in stored.items() if part in made and made[part] != key}
    return {"keys": {"of": fingerprint(frame.text)} | others} if others else {}
