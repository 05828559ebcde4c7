"""mcp-tape ls"""

from __future__ import annotations

from typing import Any

import click

from .. import jsontext
from ..cassette import Cassette, Session
from . import say
from .options import cassette_argument, clip, count, echo, echo_json, json_option

_WIDTH = 400  # a note may be long


@click.command(
    "ls",
    epilog="\b\nExamples:\n"
    "  mcp-tape ls cassettes/mcp-server-time.db\n"
    "  mcp-tape ls cassettes/mcp-server-time.db --json",
)
@cassette_argument
@json_option
def command(file: str, as_json: bool) -> None:
    """List the sessions on a cassette: when, what, how much, and whether it is whole.

    A session is one client's conversation: on stdio from the server's start to its end, over HTTP one
    Mcp-Session-Id, and one session a recording for all clients that have none.
    """
    with Cassette(file) as cassette:
        sessions = cassette.sessions()
        for session in sessions:
            counts = cassette.counts(session.id)
            if as_json:
                echo_json(session._asdict() | {"target": _target(session)} | counts)
            else:
                echo(clip(_line(session, counts), _WIDTH), fg="red" if session.incomplete else None)
    if not sessions:
        say(f"{file} holds no session yet")


def _line(session: Session, counts: dict[str, int]) -> str:
    server = " ".join(filter(None, (session.server_name, session.server_version))) or _command(session)
    parts = [
        f"{session.id:>3}",
        str(session.started_at)[:19].replace("T", " "),
        f"{clip(server, 40):<24}",
        session.protocol_version or "-",
        session.transport,
        count(counts["frames"], "frame"),
        count(counts["exchanges"], "exchange"),
    ]
    if counts["open"]:
        parts.append(f"{counts['open']} open")
    if counts["errors"]:
        parts.append(count(counts["errors"], "error"))
    if session.extends:
        parts.append(f"extends {session.extends}")
    if session.note:
        parts.append(clip(session.note, 60))
    if session.incomplete:
        parts.append(f"INCOMPLETE: {session.incomplete}")
    return "  ".join(parts)


def _target(session: Session) -> Any:
    try:
        return jsontext.loads(session.target)
    except (ValueError, RecursionError):
        return session.target  # not ours, but somebody's


def _command(session: Session) -> str:
    target = _target(session)
    if not isinstance(target, dict):
        return str(session.target)
    words = target.get("command")
    return " ".join(map(str, words)) if isinstance(words, list) else str(target.get("url", session.target))
