"""One cassette for many clients: a replay over HTTP by several processes at one address.

Each worker has a stage of its own. A client with a session stays with the worker that began it, whose number is in the
session's id. Clients of the modern era have no session; any worker answers them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ..api import Web
from ..cassette.reader import Cassette
from ..errors import TapeError
from ..replay import faults
from ..replay.stage import ReplayOptions, ReplayOutcome, Stage
from ..transports.http import serve as http
from ..transports.http.guard import Accidents
from ..transports.http.listen import HEAD_TIMEOUT, OtherWorkers, Site, origin_of
from ..transports.http.message import Headers
from ..transports.workers.crew import Crew, CrewResults, WorkerPlace, peak
from ..transports.workers.listeners import Address, listeners
from ..transports.workers.passing import LetterBoxes
from ..values import size_text
from ..wire.protocol import PATH

if TYPE_CHECKING:
    from ..replay.deck import Deck
    from ..replay.sends import Player
    from ..transports.http.listen import Application

Say = Callable[[str], None]
MOST_WORKERS = 128


class WorkersError(TapeError):
    """Options that work only with one process."""

    exit_code = 2


class SharedTape(NamedTuple):
    """The recording that all workers play: the cassette, its local file, the options, and the recorded session's id."""

    path: str
    source: str
    options: ReplayOptions
    recorded: str | None
    is_shared: bool  # by clients of the modern era

    def open(self) -> Cassette:
        cassette = Cassette(self.source, self.options.label)
        cassette.path = self.path
        return cassette


class WorkerStage(Stage):
    """The stage of one worker."""

    def __init__(self, cassette: Cassette, options: ReplayOptions, say: Say) -> None:
        self._eras: list[bool | None] = []  # of each deck: True for a legacy client
        self._begun = False
        # Messages about the cassette itself were printed before the workers started.
        super().__init__(cassette, options, lambda text: say(text) if self._begun else None)
        self._begun = True

    def deck(self, *arguments: Any, legacy: bool | None = None, **more: Any) -> tuple[Player, Deck]:
        self._eras.append(legacy)
        return super().deck(*arguments, legacy=legacy, **more)

    def tally(self, code: int = 0) -> dict[str, Any]:
        """This worker's figures, to be added to those of the others."""
        own = {"legacy": self._eras[0] if self._eras else None, "code": code, "memory": peak()}
        return super().tally() | own

    def add_up(self, tallies: Sequence[dict[str, Any]]) -> ReplayOutcome:
        """Finish for all workers, as if one process had played everything."""
        eras = (each["legacy"] for each in tallies if each["legacy"] is not None)
        self.deck(legacy=next(eras, None))
        for each in tallies:
            self.add(each)
        return self.finish(max((each["code"] for each in tallies), default=0))


def replay_web(
    path: str, options: ReplayOptions, web: Web, workers: int, *, quiet: bool, say: Say, started: Callable[[str], None]
) -> ReplayOutcome:
    """Replay a cassette over HTTP in several processes, until a signal. `started` receives the URL for clients."""
    if workers > MOST_WORKERS:
        raise WorkersError(f"--workers {workers} is too many: at most {MOST_WORKERS}, and one for each core is enough")
    if options.auth:
        raise WorkersError("--auth needs a single worker, as a worker knows only its own tokens; leave out --workers")
    with Cassette(path, options.label) as cassette:
        tape = _check_workers(cassette, path, options, say)
        if not quiet and tape.is_shared:
            say(
                f"each of {workers} workers has its own tape for clients of the newest protocol: "
                "a request that was recorded with several answers starts over in each"
            )
        # https://www.sqlite.org/howtocorrupt.html#_carrying_an_open_database_connection_across_a_fork_
        cassette.connection.close()
        sites = Sites(Address(web.host, web.port), workers)
        crew = Crew(workers, partial(_work, tape, web, sites, say), say, sites.close)
        ended = crew.run(lambda: started(sites.origin + PATH))
        if not quiet:
            _report(ended, say)
        with tape.open() as again:
            played = WorkerStage(again, options, say).add_up([tally for _, tally in ended.results])
    return played._replace(code=played.code or int(ended.died > 0))


def _check_workers(cassette: Cassette, path: str, options: ReplayOptions, say: Say) -> SharedTape:
    """Refuse a cassette that cannot be played, and options that workers cannot honour."""
    stage = Stage(cassette, options, say)
    _, modern = stage.deck(legacy=False)
    is_shared = not modern.selection.is_legacy(modern.selection.sessions[0])
    if is_shared:
        alone = _one_process_option(options)
        if alone:
            raise WorkersError(
                f"{alone} needs a single worker: clients of the newest protocol share one tape, of which every worker "
                "would have its own; leave out --workers"
            )
    _, legacy = stage.deck(legacy=True)
    recorded = legacy.selection.controls.session_id(legacy.selection.sessions[0])
    return SharedTape(path, cassette.source, options, recorded, is_shared)


def _one_process_option(options: ReplayOptions) -> str | None:
    """The first given option that counts the calls of all clients together."""
    if options.repeats == "error":
        return "--repeats error"
    if options.in_recorded_order:
        return "--order recorded"
    counted = (source for source in options.faults if faults.parse_fault(source).nth is not None)
    return next((f"--fault {source}" for source in counted), None)


def _work(tape: SharedTape, web: Web, sites: Sites, say: Say, place: WorkerPlace) -> dict[str, Any]:
    """Serve in a worker process."""
    ids = http.SessionIds(tape.recorded, place.number, sites.workers, place.earlier)
    with tape.open() as cassette:
        stage, accidents = WorkerStage(cassette, tape.options, say), Accidents(say)
        server = http.ReplayServer(stage, lambda: site.stop(), None, web.max_body or http.MAX_BODY, ids)
        site = sites.of(place, accidents, web.head_timeout or HEAD_TIMEOUT, server.find_other_worker)
        serve(site, server, place)
        if server.failure is not None:
            raise server.failure
        return stage.tally(server.code or accidents.code)


def _report(ended: CrewResults, say: Say) -> None:
    for number, tally in sorted(ended.results, key=lambda result: result[0]):
        memory = size_text(tally["memory"])
        say(f"worker {number + 1}: {tally['played']} played, {tally['misses']} missed, at most {memory} of memory")


# -- several workers at one address: the sockets of all, and the site of each

Elsewhere = Callable[[str, Headers], int | None]


class Sites:
    """The sockets of all workers, made before the workers start."""

    def __init__(self, address: Address, workers: int) -> None:
        self._address = address
        self._listeners = listeners(address, workers)
        self._boxes = LetterBoxes(workers)
        self.workers = workers
        self.origin = origin_of(self._listeners[0])

    def close(self) -> None:
        for one in self._listeners:
            one.close()
        self._boxes.close()

    def of(
        self, place: WorkerPlace, report: Callable[[Exception], None], head_timeout: float, elsewhere: Elsewhere
    ) -> Site:
        """The site of one worker. The worker itself must call this, as it closes the sockets of all others."""
        own = self._listeners[place.number]
        for other in self._listeners:
            if other is not own:
                other.close()
        others = OtherWorkers(elsewhere, self._boxes.of(place.number))
        return Site(self._address, report, head_timeout=head_timeout, listener=own, others=others)


def serve(site: Site, app: Application, place: WorkerPlace) -> None:
    """Serve until the line to the parent process ends."""

    def begin(origin: str) -> None:
        loop = asyncio.get_running_loop()

        def leave() -> None:
            loop.remove_reader(place.line)
            site.stop()

        loop.add_reader(place.line, leave)
        place.ready()

    asyncio.run(site.run(app, begin))
