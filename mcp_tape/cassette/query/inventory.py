"""Cassettes below a directory, and the facts of their sessions, for `ls` and agents."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from ...wire import jsontext
from .. import schema
from ..reader import Cassette, Session
from ..text.recognize import is_recorded_text, is_working
from .exchanges import Counts


def cassettes_in(directory: str) -> Iterator[str]:
    """Yield the cassettes in a directory and below, sorted by name, including unreadable ones."""
    return filter(may_be_cassette, files_in(directory))


def files_in(directory: str) -> Iterator[str]:
    """Yield the files in a directory and below, sorted by name, without hidden directories."""
    for place, inner, names in os.walk(directory):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        for name in sorted(names):
            path = os.path.normpath(os.path.join(place, name))
            if os.path.isfile(path):
                yield path


def may_be_cassette(path: str) -> bool:
    """Return whether a file is a cassette, by its first bytes, or by its name if it cannot be read."""
    try:
        with open(path, "rb") as file:
            head = file.read(100)
    except OSError:
        return path.endswith(".db")  # judged by its name
    if not head.startswith(schema.MAGIC):
        return path.endswith(schema.TEXT) and is_recorded_text(path)
    return int.from_bytes(head[68:72], "big") == schema.APPLICATION_ID and not is_working(path)


def select_sessions(cassette: Cassette, number: int | None) -> list[int]:
    """The sessions to read: the given one, or all."""
    return [s.id for s in cassette.each_session()] if number is None else [cassette.session(number).id]


def is_open(session: Session) -> bool:
    """Return whether a session may still be recording: it has neither an end nor a reason for lacking one."""
    return session.ended_at is None and (session.incomplete or "").startswith("never closed")


def describe_open(numbers: list[int]) -> str:
    """Describe sessions without an end."""
    which = f"session{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"
    verb = "have" if numbers[1:] else "has"
    return f"{which} {verb} no end yet: being recorded, or the recorder was killed"


def facts(path: str, session: Session, counts: Counts) -> dict[str, Any]:
    """A session of a file, with its counts."""
    return {"file": path} | session._asdict() | {"target": target(session)} | counts._asdict()


def target(session: Session) -> Any:
    try:
        return jsontext.loads(session.target)
    except (ValueError, RecursionError):
        return session.target  # not ours


def server(session: Session) -> str:
    """Name and version of the server, or else its command or URL."""
    named = " ".join(filter(None, (session.server_name, session.server_version)))
    if named:
        return named
    found = target(session)
    if not isinstance(found, dict):
        return str(session.target)
    words = found.get("command")
    return " ".join(map(str, words)) if isinstance(words, list) else str(found.get("url", session.target))
