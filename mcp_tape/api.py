"""Wires cassette, core and transport together, for the command line and for tests."""

from __future__ import annotations

import os
import sys
from time import monotonic, time

from .cassette import journals, schema
from .errors import CassetteError
from .light import NamedTuple
from .options import CHOOSING, LABEL, known_variables, words_for
from .wire.channels import STDIO

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .cassette.lookup.playable_sessions import RecordedRun
    from .errors import ServerError
    from .options import OptionValues
    from .record.recorder import Recorder, RecordingSummary
    from .record.recording_options import RecordingOptions
    from .replay.opening import Clients
    from .replay.stage import ReplayOptions, ReplayOutcome
    from .transports.http.listen import Site
    from .transports.process import Around


def record(
    command: Sequence[str],
    path: str,
    options: RecordingOptions,
    *,
    around: Around | None = None,
    warn: Callable[[str], None],
) -> tuple[int, RecordingSummary]:
    """Record a stdio server on this process's own stdin, stdout and stderr.

    Returns the server's exit code and a summary.
    """
    from .transports import process
    from .transports.stdio import relay as stdio

    path = schema.absolute(path)
    check_writable(path)
    server = process.ServerProcess(command, around or process.AS_WE_ARE)
    recorder = start_recorder(path, options, warn)
    code = stdio.relay(server, recorder, warn)
    return code, recorder.close()


def record_failure(error: ServerError, path: str, options: RecordingOptions, warn: Callable[[str], None]) -> None:
    """Record a session of a server that could not be started, as the client may hide our stderr."""
    path = schema.absolute(path)
    recorder = start_recorder(path, options, warn)
    recorder.control("server", STDIO, event="failed", why=str(error))
    recorder.control("server", STDIO, event="stop")
    recorder.close()


def replay_options(values: OptionValues) -> ReplayOptions:
    """Make replay options from option values."""
    from .replay.stage import ReplayOptions

    return ReplayOptions(
        session=values.session, label=values.label, run=values.run, in_place_of=values.in_place_of,
        ignore=values.ignore, match_on=values.match_on, normalize=values.normalize, match=values.match,
        repeats=values.repeats, in_recorded_order=values.order == "recorded", speed=values.speed,
        unanswered=values.unanswered, faults=values.faults, seed=values.seed, replay_prefix=values.replay_prefix,
        strict=values.strict, fail_on=values.fail_on, report=values.report, auth=values.auth,
        redact_keys=values.redact_keys, redact_paths=values.redact_paths, redact_values=values.redact_values,
        redact_with=values.redact_with, headers=values.headers, known=known_variables(values),
        words=tuple(words_for((LABEL, *CHOOSING), values)),
    )  # fmt: skip


class Web(NamedTuple):
    """An address to listen at, and the URL of a server."""

    host: str = "127.0.0.1"
    port: int = 0
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    cacert: str | None = None
    max_body: int | None = None  # most bytes of a request to a replay; None: `serve.MAX_BODY`
    head_timeout: float | None = None  # seconds; None: `listen.HEAD_TIMEOUT`

    def site(self, report: Callable[[Exception], None]) -> Site:
        from .transports.http.listen import HEAD_TIMEOUT, Address, Site

        return Site(Address(self.host, self.port), report, head_timeout=self.head_timeout or HEAD_TIMEOUT)


def record_url(
    web: Web, path: str, options: RecordingOptions, *, warn: Callable[[str], None], started: Callable[[str], None]
) -> tuple[int, RecordingSummary]:
    """Record an HTTP server as a proxy, until a signal. Return the exit code and a summary.

    `started` is called with the URL for the client.
    """
    from .transports.http.guard import Accidents

    path = schema.absolute(path)
    check_writable(path)
    accidents = Accidents(warn)
    site = web.site(accidents)
    recorder = start_recorder(path, options, warn)  # before anything that may start a thread
    from .transports.http.relay import Proxy
    from .transports.http.upstream import Upstream

    upstream = Upstream(web.url, web.headers, web.cacert)
    sample = options.production and options.production.sample
    proxy = Proxy(upstream, site.origin, recorder, warn, sample)
    site.serve(proxy, lambda origin: started(origin + upstream.path.decode()))
    recorder.control("server", "", event="stop")
    return proxy.code or accidents.code, recorder.close()


def start_recorder(path: str, options: RecordingOptions, warn: Callable[[str], None]) -> Recorder:
    """Start the writer. It may be forked, so no thread may run yet, and no database may be open."""
    from .record.recorder import Recorder

    make_directory(path)
    return Recorder(path, WriterTask(path, options, time()), warn)


class WriterTask:
    """The work of the writer, in its own process."""

    def __init__(self, path: str, options: RecordingOptions, started: float) -> None:
        self._path, self._options, self._started = path, options, started

    def load(self) -> None:
        """Import all that recording needs, in a process that must be ready before traffic comes."""
        from .record import backlog, recording_process  # noqa: F401

    def __call__(self, reader: int, status: int) -> None:
        from .record.backlog import Backlog
        from .record.recorder import HEAD_START

        backlog = Backlog(reader)
        backlog.rest(HEAD_START)
        from .record.recording_process import record  # in the writer's process, so that the relay starts fast

        record(backlog, status, self._path, self._options, self._started)


def make_directory(path: str) -> None:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except OSError as error:
        raise CassetteError(f"cannot write {path}: {error.strerror}; choose another file with -o") from None


def check_writable(path: str) -> None:
    """Refuse a path that can't be recorded into, before anything starts."""
    schema.expect_local(path)
    try:
        schema.check_header(path)
    except schema.NoDatabaseError:
        from .cassette.text.non_sqlite import expect_cassette  # loaded only if the file may be text

        expect_cassette(path)
    journals.check(path)
    directory = os.path.dirname(path)
    while not os.path.exists(directory):
        directory = os.path.dirname(directory)
    for place in (directory, path):  # SQLite keeps its journal beside the file
        if os.path.exists(place) and not os.access(place, os.W_OK):
            raise CassetteError(f"cannot write {path}: no permission for {place}; choose another file with -o")


def replay(path: str, options: ReplayOptions, *, say: Callable[[str], None]) -> ReplayOutcome:
    """Serve as the recorded server on this process's own stdin and stdout, until the client leaves."""
    from .cassette.reader import Cassette
    from .replay.stage import Stage
    from .transports import signals
    from .transports.stdio import serve

    with Cassette(path, options.label) as cassette:
        cassette.lock.hold(monotonic())
        stage = Stage(cassette, options, say, clients=connection_counter(path, options, say))
        player, _ = stage.player()
        return stage.finish(signals.run_until_stopped(lambda: serve.serve(player, lock=cassette.lock)))


def replay_web(
    path: str, options: ReplayOptions, web: Web, *, say: Callable[[str], None], started: Callable[[str], None]
) -> ReplayOutcome:
    """Serve as the recorded server over HTTP, until a signal. `started` is called with the URL for the client."""
    from .cassette.reader import Cassette
    from .replay.stage import Stage
    from .transports.http import serve as http
    from .transports.http.guard import Accidents

    with Cassette(path, options.label) as cassette:
        stage, accidents = Stage(cassette, options, say), Accidents(say)
        site = web.site(accidents)
        path, aliases = stage.served_paths(web.url)
        server = http.ReplayServer(stage, site.stop, aliases, web.max_body or http.MAX_BODY)
        site.serve(server, lambda origin: started(origin + path))
        if server.failure is not None:
            raise server.failure
        return stage.finish(server.code or accidents.code)


def connection_counter(
    path: str, options: ReplayOptions, say: Callable[[str], None]
) -> Callable[[RecordedRun], Clients]:
    """Return a function that makes the counter of our run's connections, given the recorded run."""

    def turns(recorded: RecordedRun) -> Clients:
        from .transports.runs import Turns

        return Turns(path, options.run, recorded, say)

    return turns


def mcp_tape_command() -> list[str]:
    """The command that runs mcp-tape with the module path of this process.

    Not by PYTHONPATH, as clients pass few variables on. start/by_path.py explains its form.
    """
    script = os.path.join(os.path.dirname(__file__), "start", "by_path.py")
    return [sys.executable, script, os.pathsep.join(os.path.abspath(place) for place in sys.path)]
