"""A deck chosen by a client's first requests: its era, its place in the run, and the session that fits its calls.

A run has one session for each connection, and connections may come in another order this time. While a client sends the
requests of its session in recorded order, that session plays. At the first other request, the session of the run with
most of the client's requests takes over; among equals, the one with the same first requests. The deck of that session
first receives, unseen, all that the client has sent so far, to reach the same state. If its answers would have differed
from those already sent, it takes over only if it began with exactly these requests, or if the current session lacks one
of them; then a note reports it.

Does no I/O: the stage is given the object that counts the clients of a run.
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
        """Numbers the clients of a run, which may be the recorded one; None if they can't be counted."""

        def peek(self) -> int | None: ...

        def take(self) -> int | None: ...

        def is_of(self, recorded: str) -> bool: ...

    class Decks(Protocol):
        """The part of `Stage` that an opening needs."""

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

    Said = tuple[bytes, str, float, frames.Parsed | None, Headers]  # a client frame: the arguments of `receive`

_FIRST_CALLS = 64  # of a client, used to find its session
_MOST_BYTES = 1 << 20  # of them


class Opening:
    """A player that begins with the first request. A client that has only probed has no number in the run yet."""

    def __init__(self, stage: Decks, clients: Clients | None, pass_on: Callable[[ClientCall], bool]) -> None:
        self._stage = stage
        self._clients = clients
        self._pass_on = pass_on
        self._held: list[Said] = []  # before the first request
        self._chosen: tuple[bool | None, int | None] | None = None
        self._is_counted = False
        self._player: Player | None = None
        self._deck: Deck | None = None
        self._begun: _ClientHistory | None = None  # while another session may fit better

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

    # -- the chosen deck

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

    # -- the client's era, and its number in the run

    def begin(self, legacy: bool, nth: int | None) -> None:
        """Begin with a client whose era and number are known before its first request."""
        self._open(legacy, nth)
        self._is_counted = True

    def _choose(self, asked: frames.Message) -> None:
        """Choose a deck by a request. After a probe the choice is provisional: the next request may change it."""
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

    # -- the client's session

    def _move(self, begun: _ClientHistory) -> None:
        """Switch to the session that fits best, if it is not the current one."""
        better = begun.better_session()
        if better is None or self._deck is None or self._chosen is None:
            return
        player, deck, heard = self._rehearse(better, begun.said, *self._chosen)
        if heard != begun.heard and begun.has_all(begun.home) and not begun.is_like(better):
            self._stage.forget(deck)
            return
        if heard != begun.heard:
            deck.note(
                f"this connection makes the calls of session {better}, in their order; so far it got the answers of "
                f"session {begun.home}, which differ"
            )
        self._stage.forget(self._deck)
        self._player, self._deck = player, deck
        begun.home = better

    def _rehearse(
        self, session: int, said: Iterable[Said], legacy: bool | None, nth: int | None
    ) -> tuple[Player, Deck, list[bytes]]:
        """Send the client's frames so far to the deck of another session; return it with its answers."""
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
    """The frames a client has sent and received so far, and the candidate sessions of the run."""

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
        """True once the client has sent too much for the session to change."""
        return len(self._asked) >= _FIRST_CALLS or sum(len(said[0]) for said in self.said) > _MOST_BYTES

    def better_session(self) -> int | None:
        """The session that fits better than the current one; None if none does."""
        if self.is_like(self.home):
            return None
        fits = {mate: (self._number(mate), self._follows(mate)) for mate in self._mates}
        best = max(self._mates, key=lambda mate: fits[mate])
        return best if fits[best] > fits[self.home] else None

    def is_like(self, session: int) -> bool:
        """Return whether a session began with exactly these requests."""
        return self._follows(session) == len(self._asked)

    def has_all(self, session: int) -> bool:
        return self._number(session) == len(set(self._asked))

    def _number(self, session: int) -> int:
        """How many of the requests a session and its extensions have."""
        return sum(self._knows(session, key) for key in set(self._asked))

    def _knows(self, session: int, key: bytes) -> bool:
        known = self._has.get((session, key))
        if known is None:
            own = self._selection.session_group(session)
            known = self._has[session, key] = any(self._selection.has_key(one, key) for one in own)
        return known

    def _follows(self, session: int) -> int:
        """How many of the first requests match those of a session, in order."""
        recorded = self._selection.first_keys(session, protocol.PROBES, len(self._asked))
        same = (one == other for one, other in zip(recorded, self._asked, strict=False))
        return next((at for at, is_same in enumerate(same) if not is_same), len(recorded))


def _texts(actions: Iterable[Action]) -> list[bytes]:
    return [action.text for action in actions if isinstance(action, Send)]
