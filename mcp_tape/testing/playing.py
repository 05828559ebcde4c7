"""A cassette that plays in this process: in memory, over HTTP, and through a command that connects to it."""

from __future__ import annotations

import contextlib
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator
from time import time
from typing import TYPE_CHECKING, Any

from ..cassette import file
from ..cassette.reader import Cassette
from ..replay.faults import StandIns, output_schemas
from ..replay.stage import Stage
from ..wire import frames, protocol
from ..wire.frames import Exchange
from .used import Function, Inexact, Miss, UsedCassette, UseSettings, When, unplayed_exchanges

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from ..replay.deck import Deck
    from ..replay.report import ReplayEvent
    from ..replay.sends import ClientCall, Player, Send
    from ..transports.http.listen import Application
    from ..transports.http.serve import ReplayServer


class PlayingTape(UsedCassette):
    """A tape in use that plays: a deck for each client, and the facts of all."""

    def __init__(self, settings: UseSettings, opened: Cassette) -> None:
        """`opened` is for the first client: checking a cassette is most of the work of opening it."""
        super().__init__(settings)
        self._opened, self._as_opened = opened, file.file_state(self.path)
        self._unused = weakref.finalize(self, opened.__exit__)
        self._lock = threading.Lock()
        self._clients = _ClientCounter()
        self._facts: list[tuple[float, ReplayEvent]] = []  # with the time of each
        self._said: list[str] = []
        self._answers: dict[ClientCall, bytes] = {}  # of stand-ins
        self._decks: list[Deck] = []  # of all clients
        self._stand_ins = StandIns(self._output_schemas)
        self._server: ReplayServer | None = None
        self._url_path = ""

    def _make_streams(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        from ..transports.memory import streams

        return streams(self._player)

    def _make_command(self) -> list[str]:
        from ..console import say
        from ..transports.local import Door

        door = Door(self._player, say)
        self._started.callback(door.close)
        return door.command

    def _make_url(self) -> str:
        from ..transports import local
        from ..transports.http.listen import Address, Site

        # After an exception in a rule or fault, a client learns only that there was one.
        site = Site(Address("127.0.0.1", 0), traceback.print_exception)
        origin = self._started.enter_context(local.site_in_thread(site, lambda: self._application(site.stop)))
        return origin + self._url_path

    @contextlib.contextmanager
    def _player(self) -> Iterator[Player]:
        """A player for one client, in that client's thread."""
        with self._cassette() as cassette:
            with file.begin_snapshot(cassette.connection):
                player, _ = self._stage(cassette).player()
            yield player

    @contextlib.contextmanager
    def _application(self, stop: Callable[[], None]) -> Iterator[Application]:
        from ..transports.http import serve

        with self._cassette() as cassette:
            stage = self._stage(cassette)
            self._url_path, aliases = stage.served_paths(self._settings.web.url)
            self._server = serve.ReplayServer(stage, stop, aliases)
            yield self._server

    def _stage(self, cassette: Cassette) -> Stage:
        hooks = self._add_event, self._stand_in, lambda run: self._clients
        return _Stage(self._decks, cassette, self._settings.replay, self._said.append, *hooks)

    def _cassette(self) -> Cassette:
        """The cassette that was opened for checking, once, if the file is unchanged; else a new one."""
        if file.file_state(self.path) != self._as_opened:
            self._unused()
        return self._opened if self._unused.detach() else Cassette(self.path, self.label)

    # -- what happened

    def _add_event(self, fact: ReplayEvent) -> None:
        with self._lock:
            self._facts.append((time(), fact))

    def _events_of(self, *what: str) -> list[ReplayEvent]:
        return [fact for _, fact in self._timed_events(*what)]

    def _timed_events(self, *what: str) -> list[tuple[float, ReplayEvent]]:
        with self._lock:
            return [(at, fact) for at, fact in self._facts if fact.what in what]

    def _timed_calls(self) -> list[tuple[When, Exchange]]:
        calls: dict[ClientCall, When] = {}
        for number, (at, fact) in enumerate(self._timed_events("played", "miss")):
            if fact.call is not None:
                calls.setdefault(fact.call, (at, number))  # a miss may have been found first
        with Cassette(self.path) as cassette:
            sessions = {call.recorded.session for call in calls if call.recorded}
            recorded = {(e.session, e.seq, e.id): e for number in sessions for e in cassette.exchanges(number)}
        return [(at, self._exchange(call, recorded)) for call, at in calls.items()]

    def _exchange(
        self, call: ClientCall, recorded: dict[tuple[int | None, int | None, str | None], Exchange]
    ) -> Exchange:
        message, row = call.message, call.recorded
        then = recorded.get((row.session, row.seq, row.rpc_id)) if row else None
        if then is not None:
            return then._replace(id=call.rpc_id, params=message.body.get("params"), server=self.label)
        answer = frames.parse(self._answers.get(call, b""))[1]
        body = answer[0].body if answer else {}
        asked = (None, None, "client", message.method or "", message.name, call.rpc_id, message.body.get("params"))
        return Exchange._make((*asked, body.get("result"), body.get("error"), None, self.label))

    @property
    def misses(self) -> list[Miss]:
        return [
            self._miss(self._exchange(fact.call, {}), fact.text, fact.advice)
            for fact in self._events_of("miss")
            if fact.call
        ]

    @property
    def inexact(self) -> list[Inexact]:
        found = []
        for fact in self._events_of("inexact"):
            if fact.call and fact.call.recorded and fact.inexact:
                rung, similarity, differing = fact.inexact
                place = fact.call.recorded.session, fact.call.recorded.seq
                found.append(
                    Inexact(self._with_label(self._exchange(fact.call, {})), rung, similarity, *place, differing)
                )
        return found

    @property
    def unplayed(self) -> list[Exchange]:
        from ..replay.selection import Selection, select

        played = {place for deck in self._decks for place in (*deck.finder.taken, *deck.finder.given_back)}
        sessions = list(dict.fromkeys(session for deck in self._decks for session in deck.selection.sessions))
        with Cassette(self.path, self.label) as cassette:
            which = self._settings.replay.session
            chosen = Selection(cassette, sessions) if sessions else select(cassette, which, nth=0)
            return unplayed_exchanges(cassette, chosen, played, self.label)

    @property
    def play_count(self) -> int:
        return len(self._events_of("played"))

    @property
    def notes(self) -> list[str]:
        misses = {fact.text for fact in self._events_of("miss")}
        return list(dict.fromkeys(text.removeprefix("note: ") for text in self._said if text not in misses))

    def rewind(self) -> None:
        super().rewind()
        with self._lock:
            self._facts.clear()
            self._said.clear()
            self._answers.clear()
            self._decks.clear()
            self._clients.reset()
        if self._server is not None:
            self._server.rewind()

    # -- stand-ins

    def on(self, method: str, *, tool: str | None = None, name: str | None = None) -> Callable[[Function], Function]:
        def register(function: Function) -> Function:
            self._stand_ins.add(method, tool or name, function)
            return function

        return register

    def _stand_in(self, call: ClientCall) -> Send | None:
        send = self._stand_ins.answer(call)
        if send is not None:
            self._answers[call] = send.text
        return send

    def _output_schemas(self) -> dict[str, Any]:
        from ..replay.selection import select

        with Cassette(self.path, self.label) as cassette:
            chosen = select(cassette, self._settings.replay.session, nth=0)
            answers = [chosen.answer(row) for row in chosen.requests(protocol.TOOLS)]
            return output_schemas(chosen.message(row).body for row in answers if row)

    def another(self) -> PlayingTape:
        return PlayingTape(self._settings, Cassette(self.path, self.label))

    def _end(self, keep: bool) -> None:
        self._started.close()
        self._unused()


class _Stage(Stage):
    """A stage whose decks are also kept in a list of the tape."""

    def __init__(self, decks: list[Deck], *arguments: Any) -> None:
        super().__init__(*arguments)
        self._known = decks

    def deck(self, *arguments: Any, **options: Any) -> tuple[Player, Deck]:
        player, deck = super().deck(*arguments, **options)
        self._known.append(deck)
        return player, deck

    def forget(self, deck: Deck) -> None:
        super().forget(deck)
        self._known.remove(deck)


class _ClientCounter:
    """Numbers the clients of a tape."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0

    def peek(self) -> int:
        return self._next

    def take(self) -> int:
        with self._lock:
            self._next += 1
            return self._next - 1

    def is_of(self, recorded: str) -> bool:
        return False

    def reset(self) -> None:
        self._next = 0
