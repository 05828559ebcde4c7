"""A cassette in use, be it played or recorded: the public face of both."""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import api, modes
from ..errors import TapeError, pasted
from ..wire.frames import Exchange

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from ..cassette.lookup.messages import Position
    from ..cassette.reader import Cassette
    from ..cassette.replace import Part
    from ..replay.misses import Advice
    from ..replay.selection import Selection
    from ..replay.stage import Replay

Function = Callable[..., Any]


class Miss(NamedTuple):
    """A call that nothing on the tape answers, and the report that says why."""

    call: Exchange
    report: str

    def __repr__(self) -> str:
        """Show no params in a failed assertion: they may hold secrets."""
        return f"Miss({self.title!r})"

    @property
    def title(self) -> str:
        """Method and name of the call, without secrets."""
        return self.report.partition("\n")[0].removeprefix("miss: ")


class Settings(NamedTuple):
    path: str
    mode: modes.Mode
    command: tuple[str, ...]
    web: api.Web
    replay: Replay
    given: dict[str, Any]  # by the names of the table of options: what recorders are given


class UsedCassette(ABC):
    """A cassette in use: what a client may connect to, and what happened then."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._started = contextlib.ExitStack()
        self._command: list[str] | None = None
        self._url: str | None = None
        self._first = threading.RLock()  # of several threads one starts what all of them use
        self._ended = False
        self.path = settings.path
        self.mode = settings.mode
        self.put: Callable[[Part, str], None] | None = None  # what takes a recording instead of the cassette's place
        self.rewound = 0  # how often
        self.is_of_nothing = False  # whether what was kept is that nothing was asked
        self.words: Callable[[Advice], str] = self._argument  # how reports of misses put their advice

    @property
    def is_recording(self) -> bool:
        return self.mode != "none"

    # -- to connect to

    @property
    def command(self) -> list[str]:
        """The command of a stdio server, for any client."""
        with self._first:
            self._check_in_use()
            if self._command is None:
                self._command = self._make_command()
            return list(self._command)

    @property
    def url(self) -> str:
        """The URL of a server on loopback, started on first use.

        At the path of the live server's URL, over the transport that it was recorded with; else at `/mcp`.
        """
        with self._first:
            self._check_in_use()
            if self._url is None:
                self._url = self._make_url()
            return self._url

    @property
    def server_params(self) -> Any:
        """The command as the official SDK's StdioServerParameters."""
        from mcp import StdioServerParameters

        program, *arguments = self.command
        return StdioServerParameters(command=program, args=arguments)

    @property
    def transport(self) -> Any:
        """A transport for fastmcp's Client."""
        from ..transports.memory import fastmcp_transport

        return fastmcp_transport(self.streams)

    def streams(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        """For the official SDK: streams of a ClientSession by `async with`, or a transport to give to its Client."""
        self._check_in_use()
        return self._make_streams()

    def _check_in_use(self) -> None:
        if self._ended:
            raise TapeError(f"{self.path} is no longer in use: connect within the with block, or the test")

    @abstractmethod
    def _make_streams(self) -> AbstractAsyncContextManager[tuple[Any, Any]]: ...

    @abstractmethod
    def _make_command(self) -> list[str]: ...

    @abstractmethod
    def _make_url(self) -> str: ...

    # -- what happened

    def calls(self, method: str | None = None, *, tool: str | None = None, name: str | None = None) -> list[Exchange]:
        """The requests that clients made, in order, with their answers."""
        wanted = tool or name
        return [call for call in self._made() if method in (None, call.method) and wanted in (None, call.name)]

    @abstractmethod
    def _made(self) -> list[Exchange]: ...

    @property
    @abstractmethod
    def misses(self) -> list[Miss]:
        """The calls that nothing on the tape answered."""

    def _in_words(self, text: str, advice: Sequence[Advice]) -> str:
        from ..replay.misses import in_words

        return in_words(text, advice, self.words)

    def _argument(self, advice: Advice) -> str:
        from ..replay.misses import as_argument

        return f"use_cassette(..., {as_argument(advice)})" if advice.value else f"mcp-tape show {pasted(self.path)}"

    @property
    @abstractmethod
    def unplayed(self) -> list[Exchange]:
        """The recorded requests that no client made."""

    @property
    def all_played(self) -> bool:
        """True if every recorded request was made."""
        return not self.unplayed

    @property
    @abstractmethod
    def play_count(self) -> int:
        """Number of requests that the tape has answered."""

    @property
    @abstractmethod
    def notes(self) -> list[str]:
        """Notes on what was different, such as an answer of the client that was not the recorded one."""

    @property
    def errors(self) -> list[str]:
        """Reasons why recorders could not serve, such as a server's command that is not there."""
        return []

    @property
    def grew(self) -> int:
        """Number of calls that the live server answered, in mode new_episodes, once clients have left."""
        return 0

    @property
    def stale(self) -> int:
        """Number of answers from the tape after a live call that may have changed something."""
        return 0

    @abstractmethod
    def rewind(self) -> None:
        """Forget what happened: the next client finds the tape at its start."""
        self.rewound += 1

    @abstractmethod
    def on(self, method: str, *, tool: str | None = None, name: str | None = None) -> Callable[[Function], Function]:
        """Decorate a function that answers such calls instead of the tape.

        That of a tool gets the call's arguments and returns its text, or a whole result; others get the params and
        return the result.
        """

    def another(self) -> UsedCassette:
        """The cassette in use by somebody else, with calls and misses of its own."""
        return type(self)(self._settings)

    # -- its end

    def finish(self, *, keep: bool) -> None:
        """End what was started. What was recorded takes the cassette's place only if it is to be kept."""
        with self._first:
            if self._ended:
                return
            self._ended = True
        self._end(keep)

    @abstractmethod
    def _end(self, keep: bool) -> None: ...

    def __enter__(self) -> UsedCassette:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.finish(keep=kind is None)

    async def __aenter__(self) -> UsedCassette:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.finish(keep=kind is None)


def unplayed(cassette: Cassette, chosen: Selection, played: set[Position]) -> list[Exchange]:
    """Exchanges of a selection that were not played."""
    from ..replay.finder import Finder

    finder = Finder(chosen)
    finder.state.taken.update(played)
    left = {(row.session, row.seq, row.rpc_id) for row in finder.unplayed()}
    return [e for number in chosen.sessions for e in cassette.exchanges(number) if (e.session, e.seq, e.id) in left]
