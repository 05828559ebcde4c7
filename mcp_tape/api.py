"""Cassette, core and transport wired together: what the command line and the tests call."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from . import schema
from .errors import CassetteError

if TYPE_CHECKING:
    from .calls import Call
    from .cassette import Cassette
    from .faults import Faulty
    from .finding import Repeats
    from .playback import Player
    from .recorder import Options, Recorder, Summary


class Replay(NamedTuple):
    """How to replay."""

    session: str = "latest"
    ignore: tuple[str, ...] = ()
    match_on: tuple[str, ...] = ()
    repeats: Repeats = "error"
    in_recorded_order: bool = False
    speed: float = 0.0
    faults: tuple[str, ...] = ()
    seed: int = 0
    strict: bool = False
    report: str | None = None
    run: str | None = None


class Played(NamedTuple):
    """What a replay came to."""

    played: int
    misses: int
    unplayed: int
    code: int


def record(
    command: Sequence[str],
    path: str,
    options: Options,
    *,
    warn: Callable[[str], None],
) -> tuple[int, Summary]:
    """Stand in for a stdio server and record what passes: the server's exit code, and what there is.

    Uses this process's own stdin, stdout and stderr.
    """
    from .transports import processes, stdio

    path = os.path.abspath(path)
    check_writable(path)
    server = processes.Server(command)
    recorder = start_recorder(path, options, warn)
    code = stdio.relay(server, recorder)
    return code, recorder.close()


def start_recorder(path: str, options: Options, warn: Callable[[str], None]) -> Recorder:
    """Start the writer. Forks: no thread may run yet, and no database may be open."""
    from .recorder import HEAD_START, Recorder

    def write(reader: int, status: int) -> None:
        from .backlog import Backlog

        backlog = Backlog(reader)
        time.sleep(HEAD_START)
        from .writer import Recording  # in the writer's process, so that the relay need not wait for it

        Recording(backlog, status, path, options).run()

    _make_directory(path)
    return Recorder(path, write, warn)


def _make_directory(path: str) -> None:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except OSError as error:
        raise CassetteError(f"cannot write {path}: {error.strerror}; choose another file with -o") from None


def check_writable(path: str) -> None:
    """Refuse a place that cannot be recorded into, before anything is started."""
    schema.check_header(path)
    directory = os.path.dirname(path)
    while not os.path.exists(directory):
        directory = os.path.dirname(directory)
    for place in (directory, path):  # SQLite keeps its journal beside the file
        if os.path.exists(place) and not os.access(place, os.W_OK):
            raise CassetteError(f"cannot write {path}: no permission for {place}; choose another file with -o")


def replay(path: str, options: Replay, *, say: Callable[[str], None]) -> Played:
    """Be the recorded server, on this process's own stdin and stdout, until the client leaves."""
    from .cassette import Cassette
    from .transports import serve, stopping

    with Cassette(path) as cassette:
        stage = Stage(cassette, options, say)
        return stage.finish(stopping.until_told(lambda: serve.serve(stage.player)))


class Stage:
    """A cassette on a deck, with its reporter, and faults where they were asked for."""

    def __init__(
        self,
        cassette: Cassette,
        options: Replay,
        say: Callable[[str], None],
        pass_on: Callable[[Call], bool] = lambda call: False,
    ) -> None:
        from . import finding, report, selection
        from .deck import Deck

        chosen = selection.select(cassette, options.session)
        _say_incomplete(cassette, chosen.sessions, say)
        self._options = options
        self._finder = finding.Finder(chosen, finding.rule(options.ignore, options.match_on), options.repeats)
        self._reporter = report.Reporter(say, options.report, options.run)
        faulty = _faulty(options)
        tell = faulty.listen(self._reporter.tell) if faulty else self._reporter.tell
        self.deck = Deck(
            chosen,
            self._finder,
            speed=options.speed,
            in_recorded_order=options.in_recorded_order,
            repeat_whole=options.repeats != "error",
            tell=tell,
            tell_played=bool(options.report or options.faults),
            pass_on=pass_on,
            hide=_hide,
        )
        if faulty:
            faulty.attach(self.deck)
        self.player: Player = faulty or self.deck

    def finish(self, code: int | None) -> Played:
        """Say what was not played; what it all came to. A fault may have chosen the exit code."""
        options, deck = self._options, self.deck
        unplayed = 0
        if options.strict or options.report:
            unplayed = self._reporter.unplayed(self._finder.unplayed(), loud=options.strict)
        findings = deck.misses or (options.strict and unplayed)
        return Played(deck.played, deck.misses, unplayed, code or int(bool(findings)))


def _hide(text: str) -> str:
    """Without the secrets of a live request; loaded only when there is a miss to tell of."""
    from .redact import Redactor

    return Redactor(os.environ).redact(text.encode("utf-8", "surrogatepass")).text.decode("utf-8", "replace")


def _faulty(options: Replay) -> Faulty | None:
    if not options.faults:
        return None
    from . import faults

    return faults.Faulty([faults.parse(source) for source in options.faults], options.seed)


def _say_incomplete(cassette: Cassette, sessions: Sequence[int], say: Callable[[str], None]) -> None:
    for session in cassette.sessions():
        if session.id in sessions and session.incomplete:
            say(f"session {session.id} is incomplete: {session.incomplete}")
