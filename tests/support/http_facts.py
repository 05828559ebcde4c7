"""HTTP events as a recorder gets them, without a socket; and cassettes made from them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcp_tape.record.http_sessions import Sessions
from mcp_tape.record.tape import Tape
from mcp_tape.redaction.redactor import Redactor
from mcp_tape.wire.frames import Frame, LedgerEntry, Side
from tests.support.decks import FACTS, OneSession

EVENTS = "text/event-stream"
Talk = Callable[["Http"], None]


class Http:
    """HTTP as a recorder gets it. Time advances with each event."""

    def __init__(self, into: Tape | Sessions) -> None:
        self.into = into
        self.at = 0

    def control(self, side: Side, channel: str, **facts: Any) -> None:
        self.at += 10
        self.into.control(side, channel, facts, self.at)

    def feed(self, side: Side, channel: str, data: bytes) -> None:
        self.at += 10
        self.into.feed(side, channel, data, self.at)

    def end(self, side: Side, channel: str) -> None:
        self.at += 10
        self.into.end(side, channel, self.at)
        if side == "server":  # no event marks the end of a request
            self.into.control(side, channel, {"event": "close"}, self.at)

    def open(self, channel: str, path: str = "/mcp", **headers: str) -> None:
        """A request begins."""
        verb = channel.partition("-")[0].upper()
        self.control("client", channel, event="request", verb=verb, path=path, headers=names(headers))

    def post(self, channel: str, body: str, path: str = "/mcp", **headers: str) -> None:
        """A whole request."""
        self.open(channel, path, **headers)
        self.feed("client", channel, body.encode())
        self.end("client", channel)

    def respond(self, channel: str, status: int = 200, content: str = EVENTS, **headers: str) -> None:
        """A response begins."""
        headers = {"content-type": content} | names(headers)
        self.control("server", channel, event="response", status=status, headers=headers)

    def answer(self, channel: str, body: str, status: int = 200, **headers: str) -> None:
        """A whole response."""
        self.respond(channel, status, "application/json", **headers)
        if body:
            self.feed("server", channel, body.encode())
        self.end("server", channel)

    def event(self, channel: str, text: str, number: str | None = None) -> None:
        head = f"id: {number}\n" if number else ""
        self.feed("server", channel, f"{head}data: {text}\n\n".encode())

    def abort(self, side: Side, channel: str) -> None:
        self.control(side, channel, event="abort")


def names(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


class Kept:
    """A tape of one session, and its rows."""

    def __init__(self, *talks: Talk, redactor: Redactor | None = None) -> None:
        self.rows: list[tuple[Frame, list[LedgerEntry]]] = []
        self.tape = Tape(lambda frame, entries: self.rows.append((frame, entries)), redactor)
        self.http = Http(self.tape)
        for talk in talks:
            talk(self.http)
        self.tape.end_all(self.http.at)

    def seq(self, text: str) -> int:
        """The seq of this text, which occurs once."""
        (seq,) = [frame.seq for frame, _ in self.rows if frame.text == text.encode() and frame.kind != "control"]
        return seq

    def entry(self, text: str) -> LedgerEntry:
        (entry,) = self.rows[self.seq(text) - 1][1]
        return entry

    def answered(self, text: str) -> int | None:
        """The seq of the request that a text answers."""
        return self.entry(text).answers

    def texts(self, kind: str) -> list[bytes]:
        return [frame.text for frame, _ in self.rows if frame.kind == kind]


def cassette(path: Path, *talks: Talk, transport: str = "http", **more: Any) -> Path:
    """A cassette with one session of these talks."""
    kept = Kept(*talks)
    writer = OneSession(path, {"started_at": "2026-01-01T00:00:00Z"} | FACTS | {"transport": transport} | more)
    writer.append(kept.rows, kept.tape.ledger.facts)
    writer.finish({"ended_at": "2026-01-01T00:00:01Z"})
    writer.close()
    return path
