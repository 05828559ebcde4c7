"""A deck chosen by how a client begins: its era, its place in the run, and the session that its first calls fit.

A run has a session for each of its connections, which may come in another order this time. While a client asks what
the recorded one asked, in that order, it plays that session. When it asks anything else, it plays the one of the run
that has most of what was asked so far; of several, the one that began alike. All that the client has said is then said
to that one too, unseen, so that it stands where the client does. Where it would have answered otherwise, it is taken
only if it began in just this way or the one before lacks a call, and a note says so.

Does no I/O: who counts the clients of a run is an argument of the stage.
"""

from __future__ import annotations

from ..wire import frames, match, protocol
from .sends import NO_HEADERS, Send

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Protocol

    from .deck import Deck
    from .selection import Selection
    from .sends import Action, ClientCall, Headers, Player

    class Clients(Protocol):
        """Numbers the clients of a run, which may be the recorded one; None where nobody can."""

        def peek(self) -> int | None: ...

        def take(self) -> int | None: ...

        def is_of(self, recorded: str) -> bool: ...

    class Decks(Protocol):
        """A stage, as a client that begins needs it."""

        is_rehearsing: bool

        def deck(
            self,
            pass_on: Callable[[ClientCall], bool],
            *,
            legacy: bool | None,
            nth: int | None,
            first: int | None = None,
        ) -> tuple[Player, Deck]: ...

        def era_of(self, message: frames.Message) -> bool | None: ...

        def mates(self, deck: Deck) -> list[int]: ...

        def forget(self, deck: Deck) -> None: ...

    Said = tuple[bytes, str, float, frames.Parsed | None, Headers]  # a frame of the client, as a player receives it

_FIRST_CALLS = 64  # of a client, by which its session is found
_MOST_BYTES = 1 << 20  # of them


class Opening:
    """A player that begins with the first request. One that only probes is not counted as a client yet."""

    def __init__(self, stage: Decks, clients: Clients | None, pass_on: Callable[[ClientCall], bool]) -> None:
        self._stage = stage
        self._clients = clients
        self._pass_on = pass_on
        self._held: list[Said] = []  # before the first request
        self._chosen: tuple[bool | None, int | None] | None = None
        self._is_counted = False
        self._player: Player | None = None
        self._deck: Deck | None = None
        self._begun: _ClientHistory | None = None  # as long as another session may fit better

    def receive(
        self,
        text: bytes,
        channel: str,
        now: float,
        parsed: frames.Parsed | None = None,
        headers: Headers = NO_HEADERS,
    ) -> None:
        if self._is_counted and self._begun is None and self._player is not None:
            self._player.receive(text, channel, now, parsed, headers)
            return
        parsed = parsed or frames.parse(text)
        requests = [message for message in parsed[1] if message.kind == "request"]
        self._held.append((text, channel, now, parsed, headers))
        if requests and not self._is_counted:
            self._choose(next((one for one in requests if one.method not in protocol.PROBES), requests[0]))
        if self._player is None:
            return
        if self._begun is not None:
            self._begun.ask(text, parsed[1])
            self._move(self._begun)
            self._begun.said += self._held
        for said in self._held:
            self._player.receive(*said)
        self._held.clear()

    def due(self, now: float) -> Sequence[Action]:
        actions = self._player.due(now) if self._player else []
        if self._begun is not None:
            self._begun.heard += _texts(actions)
            if self._begun.is_over:
                self._begun = None
        return actions

    def next_at(self) -> float | None:
        return self._player.next_at() if self._player else None

    def leave(self, now: float) -> None:
        if self._player:
            self._player.leave(now)

    def abandon(self, channel: str) -> None:
        if self._player:
            self._player.abandon(channel)

    def is_asking(self, rpc_id: str) -> bool:
        """Return whether the tape waits for an answer to a request with this id."""
        return self._deck is not None and self._deck.is_asking(rpc_id)

    # -- what it plays

    @property
    def selection(self) -> Selection:
        return self.playing.selection

    @property
    def is_older(self) -> bool:
        return self.playing.is_older

    def note(self, text: str) -> None:
        self.playing.note(text)

    @property
    def playing(self) -> Deck:
        assert self._deck is not None
        return self._deck

    # -- its era, and its number in the run

    def begin(self, legacy: bool, nth: int | None) -> None:
        """Begin with a client of which the era and the number are known before its first request."""
        self._open(legacy, nth)
        self._is_counted = True

    def _choose(self, asked: frames.Message) -> None:
        """By a request. A probe is answered by what would play now; the request after it may know better."""
        is_probe = asked.method in protocol.PROBES
        nth = None if self._clients is None else self._clients.peek() if is_probe else self._clients.take()
        legacy = self._stage.era_of(asked)
        if legacy is None and self._chosen is not None:
            legacy = self._chosen[0]
        if self._chosen != (legacy, nth):
            self._open(legacy, nth)
        self._is_counted = not is_probe

    def _open(self, legacy: bool | None, nth: int | None) -> None:
        before, self._chosen = self._deck, (legacy, nth)
        if before is not None:
            self._stage.forget(before)
        self._player, self._deck = self._stage.deck(self._pass_on, legacy=legacy, nth=nth)
        self._deck.played += before.played if before else 0
        mates = self._stage.mates(self._deck)
        self._begun = _ClientHistory(self._deck.selection, mates) if len(mates) > 1 else None

    # -- its session

    def _move(self, begun: _ClientHistory) -> None:
        """Go on with the session that fits best, if that is not the one that plays."""
        better = begun.better_session()
        if better is None or self._deck is None or self._chosen is None:
            return
        player, deck, heard = self._rehearse(better, begun.said, *self._chosen)
        if heard != begun.heard and begun.has_all(begun.home) and not begun.is_like(better):
            self._stage.forget(deck)
            return
        if heard != begun.heard:
            deck.note(
                f"this connection asks what session {better} was asked, and in its order; so far it was answered from "
                f"session {begun.home}, otherwise than session {better} answers"
            )
        self._stage.forget(self._deck)
        self._player, self._deck = player, deck
        begun.home = better

    def _rehearse(
        self, session: int, said: Iterable[Said], legacy: bool | None, nth: int | None
    ) -> tuple[Player, Deck, list[bytes]]:
        """Say to another session what the client has said; return what it answers, too."""
        self._stage.is_rehearsing = True
        try:
            player, deck = self._stage.deck(self._pass_on, legacy=legacy, nth=nth, first=session)
            heard = _texts(player.due(0.0))
            for one in said:
                player.receive(*one)
                heard += _texts(player.due(one[2]))
        finally:
            self._stage.is_rehearsing = False
        return player, deck, heard


class _ClientHistory:
    """What a client has said and heard so far, and the sessions of the run that it may be."""

    def __init__(self, selection: Selection, mates: Sequence[int]) -> None:
        self.home, *_ = self._mates = list(mates)
        self.said: list[Said] = []
        self.heard: list[bytes] = []
        self._selection = selection
        self._asked: list[bytes] = []  # the keys of its requests
        self._has: dict[tuple[int, bytes], bool] = {}

    def ask(self, text: bytes, messages: Iterable[frames.Message]) -> None:
        for part, message in enumerate(messages):
            if message.kind == "request" and message.method not in protocol.PROBES:
                self._asked.append(match.message_key(message, text, part))

    @property
    def is_over(self) -> bool:
        """True if it has said so much that it is known, or never will be."""
        return len(self._asked) >= _FIRST_CALLS or sum(len(said[0]) for said in self.said) > _MOST_BYTES

    def better_session(self) -> int | None:
        """The session that fits better than the one that plays."""
        if self.is_like(self.home):
            return None
        fits = {mate: (self._number(mate), self._follows(mate)) for mate in self._mates}
        best = max(self._mates, key=lambda mate: fits[mate])
        return best if fits[best] > fits[self.home] else None

    def is_like(self, session: int) -> bool:
        """Return whether a session began in this way."""
        return self._follows(session) == len(self._asked)

    def has_all(self, session: int) -> bool:
        return self._number(session) == len(set(self._asked))

    def _number(self, session: int) -> int:
        """How many of the requests a session has, with what was added to it."""
        return sum(self._knows(session, key) for key in set(self._asked))

    def _knows(self, session: int, key: bytes) -> bool:
        known = self._has.get((session, key))
        if known is None:
            own = self._selection.session_group(session)
            known = self._has[session, key] = any(self._selection.has_key(one, key) for one in own)
        return known

    def _follows(self, session: int) -> int:
        """How many of the first requests are those of a session, in their order."""
        recorded = self._selection.first_keys(session, protocol.PROBES, len(self._asked))
        same = (one == other for one, other in zip(recorded, self._asked, strict=False))
        return next((at for at, is_same in enumerate(same) if not is_same), len(recorded))


def _texts(actions: Iterable[Action]) -> list[bytes]:
    return [action.text for action in actions if isinstance(action, Send)]
