"""The live server behind a recorder: a play leaves a recording like any other."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from urllib.parse import urlsplit

from ..api import mcp_tape
from ..cassette.reader import Cassette, Session
from ..errors import ServerError
from ..options import LISTEN, WEB, OptionValues, words_for
from ..redaction.diagnostics import hidden
from ..transports.http.addresses import is_of_old
from ..transports.stdio import connect
from ..wire.channels import SSE
from ..wire.protocol import PATH
from .findings import Failure
from .plan import Options, Plan, Server

_STARTING = 60.0  # seconds for a recorder to listen
_STORING = 60.0  # seconds until the recording is stored


@contextmanager
def recorded(
    server: Server, plan: Plan, options: Options, path: str, *, listen: bool, late: bool
) -> Iterator[connect.Connection]:
    """Connect to the server through a recorder. On exit its cassette is complete."""
    words = [*mcp_tape(), "record", "-q", "-o", path, *options.recording]
    if server.command:
        with connect.Stdio([*words, "--", *server.command], storing=_STORING) as connection:
            yield connection
        said = _said(connection)
        has_not_started = connection.code == ServerError.exit_code and said.startswith("cannot start")
        if has_not_started or not os.path.exists(path):
            raise ServerError(said or f"the server {server.command[0]!r} could not be started")
    else:
        yield from _at_url(server, plan, words, listen, late)
    _wait(path)


def _at_url(server: Server, plan: Plan, words: list[str], listen: bool, late: bool) -> Iterator[connect.Connection]:
    from ..transports.http.connect import Http

    values = OptionValues(url=server.url, headers=server.headers, cacert=server.cacert, listen=("127.0.0.1", 0))
    listening = words_for((*WEB, LISTEN), values)
    with connect.Stdio([*words, *listening], storing=_STORING) as recorder:
        url = (recorder.receive(_STARTING) or b"").decode("utf-8", "replace")
        if not url:
            raise ServerError(_said(recorder) or f"the recorder for {hidden(server.url)} does not listen")
        try:
            with Http(url, sse=is_old(server.url, plan.transport), listen=listen, late=late) as connection:
                yield connection
        finally:
            recorder.stop()
    if recorder.code == ServerError.exit_code:
        raise ServerError(_said(recorder) or f"cannot reach {hidden(server.url)}")


def crashed(connection: connect.Connection, was: int | None, sessions: Iterable[Session]) -> list[Failure]:
    """Report a server that failed by itself after its last answer; `was`: the recorded exit code.

    A server that had to be stopped may end with any code.
    """
    if was != 0 or not isinstance(connection, connect.Stdio) or connection.was_pushed:
        return []
    why = "the server ended with exit code {} after its last answer, the recorded one with 0"
    codes = [session.exit_code for session in sessions if session.exit_code]
    return [Failure("exit code", None, why.format(code), connection.stderr(), code) for code in codes]


def is_old(url: str, transport: str) -> bool:
    """Return whether to use HTTP+SSE with a server, judged by its URL and the recording: nothing else is known yet."""
    return is_of_old(url) or (transport == SSE and not urlsplit(url).path.rstrip("/").endswith(PATH))


def _said(connection: connect.Stdio) -> str:
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
