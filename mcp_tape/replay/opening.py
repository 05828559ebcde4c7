"""A deck chosen by how a client begins: its era by its first request, its place in the run.

Does no I/O: who counts the clients of a run is an argument.
"""

from __future__ import annotations

from ..wire import frames, protocol
from .sends import NO_HEADERS

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from .deck import Deck
    from .sends import Action, Headers, Player

    class Clients(Protocol):
        """Numbers the clients of a run, which may be the recorded one; None where nobody can."""

        def peek(self) -> int | None: ...

        def take(self) -> int | None: ...

        def is_of(self, recorded: str) -> bool: ...

    Decks = Callable[[bool | None, int | None], tuple[Player, Deck]]  # by the era and the number of a client


class Opening:
    """A player that begins with the first request. One that only probes is not counted as a client yet."""

    def __init__(
        self,
        decks: Decks,
        era: Callable[[frames.Message], bool | None],
        clients: Clients | None,
        forget: Callable[[Deck], None],
    ) -> None:
        """`forget` is called with a deck that another takes the place of."""
        self._decks = decks
        self._era = era
        self._clients = clients
        self._forget = forget
        self._held: list[tuple[bytes, str, frames.Parsed | None, Headers]] = []  # what came before the first request
        self._chosen: tuple[bool | None, int | None] | None = None
        self._is_counted = False
        self._player: Player | None = None
        self._deck: Deck | None = None

    def receive(
        self,
        text: bytes,
        channel: str,
        now: float,
        parsed: frames.Parsed | None = None,
        headers: Headers = NO_HEADERS,
    ) -> None:
        if not self._is_counted:
            parsed = parsed or frames.parse(text)
        self._held.append((text, channel, parsed, headers))
        if not self._is_counted and parsed is not None:
            requests = [message for message in parsed[1] if message.kind == "request"]
            if requests:
                self._choose(next((one for one in requests if one.method not in protocol.PROBES), requests[0]))
        if self._player is not None:
            held, self._held = self._held, []
            for before, of, read, stated in held:
                self._player.receive(before, of, now, read, stated)

    def due(self, now: float) -> Sequence[Action]:
        return self._player.due(now) if self._player else []

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

    def _choose(self, asked: frames.Message) -> None:
        """By a request. A probe is answered by what would play now; the request after it may know better."""
        is_probe = asked.method in protocol.PROBES
        nth = None if self._clients is None else self._clients.peek() if is_probe else self._clients.take()
        legacy = self._era(asked)
        if legacy is None and self._chosen is not None:
            legacy = self._chosen[0]
        if self._chosen != (legacy, nth):
            self._open(legacy, nth)
        self._is_counted = not is_probe

    def _open(self, legacy: bool | None, nth: int | None) -> None:
        before, self._chosen = self._deck, (legacy, nth)
        if before is not None:
            self._forget(before)
        self._player, self._deck = self._decks(legacy, nth)
        self._deck.state.played += before.state.played if before else 0
