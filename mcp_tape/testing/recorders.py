"""A cassette that recorder processes write: into a file beside it, which then replaces it."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from .. import api, modes, options
from ..cassette import file, replace, schema
from ..cassette.change.same import has_same_content
from ..cassette.reader import Cassette, EmptyError
from ..cassette.text import non_sqlite
from ..cassette.text.recognize import is_text
from ..errors import CassetteError, ServerError, TapeError, describe_unwritten
from ..redaction import environment
from ..redaction.diagnostics import hide_secrets
from ..redaction.environment import Pairs
from ..system import calls, processes
from ..transports.environment_handover import RecorderEnvironment
from ..values import name_of
from ..wire.channels import STDIO
from ..wire.frames import Exchange
from ..wire.protocol import SSE_PATH
from . import tape_events
from .tape_events import TapeEvents
from .used import Function, Inexact, Miss, UsedCassette, UseSettings, When

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

_STARTING = 60.0  # seconds for a recorder to listen
_ENDING = 10.0  # seconds until the whole recording is stored
_BEGINNING = 2.0  # seconds until its first session is stored
_STORING = 0.15  # seconds until the latest message is stored
_numbers = itertools.count(1)


class RecordingTape(UsedCassette):
    """A tape in use that records: all calls, or only misses."""

    def __init__(self, settings: UseSettings, owner: RecordingTape | None = None, labels: Sequence[str] = ()) -> None:
        """With an owner, record into its file. With labels, own the file of these servers' tapes."""
        super().__init__(settings)
        self._options = _recorder_options(settings)
        self._owner = owner
        self._run = uuid.uuid4().hex
        self._beside = contextlib.ExitStack()
        self._place: replace.DraftFile = owner._place if owner else self._make_place()
        self._part = self._place.file
        self._report: str = owner._report if owner else f"{self._part}.{next(_numbers)}.report"
        self._labels: Sequence[str | None] = labels or [self.label]  # of the recorded servers
        plays = settings.replay.session if settings.mode == "new_episodes" else None
        self._source = tape_events.ReportSource(self._part, self._report, frozenset({self._run}), plays, self.label)
        self._last: TapeEvents | None = None
        self._code = 0
        self._handover: Handover | None = None
        if owner is None:
            with contextlib.ExitStack() as failing:
                failing.callback(self._beside.close)
                self._before = self._begin()
                failing.pop_all()
        else:
            owner._source = owner._source._replace(runs=owner._source.runs | {self._run})

    def _make_place(self) -> replace.DraftFile:
        non_sqlite.expect_cassette(self.path)
        try:
            os.makedirs(os.path.dirname(os.path.realpath(self.path)), exist_ok=True)
        except OSError as error:
            raise CassetteError(f"cannot write {self.path}: {error.strerror}") from None
        return self._beside.enter_context(replace.beside(self.path))

    def _begin(self) -> tuple[int, ...] | None:
        """Copy the cassette if calls are added to it. Return its current state."""
        if self.mode != "rewrite" and schema.is_there(self.path):
            with contextlib.suppress(EmptyError):
                with Cassette(self.path):
                    pass  # opening removes the remains of a killed recorder
                replace.copy(self.path, self._part)
        return file.file_state(self.path)

    def _make_streams(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        from ..transports import memory

        if self._settings.command:
            return memory.to_process(self.server_params)
        # Only its path shows that a server speaks HTTP+SSE.
        return memory.to_old_url(self.url) if self.url.rstrip("/").endswith(SSE_PATH) else memory.to_url(self.url)

    def _make_command(self) -> list[str]:
        if not self._settings.command:
            raise TapeError(f"{self.path} is recorded from a URL: give the client tape.url, not tape.command")
        return [*self._mcp_tape(), "--", *self._settings.command]

    def _command_for(self, server: Sequence[str]) -> list[str]:
        words = self.command  # from now on, a session is expected
        return [*words[: len(words) - len(self._settings.command)], *server]

    def _make_url(self) -> str:
        web = self._settings.web
        if not web.url:
            raise TapeError(f"{self.path} is recorded from a command: give the client tape.command, not tape.url")
        values = self._settings.values._replace(listen=("127.0.0.1", 0), headers=())  # headers are handed over
        words = [*self._mcp_tape(), *options.words_for((*options.WEB, options.LISTEN), values)]
        recorder = subprocess.Popen(words, stdout=subprocess.PIPE)
        assert recorder.stdout is not None
        self._started.callback(self._stop, recorder)
        ready = calls.wait(recorder.stdout.fileno(), calls.POLLIN, round(_STARTING * 1000))
        url = recorder.stdout.readline().decode().strip() if ready else ""
        if not url:
            raise ServerError(f"the recorder for {hide_secrets(web.url)} does not listen; its output is on stderr")
        return url

    def _mcp_tape(self) -> list[str]:
        mode = "new_episodes" if self.mode == "new_episodes" else "all"
        words = [*api.mcp_tape_command(), "use", self._part, "--mode", mode, "-q", "--run", self._run]
        # Steps that may fail come first, before a file is made.
        words += ["--secrets-from", self._handover_path(), "--report", self._report, "--in-place-of", self.path]
        return [*words, *self._options]

    def _handover_path(self) -> str:
        """The socket where recorders get this process's data: clients start them without its environment."""
        if self._handover is None:
            values = self._settings.values
            server = values.env, values.env_from, values.headers
            self._handover = Handover(lambda: current_handover(options.known_variables(values), *server, os.environ))
            self._beside.callback(self._handover.close)
        return self._handover.path

    # -- what happened

    def _read_events(self) -> TapeEvents:
        if self._last is not None:
            return self._last
        self._settle()
        return tape_events.read_events(self._source)

    def _settle(self) -> None:
        """Wait until nothing is added any more: messages are stored a moment after they are sent."""
        self._wait_for_session()
        give_up, before = monotonic() + _ENDING, -1
        while self._is_busy() and (now := tape_events.count_events(self._source)) != before and monotonic() < give_up:
            before = now
            sleep(_STORING)

    def _wait_for_session(self) -> None:
        """Wait for the first session: a client may be faster than its recorder."""
        give_up = monotonic() + _BEGINNING
        expected = self._command is not None and self.mode != "new_episodes"  # which may record nothing
        while expected and not tape_events.has_begun(self._source) and monotonic() < give_up:
            sleep(0.02)

    def _is_busy(self) -> bool:
        """Return whether a recorder runs, as far as that is known."""
        return self._url is not None or self._is_open() or tape_events.is_being_written(self._source)

    def _is_open(self) -> bool:
        return any(session.ended_at is None for session in tape_events.find_own_sessions(self._source))

    def _timed_calls(self) -> list[tuple[When, Exchange]]:
        return self._read_events().calls

    @property
    def misses(self) -> list[Miss]:
        if self.mode != "new_episodes":
            return []  # all is live
        return [self._miss(*miss) for miss in self._read_events().misses]

    @property
    def inexact(self) -> list[Inexact]:
        found = self._read_events().inexact if self.mode == "new_episodes" else []
        return [one._replace(call=self._with_label(one.call)) for one in found]

    @property
    def unplayed(self) -> list[Exchange]:
        return self._read_events().unplayed

    @property
    def play_count(self) -> int:
        return self._read_events().play_count

    @property
    def notes(self) -> list[str]:
        return self._read_events().notes

    @property
    def errors(self) -> list[str]:
        # Errors are stored before their client sees them: no need to wait.
        return tape_events.recorder_errors(self._source) if self._last is None else self._last.errors

    @property
    def grew(self) -> int:
        return self._read_events().grew

    @property
    def stale(self) -> int:
        return self._read_events().stale

    def rewind(self) -> None:
        super().rewind()
        self._settle()
        self._source = tape_events.forget_events(self._source)

    def on(self, method: str, *, tool: str | None = None, name: str | None = None) -> Callable[[Function], Function]:
        raise TapeError(f"{self.path} is being recorded: only a tape that plays can be answered for")

    # -- its end

    def another(self) -> RecordingTape:
        return RecordingTape(self._settings, self._owner or self)

    def _end(self, keep: bool) -> None:
        self._started.close()
        try:
            self._wait(for_first=keep)
            self._last = tape_events.read_events(self._source)
            if keep:
                self._keep()
        finally:
            if self._handover is not None and self._is_open():
                self._handover.end_recorders()
            self._beside.close()

    def _wait(self, *, for_first: bool) -> None:
        """Wait for recorders that still store messages of clients, and with `for_first`, for the first session."""
        if for_first:
            self._wait_for_session()
        give_up = monotonic() + _ENDING
        while self._is_open() and monotonic() < give_up:
            sleep(0.02)

    def _keep(self) -> None:
        """Replace the cassette by the recording, unless that would lose something."""
        if self._code == ServerError.exit_code:
            raise ServerError(
                f"{hide_secrets(self._settings.web.url)} was not reached, so {describe_unwritten(self.path)}"
            )
        if self._last is not None and self._last.errors:
            raise ServerError(f"{self._last.errors[0]}\n{describe_unwritten(self.path)}")
        sessions = tape_events.find_own_sessions(self._source)
        why = None
        if any(session.ended_at is None for session in sessions):
            client = "a client" if self.label is None else f"a client of {self.label!r}"
            why = f"{client} is still connected; let clients leave before the tape ends"
        elif self._owner is not None:
            return
        elif self.mode == "rewrite" and any(session.incomplete for session in sessions):
            why = f"the new recording is incomplete: {next(s.incomplete for s in sessions if s.incomplete)}"
        elif self.mode != "rewrite" and file.file_state(self.path) != self._before:
            why = "another process has changed it meanwhile; record one cassette in one place at a time"
        if why and sessions:
            raise CassetteError(f"{describe_unwritten(self.path)}: {why}")
        asked, unknown = tape_events.has_requests(self._source), self._unrecorded_servers(self.path)
        self.is_of_nothing = bool(unknown) and not asked and self.mode != "new_episodes"
        if not unknown and not (asked or (sessions and self.mode == "new_episodes")):
            return  # the existing cassette has at least as much
        for label in self._unrecorded_servers(self._part):
            _record_nothing(self._part, self._run, label)
        if self.mode == "rewrite" and not self._settings.values.new_times:
            self._is_as_before = has_same_content(self._part, self.path)
            if self._is_as_before:
                return  # the file keeps every byte
            if is_text(self.path):
                self._place.become_text(keep_times=True)
        if self.put is not None:
            self.put(self._place, self.path)
        else:
            self._place.put()

    def _unrecorded_servers(self, path: str) -> list[str | None]:
        """The servers without any session on a cassette."""
        return [label for label in self._labels if not modes.is_recorded(path, label)]

    def _stop(self, recorder: subprocess.Popen[bytes]) -> None:
        recorder.terminate()
        try:
            self._code = recorder.wait(_ENDING)
        except subprocess.TimeoutExpired:
            recorder.kill()
            self._code = recorder.wait()
        if recorder.stdout is not None:
            recorder.stdout.close()


def _recorder_options(settings: UseSettings) -> list[str]:
    """The settings, as options of a recorder's command line."""
    rows = options.LABEL, options.CWD, *options.RECORDING
    values, replay = settings.values, settings.replay
    try:
        redactions, normalizers = (tuple(map(name_of, several)) for several in (replay.redactions, replay.normalizers))
    except ValueError as error:
        raise TapeError(str(error)) from None
    values = values._replace(
        redact_with=(*values.redact_with, *redactions), normalize=(*values.normalize, *normalizers)
    )
    if settings.mode != "new_episodes":
        return options.words_for(rows, values)
    if replay.rules or replay.choosers:
        raise TapeError("in mode new_episodes another process plays: rules and faults must be texts, not functions")
    over_http = (options.AUTH,) if values.url else ()  # a client on stdin has no login
    return options.words_for((*rows, *options.REPLAYING, *options.LIVE, *over_http), values)


def _record_nothing(part: str, run: str, label: str | None) -> None:
    """Write a session without frames, because no client has connected."""
    from .. import __version__
    from ..cassette.writer import Writer

    now = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    with contextlib.closing(Writer(part)) as writer:
        facts: dict[str, Any] = {
            "started_at": now,
            "transport": STDIO,
            "target": {"command": []},
            "run": run,
            "label": label,
        }
        writer.finish(writer.begin(facts | {"recorder": f"mcp-tape {__version__}"}), {"ended_at": now})


# -- data for recorders that must not be on a command line: secrets to hide, the server's variables and headers
#
# SDK clients start servers, and so recorders, with a few variables only. The rest goes through a Unix socket in a
# directory that only this user can enter: not on a command line, which everybody can read, and not in a file. The
# server inherits only what it was given.

_PATIENCE = 10.0  # seconds for a recorder to read its data


def current_handover(
    known: Pairs, env: Pairs, env_from: Sequence[str], headers: Pairs, environ: Mapping[str, str]
) -> RecorderEnvironment:
    """Return the data for a recorder that starts now: a test may have changed its environment."""
    found = tuple((name, environ[name]) for name in env_from if name in environ)
    missing = tuple(name for name in env_from if name not in environ)
    return RecorderEnvironment((*environment.secrets(environ), *known), (*found, *env), headers, missing)


class Handover:
    """Sends the current data to each recorder that connects."""

    def __init__(self, handed: Callable[[], RecorderEnvironment]) -> None:
        self._handed = handed
        self._listener, self.path = calls.listen_locally()
        self._closing = False
        self._recorders: list[processes.Peer] = []  # every recorder that has connected
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing = True
        with contextlib.suppress(OSError):
            calls.connect_locally(self.path, _PATIENCE).close()  # wakes the waiting thread on every system
        self._thread.join(_PATIENCE)
        self._listener.close()
        shutil.rmtree(os.path.dirname(self.path), ignore_errors=True)
        while self._recorders:
            self._recorders.pop().close()

    def end_recorders(self) -> None:
        """End the recorders that still run, so that their clients stop waiting, where the system names them."""
        for recorder in self._recorders:
            recorder.stop()

    def _serve(self) -> None:
        while not self._closing:
            recorder = calls.accept_locally(self._listener, self.path)
            with recorder, contextlib.suppress(OSError):  # the recorder has exited
                recorder.settimeout(_PATIENCE)
                if not self._closing:
                    self._recorders += processes.peers(recorder)
                    recorder.sendall(json.dumps(self._handed()).encode() + b"\n")
