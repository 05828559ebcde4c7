"""A play: the recorded client and a live server, until the script ends or the server fails. Every wait is bounded."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic, sleep
from urllib.parse import urlsplit

from ..api import mcp_tape_command
from ..cassette.lookup.messages import RecordedMessage
from ..cassette.query.recorded_requests import opens_stream_late
from ..cassette.reader import Cassette, Session
from ..errors import ServerError
from ..options import LISTEN, WEB, OptionValues, words_for
from ..redaction import restore
from ..redaction.diagnostics import hide_secrets
from ..redaction.redactor import Redactor
from ..transports.http.addresses import is_sse_url
from ..transports.stdio import connect
from ..wire import frames, protocol
from ..wire.channels import HTTP, SSE
from ..wire.frames import Side
from ..wire.protocol import PATH
from .plan import PlayPlan, VerifyOptions, VerifyTarget, title_of
from .play_findings import Failure, FailureKind, VerifiedSession, era_mismatch
from .recorded_client import PATIENCE, RecordedClient

OnProgress = Callable[[int, int], None]  # takes the number of answered requests, and of all
_GLANCE, _BLINK = 0.2, 0.01  # seconds between looks at the clock, at most and at least
_ENOUGH = 2  # consecutive failures after which a play stops


def verify(
    plan: PlayPlan,
    server: VerifyTarget,
    options: VerifyOptions,
    directory: str,
    progress: OnProgress = lambda done, of: None,
    environ: Mapping[str, str] = os.environ,
) -> VerifiedSession:
    """Play a session against the live server, and record it into a new cassette in a directory."""
    new = os.path.join(directory, f"{os.path.basename(plan.path)}.{plan.session}.{len(os.listdir(directory))}.db")
    with Cassette(plan.path) as cassette:
        client = RecordedClient(cassette, plan, options, environ)
        listen = plan.transport != HTTP or client.has_stream
        late = opens_stream_late(cassette, plan.session)
        with connect_through_recorder(server, plan, options, new, listen=listen, late=late) as connection:
            failures = Play(client, connection, options, progress).play()
        was = cassette.session(plan.session).exit_code
    with Cassette(new) as cassette:
        sessions = cassette.sessions()
    failures = (
        failures or exit_code_failures(connection, was, sessions) or _recording_failures(sessions, connection.stderr())
    )
    values = {name: environ[name] for name in map(restore.variable, plan.needs) if environ.get(name)}
    redactor = Redactor(environ, values=[re.escape(value) for value in values.values()])
    return VerifiedSession(
        plan.path,
        plan.session,
        new,
        tuple(session.id for session in sessions),
        client.requests,
        client.calls,
        client.called,
        tuple(client.skipped),
        tuple(_hide_secrets(failure, redactor) for failure in failures),
        restore.find_exposed_secret(_recorder_error(new), values) if values else None,
        era_mismatch(plan, new),
    )


def _recording_failures(sessions: list[Session], stderr: tuple[str, ...]) -> list[Failure]:
    """Failures to record: messages that were not stored were not verified either."""
    if not sessions:
        return [Failure("unrecorded", None, "nothing could be recorded", stderr)]
    whys = [session.incomplete for session in sessions if session.incomplete]
    return [Failure("unrecorded", None, f"its messages could not be recorded: {why}") for why in whys]


def _recorder_error(path: str) -> Iterator[tuple[Side, object]]:
    with Cassette(path) as cassette:
        for session in cassette.sessions():
            for frame in cassette.frames(session.id):
                yield from ((frame.sender, message.body) for message in frames.parse(frame.text)[1])


def _hide_secrets(failure: Failure, redactor: Redactor) -> Failure:
    """Hide secrets, which a server may write to stderr."""
    return failure._replace(message=redactor.text(failure.message), stderr=tuple(map(redactor.text, failure.stderr)))


class Play:
    """One play of a client on a connection."""

    def __init__(
        self, client: RecordedClient, connection: connect.Connection, options: VerifyOptions, progress: OnProgress
    ) -> None:
        self._client = client
        self._deck = client.deck
        self._connection = connection
        self._options = options
        self._progress = progress
        self._in_a_row = 0
        self.failures: list[Failure] = []

    def play(self) -> list[Failure]:
        """Play to the end, and return the server's failures."""
        while not self._is_over():
            self._send()
            if not (self._deck.finished and not self._deck.awaited_requests()):
                self._receive()
            self._give_up(self._deck.overdue_requests(monotonic(), self._timeout))
        if not self.failures:
            self._settle()
        return self.failures

    @property
    def _timeout(self) -> float:
        options = self._options
        return options.timeout if self._client.answered else max(options.timeout, options.starting)

    def _is_over(self) -> bool:
        done = self._deck.finished and not self._deck.awaited_requests()
        return done or self._in_a_row >= _ENOUGH or any(failure.kind != "unanswered" for failure in self.failures)

    def _send(self) -> None:
        for send in self._deck.due(monotonic()):
            self._connection.send(send.text, self._client.headers(send.recorded))

    def _receive(self) -> None:
        next_at = self._deck.next_at()
        patience = _GLANCE if next_at is None else min(_GLANCE, max(_BLINK, next_at - monotonic()))
        text = self._connection.receive(patience)
        if text is not None:
            self._hear(text)
        elif self._connection.ended is not None:
            self._crash()

    def _hear(self, text: bytes) -> None:
        answers = [message.rpc_id for message in frames.parse(text)[1] if message.kind == "response"]
        answered = [(rpc_id, row) for rpc_id in answers if (row := self._deck.request_in_flight(rpc_id)) is not None]
        self._deck.receive(text, "", monotonic())
        for rpc_id, row in answered:
            why = self._connection.made_up.get(rpc_id or "")
            if why is None:
                self._in_a_row = 0
            else:
                self._fail("unanswered", row, why)
        self._progress(self._client.answered, self._client.requests)

    def _give_up(self, overdue: Iterable[RecordedMessage]) -> None:
        overdue = list(overdue)
        for row in overdue:
            self._fail("unanswered", row, f"no answer within {self._timeout:g} s")
        self._deck.give_up(overdue)
        if overdue:
            # Nothing works before the handshake does.
            hopeless = any(row.method == protocol.INITIALIZE for row in overdue)
            self._in_a_row = _ENOUGH if hopeless else self._in_a_row - len(overdue) + 1
        if self._in_a_row >= _ENOUGH and not self._deck.finished:
            self.failures.append(Failure("hung", None, "the server no longer answers", self._connection.stderr()))

    def _crash(self) -> None:
        ended = self._connection.ended
        waiting = self._deck.awaited_requests()
        request = title_of(waiting[0]) if waiting else None
        when = f"before it answered {request}" if request else "before the client had finished"
        stderr, code = (ended.stderr, ended.code) if ended else ((), None)
        self.failures.append(Failure("crashed", request, f"{ended} {when}", stderr, code))

    def _fail(self, kind: FailureKind, row: RecordedMessage, why: str) -> None:
        self._in_a_row += 1
        self.failures.append(Failure(kind, title_of(row), why, self._connection.stderr()))

    def _settle(self) -> None:
        """Wait a moment for the last unsolicited messages of the server."""
        end = monotonic() + PATIENCE
        while not self._deck.is_complete and (left := end - monotonic()) > 0:
            text = self._connection.receive(left)
            if text is None:
                return
            self._deck.receive(text, "", monotonic())
            self._send()


# -- the live server behind a recorder: a play leaves a recording like any other

_STARTING = 60.0  # seconds for a recorder to listen
_STORING = 60.0  # seconds until the recording is stored


@contextmanager
def connect_through_recorder(
    server: VerifyTarget, plan: PlayPlan, options: VerifyOptions, path: str, *, listen: bool, late: bool
) -> Iterator[connect.Connection]:
    """Connect to the server through a recorder. On exit its cassette is complete."""
    words = [*mcp_tape_command(), "record", "-q", "-o", path, *options.recording]
    if server.command:
        with connect.StdioConnection([*words, "--", *server.command], storing=_STORING) as connection:
            yield connection
        said = _explanation(connection)
        has_not_started = connection.code == ServerError.exit_code and said.startswith("cannot start")
        if has_not_started or not os.path.exists(path):
            raise ServerError(said or f"the server {server.command[0]!r} could not be started")
    else:
        yield from _connect_to_url(server, plan, words, listen, late)
    _wait(path)


def _connect_to_url(
    server: VerifyTarget, plan: PlayPlan, words: list[str], listen: bool, late: bool
) -> Iterator[connect.Connection]:
    from ..transports.http.connect import HttpConnection

    values = OptionValues(url=server.url, headers=server.headers, cacert=server.cacert, listen=("127.0.0.1", 0))
    listening = words_for((*WEB, LISTEN), values)
    with connect.StdioConnection([*words, *listening], storing=_STORING) as recorder:
        url = (recorder.receive(_STARTING) or b"").decode("utf-8", "replace")
        if not url:
            raise ServerError(_explanation(recorder) or f"the recorder for {hide_secrets(server.url)} does not listen")
        try:
            with HttpConnection(url, sse=uses_sse(server.url, plan.transport), listen=listen, late=late) as connection:
                yield connection
        finally:
            recorder.stop()
    if recorder.code == ServerError.exit_code:
        raise ServerError(_explanation(recorder) or f"cannot reach {hide_secrets(server.url)}")


def exit_code_failures(connection: connect.Connection, was: int | None, sessions: Iterable[Session]) -> list[Failure]:
    """Report a server that failed by itself after its last answer; `was`: the recorded exit code.

    A server that had to be stopped may end with any code.
    """
    if was != 0 or not isinstance(connection, connect.StdioConnection) or connection.was_pushed:
        return []
    why = "the server ended with exit code {} after its last answer, the recorded one with 0"
    codes = [session.exit_code for session in sessions if session.exit_code]
    return [Failure("exit code", None, why.format(code), connection.stderr(), code) for code in codes]


def uses_sse(url: str, transport: str) -> bool:
    """Return whether to use HTTP+SSE with a server, judged by its URL and the recording: nothing else is known yet."""
    return is_sse_url(url) or (transport == SSE and not urlsplit(url).path.rstrip("/").endswith(PATH))


def _explanation(connection: connect.StdioConnection) -> str:
    """The recorder's own explanation, from its stderr."""
    own = [line.removeprefix("mcp-tape: ") for line in connection.stderr() if line.startswith("mcp-tape: ")]
    return next((line for line in own if line.startswith("cannot ")), own[-1] if own else "")


def _wait(path: str) -> None:
    """Wait until everything is stored: a killed recorder leaves its writer running."""
    end = monotonic() + _STORING
    while monotonic() < end:
        with Cassette(path) as cassette:
            if all(session.ended_at is not None for session in cassette.sessions()):
                return
        sleep(0.05)
