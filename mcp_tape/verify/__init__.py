"""Verifying: the recorded client plays at a live server, and the recorder records what happens.

    eras        whether the server speaks the protocol of the recorded client at all
    plans       which sessions, and what must be known before anything is started: writes, secrets
    role        the recorded client, fit for a live server: values that servers make up, secrets, what is left out
    playing     the two of them, until all is said or the server fails
    recording   the server with the recorder before it
    updating    the new recording in the old one's place

Comparing the two recordings is the diff's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping

from ..cassette.reader import Cassette
from ..redaction import restore
from ..redaction.redactor import Redactor
from ..wire import frames
from ..wire.frames import Side
from .base import Failure, NotReadyError, Options, Request, Server, Skipped, Verified, Writes
from .client import Role
from .eras import other_era
from .plan import Plan, check, planned
from .play import Game
from .record import crashed, listened_late, recorded
from .update import forget, keep, update

__all__ = [
    "Failure", "NotReadyError", "Options", "Plan", "Request", "Server", "Skipped", "Verified", "Writes",
    "check", "forget", "keep", "planned", "update", "verify",
]  # fmt: skip


def verify(
    plan: Plan,
    server: Server,
    options: Options,
    directory: str,
    progress: Callable[[int, int], None] = lambda done, of: None,
    environ: Mapping[str, str] = os.environ,
) -> Verified:
    """Play one session at the live server; what is recorded of that is put into a directory."""
    new = os.path.join(directory, f"{os.path.basename(plan.path)}.{plan.session}.{len(os.listdir(directory))}.db")
    with Cassette(plan.path) as cassette:
        role = Role(cassette, plan, options, environ)
        listen = plan.transport != "http" or role.has_stream
        late = listened_late(cassette, plan.session)
        with recorded(server, plan, options, new, listen=listen, late=late) as connection:
            failures = Game(role, connection, options, progress).play()
        was = cassette.session(plan.session).exit_code
    failures = failures or crashed(connection, was, new) or _unrecorded(new, connection.stderr())
    values = {name: environ[name] for name in map(restore.variable, plan.needs) if environ.get(name)}
    redactor = Redactor(environ, values=[re.escape(value) for value in values.values()])
    return Verified(
        plan.path,
        plan.session,
        new,
        _numbers(new),
        role.requests,
        role.calls,
        role.called,
        tuple(role.skipped),
        tuple(_hidden(failure, redactor) for failure in failures),
        restore.exposed(_said(new), values) if values else None,
        other_era(plan, new),
    )


def _unrecorded(path: str, stderr: tuple[str, ...]) -> list[Failure]:
    """What could not be kept was not verified either."""
    with Cassette(path) as cassette:
        sessions = list(cassette.sessions())
    if not sessions:
        return [Failure("unrecorded", None, "nothing could be recorded", stderr)]
    whys = [session.incomplete for session in sessions if session.incomplete]
    return [Failure("unrecorded", None, f"what it said could not be recorded: {why}") for why in whys]


def _numbers(path: str) -> tuple[int, ...]:
    with Cassette(path) as cassette:
        return tuple(session.id for session in cassette.sessions())


def _said(path: str) -> Iterator[tuple[Side, object]]:
    with Cassette(path) as cassette:
        for session in cassette.sessions():
            for frame in cassette.frames(session.id):
                yield from ((frame.sender, message.body) for message in frames.parse(frame.text)[1])


def _hidden(failure: Failure, redactor: Redactor) -> Failure:
    """Without secrets, which a server may write to its stderr."""
    return failure._replace(
        message=redactor.text(failure.message), stderr=tuple(redactor.text(line) for line in failure.stderr)
    )
