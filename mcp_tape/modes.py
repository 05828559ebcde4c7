"""VCR's modes: replay, record, or both, with one cassette and one server."""

from __future__ import annotations

import os

from . import api
from .cassette import schema
from .errors import ServerError, describe_unwritten
from .light import NamedTuple
from .options import MODES

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .cassette.reader import Cassette
    from .options import Mode as Mode
    from .record.recorder import Recorder, RecordingSummary
    from .record.recording_options import RecordingOptions
    from .replay.stage import ReplayOptions, ReplayOutcome
    from .transports.process import Around

    Say = Callable[[str], None]
else:

    def __getattr__(name):
        """Create the public `Mode` on first use."""
        if name != "Mode":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from typing import Literal

        return Literal[MODES]


class UseOutcome(NamedTuple):
    """The result of `use`: the exit code, the outcome of the replay, and the summary of the recording."""

    code: int
    played: ReplayOutcome | None = None
    recorded: RecordingSummary | None = None
    goes_on: bool = False  # it recorded because the run was recording already
    replaces: bool = False  # it replaced an existing recording


class Command(NamedTuple):
    """A server to start. The client is on our stdin and stdout."""

    words: Sequence[str]
    around: Around | None = None

    def record(self, path: str, options: RecordingOptions, say: Say) -> tuple[int, RecordingSummary]:
        return api.record(self.words, path, options, around=self.around, warn=say)

    def replay(self, path: str, options: ReplayOptions, say: Say) -> ReplayOutcome:
        return api.replay(path, options, say=say)

    def add(self, file: str, replay: ReplayOptions, recorder: Recorder, say: Say) -> tuple[ReplayOutcome, int]:
        """Replay, and pass misses on to the live server. Return the outcome, and the number of calls passed on."""
        from .cassette.reader import Cassette
        from .replay.stage import Stage
        from .transports import process, signals
        from .transports.stdio import serve
        from .transports.stdio.live import LivePlayer

        with Cassette(file, replay.label) as cassette:
            stage = Stage(cassette, replay, say, clients=api.connection_counter(file, replay, say))
            live = LivePlayer(self.words, self.around or process.AS_WE_ARE, recorder, stage)
            served = signals.run_until_stopped(lambda: serve.serve(live, live.watched, live.unsent), live.record_signal)
            played = stage.finish(served)
            live.end()
        if live.episodes.failed is not None:
            raise live.episodes.failed
        return played, live.episodes.passed_on


class Url(NamedTuple):
    """A server at a URL. Clients connect to an address of ours; `started` is called with its URL."""

    web: api.Web
    started: Callable[[str], None]

    def record(self, path: str, options: RecordingOptions, say: Say) -> tuple[int, RecordingSummary]:
        return api.record_url(self.web, path, options, warn=say, started=self.started)

    def replay(self, path: str, options: ReplayOptions, say: Say) -> ReplayOutcome:
        return api.replay_web(path, options, self.web, say=say, started=self.started)

    def add(self, file: str, replay: ReplayOptions, recorder: Recorder, say: Say) -> tuple[ReplayOutcome, int]:
        """Replay over HTTP, and pass misses on to the live server, as for a command."""
        from .cassette.reader import Cassette
        from .replay.stage import Stage
        from .transports.http.guard import Accidents
        from .transports.http.live import LiveServer
        from .transports.http.relay import Proxy
        from .transports.http.upstream import Upstream

        with Cassette(file, replay.label) as cassette:
            stage, accidents = Stage(cassette, replay, say), Accidents(say)
            site = self.web.site(accidents)
            upstream = Upstream(self.web.url, self.web.headers, self.web.cacert)
            proxy = Proxy(upstream, site.origin, recorder, say)
            path, aliases = stage.served_paths(self.web.url)
            server = LiveServer(stage, site.stop, aliases, proxy, upstream.path, self.web.max_body)
            site.serve(server, lambda origin: self.started(origin + path))
            if server.passed_on:
                recorder.control("server", "", event="stop")
            if server.failure is not None:
                raise server.failure
            return stage.finish(server.code or proxy.code or accidents.code), server.passed_on


def use(
    path: str, server: Command | Url, mode: Mode, replay: ReplayOptions, record: RecordingOptions, say: Say
) -> UseOutcome:
    """Serve clients according to the mode."""
    path = schema.absolute(path)
    record = record._replace(run=_run(server, record.run) if mode != "none" else None)
    if mode not in ("none", "all") and _goes_on(path, record, say):
        return _record(path, server, record, say)._replace(goes_on=True)
    if mode == "none" or (mode == "once" and is_whole(path, say, replay.label)):
        played = server.replay(path, replay, say)
        return UseOutcome(played.code, played)
    if mode == "new_episodes" and can_play(path, replay.label):
        return _new_episodes(path, server, replay, record, say)
    if mode == "rewrite":
        return _rewrite(path, server, record, say)
    return _record(path, server, record, say)


def _run(server: Command | Url, given: str | None) -> str | None:
    """The run to record. Clients of a URL have no common parent process, so only a name joins them."""
    from .transports import runs

    return runs.current_run(given) if isinstance(server, Command) else runs.run_name(given) or None


def _goes_on(path: str, record: RecordingOptions, say: Say) -> bool:
    """Return whether this run has already recorded the server, and has replayed none of it since."""
    run = record.run
    if run is None:
        return False
    from .cassette.lookup.playable_sessions import find_run
    from .transports.runs import Turns

    def is_recorded(cassette: Cassette) -> bool:
        recorded = find_run(cassette, run)
        return recorded is not None and not Turns(path, run, recorded, say).has_begun

    return _is_true_of(path, record.label, is_recorded)


def can_play(path: str, label: str | None = None) -> bool:
    """Return whether there is a session to play, apart from those that are still being recorded.

    Here and below, a `label` restricts this to sessions of that server.
    """
    from .cassette.lookup.playable_sessions import finished_sessions

    return _is_true_of(path, label, lambda cassette: any(finished_sessions(cassette)))


def is_whole(path: str, say: Say, label: str | None = None) -> bool:
    """Return whether mode `once` can replay. A recording that was cut short does not count: its rest would miss."""
    return _is_true_of(path, label, lambda cassette: holds_whole(cassette, say))


def holds_whole(cassette: Cassette, say: Say) -> bool:
    """The same for an open cassette."""
    from .cassette.lookup.playable_sessions import finished_sessions, whole_sessions

    there = any(finished_sessions(cassette))
    if there and not any(whole_sessions(cassette)):
        say(f"the recording on {cassette.path} was cut short when its recorder was stopped: recording it again")
        return False
    return there


def is_recorded(path: str, label: str | None = None) -> bool:
    """Return whether there is a closed session, even without requests."""
    return _is_true_of(path, label, holds_closed)


def holds_closed(cassette: Cassette) -> bool:
    """The same for an open cassette."""
    return any(session.extends is None and session.ended_at is not None for session in cassette.each_session())


def open_existing(path: str, label: str | None = None) -> Cassette | None:
    """Open a cassette; None if it does not exist yet."""
    if not (schema.is_remote(path) or schema.is_there(path)):
        schema.check_header(path)
        return None
    from .cassette.reader import Cassette, EmptyError

    try:
        return Cassette(path, label)
    except EmptyError:  # a recorder was killed before it created the tables
        return None


def _is_true_of(path: str, label: str | None, holds: Callable[[Cassette], bool]) -> bool:
    cassette = open_existing(path, label)
    if cassette is None:
        return False
    with cassette:
        return holds(cassette)


def _record(path: str, server: Command | Url, options: RecordingOptions, say: Say) -> UseOutcome:
    code, summary = server.record(path, options, say)
    return UseOutcome(code, recorded=summary)


def _rewrite(path: str, server: Command | Url, options: RecordingOptions, say: Say) -> UseOutcome:
    """Record into a file beside the cassette, which replaces it only if the run ended well."""
    from .cassette import replace
    from .cassette.change import merge_sessions
    from .cassette.change.same import has_same_content

    api.check_writable(path)
    api.make_directory(path)
    with replace.beside(path) as part:
        outcome = _record(part.file, server, options, say)
        why = _rejection_reason(part.file, outcome)
        if why:
            say(f"{describe_unwritten(path)}: {why}")
            return UseOutcome(outcome.code)
        if _goes_on(part.path, options, say):
            merge_sessions.add(part.file, part.path)  # another connection of this run was faster
        elif not options.new_times and has_same_content(part.file, part.path, options.label):
            pass  # the file stays unchanged, byte for byte
        elif options.label is not None and is_recorded(part.path):
            merge_sessions.add(part.file, part.path, instead_of=options.label)  # keeps the sessions of other servers
        else:
            outcome = outcome._replace(replaces=is_recorded(part.path))
            part.put(keep_times=not options.new_times)
        return outcome


def _rejection_reason(beside: str, outcome: UseOutcome) -> str | None:
    """Return why a recording must not replace the old one; None if it may."""
    from .cassette.lookup.playable_sessions import finished_sessions
    from .cassette.reader import Cassette
    from .wire.channels import STDIO

    summary = outcome.recorded
    if summary is None or summary.incomplete:
        return "the new recording is incomplete"
    if outcome.code == ServerError.exit_code:
        return "the server was never reached"
    if os.path.exists(f"{beside}-wal"):
        return "the new recording is in use"
    with Cassette(beside) as cassette:
        if not any(finished_sessions(cassette)):
            return "nothing was asked in this run"
        numbers = [session.id for session in cassette.each_session() if session.transport == STDIO]
        left = all(_client_left_first(cassette, number) for number in numbers)
    # Many servers end only when killed, so it is enough that the client had finished.
    if left or (outcome.code == 0 and not summary.still_open):
        return None
    return f"the server ended with {outcome.code} before the client did"


def _client_left_first(cassette: Cassette, session: int) -> bool:
    """Return whether the client ended a stdio session first. The server's end may only follow from that."""
    from .cassette.query import filters, timeline
    from .wire.channels import STDIO

    for row in timeline.session_rows(cassette, session, filters.parse("kind:control")):
        if row.channel == STDIO and timeline.facts(row).get("event") in ("close", "exit"):
            return row.sender == "client"
    return False


def _new_episodes(
    path: str, server: Command | Url, replay: ReplayOptions, record: RecordingOptions, say: Say
) -> UseOutcome:
    """Replay, and record misses from the live server as a session that extends the one played."""
    from .cassette.reader import Cassette

    api.check_writable(path)
    with Cassette(path, replay.label) as cassette:
        eras = (True, False) if isinstance(server, Url) else (None, None)
        first, modern = (_played_session(cassette, replay.session, legacy) for legacy in eras)
    # Fork the writer before opening the cassette to play it: SQLite forbids the other order.
    record = record._replace(extends=first, extends_modern=modern, when_needed=True)
    recorder = api.start_recorder(path, record, say)
    try:
        played, passed_on = server.add(path, replay, recorder, say)
    finally:  # even if the tape can't be read, so that no writer is left behind
        summary = recorder.close()
    if passed_on:
        with Cassette(path):
            pass  # closing it merges SQLite's journal into the file
    return UseOutcome(played.code, played, summary if passed_on else None)


def _played_session(cassette: Cassette, which: str, legacy: bool | None) -> int:
    """The session that clients of an era play, and that new sessions extend."""
    from .replay.selection import select

    session = cassette.session(select(cassette, which, legacy).sessions[0])
    return session.extends or session.id
