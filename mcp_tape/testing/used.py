"""A cassette in use, played or recorded: the public face of both."""

from __future__ import annotations

import contextlib
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import api, modes
from ..errors import TapeError, TapeWarning, count
from ..wire.frames import Exchange

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from ..cassette.lookup.messages import Position
    from ..cassette.reader import Cassette
    from ..cassette.replace import DraftFile
    from ..options import OptionValues
    from ..replay.misses import Advice, RequestDifference
    from ..replay.selection import Selection
    from ..replay.stage import ReplayOptions

Function = Callable[..., Any]


class Miss(NamedTuple):
    """A call without an answer on the tape, and the report that explains it."""

    call: Exchange
    report: str

    def __repr__(self) -> str:
        """Show no params in a failed assertion: they may hold secrets."""
        return f"Miss({self.title!r})"

    @property
    def title(self) -> str:
        """Method and name of the call, without secrets."""
        return self.report.partition("\n")[0].removeprefix("miss: ")


When = tuple[float, int]  # a time since the epoch, and an order for equal times


class Inexact(NamedTuple):
    """A call answered by a recording of another call: the rung of matching that found it, and its place.

    Each of `differences` has a JSON path and the values there, recorded and live, as text without secrets.
    """

    call: Exchange
    rung: str
    similarity: float | None
    session: int
    seq: int
    differences: tuple[RequestDifference, ...]

    def __repr__(self) -> str:
        """Show no params in a failed assertion: they may hold secrets."""
        return f"Inexact({self.title!r})"

    @property
    def title(self) -> str:
        """The request and the recording that answered it, without params."""
        near = f" ({self.similarity:.2f})" if self.similarity is not None else ""
        asked = " ".join(filter(None, (self.call.server and f"{self.call.server}:", self.call.method, self.call.name)))
        return f"{asked} by #{self.seq} of session {self.session}, {self.rung}{near}"


class UseSettings(NamedTuple):
    path: str
    mode: modes.Mode
    command: tuple[str, ...]
    web: api.Web
    replay: ReplayOptions
    values: OptionValues  # for recorders


class UsedCassette(ABC):
    """A cassette in use: ways to connect a client, and its calls and events."""

    def __init__(self, settings: UseSettings) -> None:
        self._settings = settings
        self._started = contextlib.ExitStack()
        self._command: list[str] | None = None
        self._url: str | None = None
        self._first = threading.RLock()  # one of several threads starts what all of them use
        self._ended = False
        self.path = settings.path
        self.mode = settings.mode
        self.put: Callable[[DraftFile, str], None] | None = None  # takes a recording instead of replacing the cassette
        self.rewound = 0  # how often
        self.is_of_nothing = False  # whether the recording is kept although it has no request
        self._is_as_before = False  # whether a rewrite changed nothing, for the plugin
        self.words: Callable[[Advice], str] = self._argument  # phrases the advice in reports of misses

    @property
    def is_recording(self) -> bool:
        return self.mode != "none"

    @property
    def label(self) -> str | None:
        """The name of the server, if the tape has several."""
        return self._settings.replay.label

    # -- several servers

    @property
    def servers(self) -> dict[str, UsedCassette]:
        """The tape of each server by name, if there are several."""
        return {}

    def __getitem__(self, name: str) -> UsedCassette:
        """The tape of a server."""
        if name in self.servers:
            return self.servers[name]
        there = f"it has {', '.join(map(repr, self.servers))}" if self.servers else "it was not given servers={...}"
        raise TapeError(f"the tape {self.path} has no server {name!r}; {there}")

    def config(self, key: str = "mcpServers") -> dict[str, Any]:
        """A configuration for frameworks and clients: an object with all servers, each replaced by its tape."""
        raise TapeError(f"the tape {self.path} was not given servers={{...}}, so that it has no configuration")

    # -- connections

    @property
    def command(self) -> list[str]:
        """The command of a stdio server, for any client."""
        with self._first:
            self._check_in_use()
            if self._command is None:
                self._command = self._make_command()
            return list(self._command)

    def _command_for(self, server: Sequence[str]) -> list[str]:
        """The command, for a client that fills in values in the words of the server's command."""
        return self.command

    @property
    def url(self) -> str:
        """The URL of a server on loopback, started on first use.

        It has the path of the live server's URL and the recorded transport; otherwise it is at `/mcp`.
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
        made = (call for _, call in self._timed_calls())
        return [call for call in made if method in (None, call.method) and wanted in (None, call.name)]

    @abstractmethod
    def _timed_calls(self) -> list[tuple[When, Exchange]]:
        """The requests that clients made, in order, each with its time."""

    def expect(
        self,
        *filters: str,
        forbid: str | Sequence[str] = (),
        max: Mapping[str, int] | None = None,  # noqa: A002 - as the command's option is called
        max_duration: str | float | None = None,
        max_definition_bytes: str | int | None = None,
    ) -> None:
        """Fail if the calls so far break a contract.

        Each filter must match a call, `forbid` must match none, and `max` limits the number of calls that a filter
        matches. `max_duration` limits each call, as text or in seconds.
        """
        __tracebackhide__ = True
        from ..contracts import breaches, terms

        given = terms.parse_terms(filters, forbid, (max or {}).items(), max_duration, max_definition_bytes)
        broken = breaches.report(self.path, self.calls(), given)
        if broken:
            raise AssertionError(broken)

    @property
    @abstractmethod
    def misses(self) -> list[Miss]:
        """The calls without an answer on the tape."""

    @property
    def inexact(self) -> list[Inexact]:
        """The calls answered by a recording of another call, as `ignore`, `normalize` or `match` allow."""
        return []

    def _miss(self, call: Exchange, text: str, advice: Sequence[Advice]) -> Miss:
        from ..replay.misses import add_advice

        if self.label is not None:
            text = text.replace("miss: ", f"miss: {self.label}: ", 1)
        return Miss(self._with_label(call), add_advice(text, advice, self.words))

    def _with_label(self, call: Exchange) -> Exchange:
        return call if self.label is None else call._replace(server=self.label)

    def _argument(self, advice: Advice) -> str:
        from ..replay.misses import as_argument, show_command

        return show_command(self.path, advice) if advice.what == "show" else f"use_cassette(..., {as_argument(advice)})"

    @property
    @abstractmethod
    def unplayed(self) -> list[Exchange]:
        """The recorded requests that no client made."""

    @property
    def unstruck(self) -> list[str]:
        """The faults that have not struck yet; empty if all is live."""
        faults = self._settings.replay.faults if self.mode in ("none", "new_episodes") else ()
        notes = set(self.notes) if faults else set()
        return [fault for fault in dict.fromkeys(faults) if f"fault {fault}" not in notes]

    def _unstruck_in_words(self) -> str:
        left = self.unstruck
        return f"{count(len(left), 'fault')} struck nothing on {self.path}: {', '.join(left)}" if left else ""

    @property
    def all_played(self) -> bool:
        """True if every recorded request was made."""
        return not self.unplayed

    @property
    @abstractmethod
    def play_count(self) -> int:
        """The number of requests that the tape has answered."""

    @property
    @abstractmethod
    def notes(self) -> list[str]:
        """Notes on differences, such as a client's answer that was not the recorded one."""

    @property
    def errors(self) -> list[str]:
        """Reasons why recorders could not serve, such as a missing server command."""
        return []

    @property
    def grew(self) -> int:
        """The number of calls that the live server answered in mode new_episodes, once clients have left."""
        return 0

    @property
    def stale(self) -> int:
        """The number of answers from the tape after a live call that may have changed something."""
        return 0

    @abstractmethod
    def rewind(self) -> None:
        """Forget the calls so far: the next client finds the tape at its start."""
        self.rewound += 1

    @abstractmethod
    def on(self, method: str, *, tool: str | None = None, name: str | None = None) -> Callable[[Function], Function]:
        """Decorate a function that answers such calls instead of the tape.

        For a tool, it gets the call's arguments and returns its text, or a whole result. Otherwise it gets the params
        and returns the result.
        """

    @abstractmethod
    def another(self) -> UsedCassette:
        """The same cassette for another user, with its own calls and misses."""

    # -- its end

    def finish(self, *, keep: bool) -> None:
        """End everything that was started. A recording replaces the cassette only with `keep`."""
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
        self._leave(keep=kind is None)

    async def __aenter__(self) -> UsedCassette:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._leave(keep=kind is None)

    def _leave(self, *, keep: bool) -> None:
        """End the use, and warn about unused faults unless the test failed first."""
        self.finish(keep=keep)
        if keep and (unstruck := self._unstruck_in_words()):
            warnings.warn(unstruck, TapeWarning, stacklevel=3)


def unplayed_exchanges(
    cassette: Cassette, chosen: Selection, played: set[Position], label: str | None
) -> list[Exchange]:
    """The exchanges of a selection that were not played, for the server with this label."""
    from ..replay.finder import Finder

    finder = Finder(chosen)
    finder.taken.update(played)
    left = {(row.session, row.seq, row.rpc_id) for row in finder.unplayed_requests()}
    every = (e._replace(server=label) for number in chosen.sessions for e in cassette.exchanges(number))
    return [e for e in every if (e.session, e.seq, e.id) in left]
