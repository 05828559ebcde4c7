"""A cassette that is being recorded, by processes of their own: into a file beside it, which then takes its place."""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from .. import jsontext, modes, schema
from ..cassette import Cassette, Session
from ..errors import CassetteError, ServerError, TapeError
from ..frames import Exchange
from ..naming import name_of
from .base import Function, Miss, Settings, UsedCassette

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

_STARTING = 60.0  # seconds for a recorder to listen
_ENDING = 10.0  # seconds for what was recorded to be stored
_numbers = itertools.count(1)


class Recording(UsedCassette):
    """Everything is live, or what misses is."""

    def __init__(self, settings: Settings, owner: Recording | None = None) -> None:
        """With an owner, into its file."""
        super().__init__(settings)
        number = f"{os.getpid()}-{next(_numbers)}"
        self._owner = owner
        self._run = uuid.uuid4().hex
        self._runs = {self._run}  # and those of the ones that it owns
        self._part: str = owner._part if owner else f"{self.path}.{number}.part"
        self._report = f"{self.path}.{number}.part.report"
        self._options = _options(settings)
        if owner is not None:
            owner._runs.add(self._run)
            return
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        schema.check_header(self.path)
        if settings.mode != "rewrite" and os.path.exists(self.path):
            with Cassette(self.path):
                pass  # opening it tidies up what a killed recorder left
            shutil.copyfile(self.path, self._part)

    def streams(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        from ..transports import sdk

        return sdk.to_process(self.server_params) if self._settings.command else sdk.to_url(self.url)

    def _make_command(self) -> list[str]:
        if not self._settings.command:
            raise TapeError(f"{self.path} is recorded from a URL: give the client tape.url, not tape.command")
        return [*self._mcp_tape(), "--", *self._settings.command]

    def _make_url(self) -> str:
        web = self._settings.web
        if not web.url:
            raise TapeError(f"{self.path} is recorded from a command: give the client tape.command, not tape.url")
        headers = [word for name, value in web.headers for word in ("--header", f"{name}: {value}")]
        trust = ["--cacert", web.cacert] if web.cacert else []
        words = [*self._mcp_tape(), "--url", web.url, *headers, *trust, "--listen", "127.0.0.1:0"]
        recorder = subprocess.Popen(words, stdout=subprocess.PIPE)
        self._started.callback(_end, recorder)
        assert recorder.stdout is not None
        ready, _, _ = select.select([recorder.stdout], [], [], _STARTING)
        url = recorder.stdout.readline().decode().strip() if ready else ""
        if not url:
            raise ServerError(f"the recorder for {web.url} does not listen; what it said is on stderr")
        return url

    def _mcp_tape(self) -> list[str]:
        mode = "new_episodes" if self.mode == "new_episodes" else "all"
        words = [sys.executable, "-m", "mcp_tape", "use", self._part, "--mode", mode, "-q", "--run", self._run]
        return [*words, "--report", self._report, *self._options]

    # -- what happened

    def _sessions(self) -> list[Session]:
        try:
            with Cassette(self._part) as cassette:
                return [session for session in cassette.sessions() if session.run in self._runs]
        except CassetteError:
            return []  # nothing yet

    def _made(self) -> list[Exchange]:
        sessions = self._sessions()
        if not sessions and not os.path.exists(self._part):
            return []
        played = [(row["session"], row["seq"]) for row in self._reported() if row["what"] == "played"]
        with Cassette(self._part) as cassette:
            old = {(e.session, e.seq): e for number in {s for s, _ in played} for e in cassette.exchanges(number)}
            new = [e for session in sessions for e in cassette.exchanges(session.id) if e.sender == "client"]
        return [*(old[place] for place in played if place in old), *new]

    def _reported(self) -> list[dict[str, Any]]:
        try:
            with open(self._report, "rb") as lines:
                return [jsontext.loads(line) for line in lines]
        except FileNotFoundError:
            return []

    @property
    def misses(self) -> list[Miss]:
        return [
            Miss(Exchange(None, None, "client", row["method"], row["name"], str(row["id"]), None), row["text"])
            for row in self._reported()
            if row["what"] == "miss"
        ]

    @property
    def unplayed(self) -> list[Exchange]:
        return []

    @property
    def play_count(self) -> int:
        return sum(row["what"] == "played" for row in self._reported())

    def rewind(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._report)

    def on(self, method: str, *, tool: str | None = None, name: str | None = None) -> Callable[[Function], Function]:
        raise TapeError(f"{self.path} is being recorded: only a tape that plays can be answered for")

    # -- its end

    def another(self) -> Recording:
        return Recording(self._settings, self)

    def finish(self, *, keep: bool) -> None:
        self._started.close()
        try:
            self._wait()
            if keep and self._owner is None and self._sessions():
                modes.put_in_place(self._part, self.path)
        finally:
            leftovers = [self._report]
            if self._owner is None:
                leftovers += [f"{self._part}{end}" for end in ("", "-wal", "-shm", "-journal")]
            for path in leftovers:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)

    def _wait(self) -> None:
        """Clients have left, but a recorder may still be storing what they said."""
        give_up = monotonic() + _ENDING
        while any(session.ended_at is None for session in self._sessions()) and monotonic() < give_up:
            sleep(0.02)


def _options(settings: Settings) -> list[str]:
    """The settings as options of the command line."""
    replay = settings.replay
    if replay.rules or replay.choosers:
        raise TapeError("functions as rules and faults need a tape that plays; record without them")
    words = [
        *_repeated("--redact-key", settings.redact_keys),
        *_repeated("--redact-path", settings.redact_paths),
        *_repeated("--redact-value", settings.redact_values),
        *_repeated("--redact-with", [name_of(function) for function in settings.redactions]),
        *([] if settings.redact else ["--no-redact"]),
        *(["--note", settings.note] if settings.note else []),
    ]
    if settings.mode == "new_episodes":
        words += ["--session", replay.session, "--speed", str(replay.speed), "--seed", str(replay.seed)]
        words += [*_repeated("--ignore", replay.ignore), *_repeated("--fault", replay.faults)]
        words += ["--match-on", ",".join(replay.match_on)] if replay.match_on else []
        words += ["--repeats", replay.repeats] if replay.repeats else []
        words += ["--order", "recorded"] if replay.in_recorded_order else []
    return words


def _repeated(option: str, values: Any) -> list[str]:
    return [word for value in values for word in (option, value)]


def _end(recorder: subprocess.Popen[bytes]) -> None:
    recorder.terminate()
    try:
        recorder.wait(_ENDING)
    except subprocess.TimeoutExpired:
        recorder.kill()
        recorder.wait()
    if recorder.stdout is not None:
        recorder.stdout.close()
