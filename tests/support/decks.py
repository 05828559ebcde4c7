"""Two decks wired back to back, and tapes made in memory: whole conversations without a process or a socket."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import tempfile
import weakref
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from mcp_tape.cassette.query.recorded_requests import client_noise
from mcp_tape.cassette.reader import Cassette
from mcp_tape.cassette.writer import Writer
from mcp_tape.record.tape import Tape
from mcp_tape.redaction.redactor import Redactor
from mcp_tape.replay.deck import Deck
from mcp_tape.replay.finder import Finder, Repeats
from mcp_tape.replay.matching.ladder import Ladder, MatchingOptions
from mcp_tape.replay.report import ReplayEvent
from mcp_tape.replay.selection import Selection, select
from mcp_tape.replay.sends import Silence
from mcp_tape.replay.stage import ReplayOptions, Stage
from mcp_tape.verify.client_deck import ClientDeck
from mcp_tape.wire.frames import Side
from tests.support.messages import call, result

FACTS = {"transport": "stdio", "target": {"command": ["server"]}, "recorder": "tests", "note": None, "run": None}
Said = tuple[Side, str]


class OneSession:
    """A cassette being written with one session."""

    def __init__(self, path: Path | str, facts: dict[str, Any]) -> None:
        self._writer = Writer(str(path))
        self.warning = self._writer.warning
        self.is_in_place = self._writer.is_in_place
        self.close = self._writer.close
        try:
            self.session = self._writer.begin(facts)
        except BaseException:
            self._writer.close()
            raise

    def append(self, batch: Iterable[tuple[Any, Any]], facts: dict[str, str]) -> None:
        told = {self.session: facts} if facts else {}
        self._writer.append([(self.session, frame, entries) for frame, entries in batch], told)

    def finish(self, facts: dict[str, Any]) -> None:
        self._writer.finish(self.session, facts)


def make_empty(path: Path) -> None:
    """Create a cassette without sessions unless it exists: the schema takes half the time of a small recording."""
    if not path.exists():
        path.write_bytes(_empty())


@cache
def _empty() -> bytes:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "empty.db")
        Writer(str(path)).close()
        return path.read_bytes()


def make_cassette(
    path: Path, *conversations: Iterable[Said | tuple[Side, str, int]], redactor: Redactor | None = None, **more: Any
) -> Path:
    """A cassette with one session per conversation; each item has a side, a text and perhaps a time."""
    make_empty(path)
    for conversation in conversations:
        writer = OneSession(path, {"started_at": "2026-01-01T00:00:00Z"} | FACTS | more)
        batch: list[Any] = []
        tape = Tape(lambda frame, entries: batch.append((frame, entries)), redactor)  # noqa: B023 - called in this turn
        for number, (side, text, *at) in enumerate(conversation):
            tape.feed(side, "stdio", text.encode("utf-8", "surrogateescape") + b"\n", at[0] if at else number * 1000)
        writer.append(batch, tape.ledger.facts)
        writer.finish({"ended_at": "2026-01-01T00:00:01Z", "exit_code": 0})
        writer.close()
    return path


def alter(path: Path, *statements: str) -> None:
    """Change a cassette directly, as another recorder might have left it."""
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        for statement in statements:
            db.execute(statement)


class Player:
    """A server deck on a cassette, with its reports. Options are those of matching, or else the deck's."""

    def __init__(
        self,
        path: Path,
        session: str = "latest",
        *,
        repeats: Repeats = "error",
        **options: Any,
    ) -> None:
        self.cassette = Cassette(path)
        weakref.finalize(self, self.cassette.__exit__)
        self.selection: Selection = select(self.cassette, session)
        self.facts: list[ReplayEvent] = []
        asked = MatchingOptions(
            **{name: tuple(options.pop(name)) for name in MatchingOptions._fields if name in options}
        )
        ladder = (lambda state: Ladder(self.selection, state, asked)) if any(asked) else None
        self.finder = Finder(self.selection, repeats, options.pop("rules", ()), ladder)
        whole = repeats != "error"
        options = {"report_played": False} | options
        self.deck = Deck(self.selection, self.finder, report=self.facts.append, repeat_whole=whole, **options)

    def start(self, now: float = 0.0) -> list[str]:
        return _texts(self.deck.due(now))

    def say(self, text: str, now: float = 0.0) -> list[str]:
        """Send one frame; return the deck's answers."""
        self.deck.receive(text.encode("utf-8", "surrogateescape"), "stdio", now)
        return _texts(self.deck.due(now))

    def later(self, now: float) -> list[str]:
        return _texts(self.deck.due(now))

    def told(self, what: str) -> list[str]:
        return [fact.text for fact in self.facts if fact.what == what]

    def unplayed(self) -> list[int]:
        return [row.seq for row in self.finder.unplayed_requests()]


def back_to_back(path: Path, session: str = "latest") -> tuple[list[bytes], list[bytes], Player, ClientDeck]:
    """Play a cassette in both roles until neither sends anything; return what each has sent."""
    player = Player(path, session)
    number = player.selection.sessions[0]
    client = ClientDeck(player.selection, number, noise=client_noise(player.cassette, number))
    sent: tuple[list[bytes], list[bytes]] = ([], [])
    told = player.deck.due(0.0)
    for _ in range(100_000):
        for send in told:
            sent[1].append(send.text)
            client.receive(send.text.rstrip(b"\r\n"), "stdio", 0.0)
        asked, told = client.due(0.0), []
        for send in asked:
            sent[0].append(send.text)
            player.deck.receive(send.text.rstrip(b"\r\n"), "stdio", 0.0)
            told += player.deck.due(0.0)
        if not asked and not told:
            return *sent, player, client
    raise AssertionError("the two decks never come to rest")


def _texts(sends: Iterable[Any]) -> list[str]:
    return [
        send.text.decode("utf-8", "surrogateescape").rstrip("\r\n") for send in sends if not isinstance(send, Silence)
    ]


def played(tmp_path: Path, *conversation: Said, **options: Any) -> Player:
    return Player(make_cassette(tmp_path / "tape.db", conversation), **options)


CONCURRENT: list[Said] = [
    ("client", call(1, n=1)),
    ("client", call(2, n=2)),
    ("server", result(2, "two")),
    ("server", result(1, "one")),
]


class Visit:
    """One client of a stage, without a process."""

    def __init__(self, path: Path, session: str = "latest", **more: Any) -> None:
        self.facts: list[ReplayEvent] = []
        replay = ReplayOptions(session=session, words=() if session == "latest" else ("--session", session))
        self.stage = Stage(Cassette(path), replay, lambda text: None, self.facts.append, **more)
        self.player, _ = self.stage.player()

    def say(self, text: str) -> Any:
        """The value in the only answer, or its error."""
        (body,) = self.hear(text)
        return body["result"]["value"] if "result" in body else body["error"]

    def hear(self, text: str) -> list[dict[str, Any]]:
        """All answers to a message."""
        self.player.receive(text.encode(), "stdio", 0.0)
        return [json.loads(send.text) for send in self.player.due(0.0)]  # type: ignore[union-attr]
