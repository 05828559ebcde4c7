"""mcp-tape ls"""

from __future__ import annotations

from dataclasses import asdict

import click
import orjson

from ..cassette import Cassette, Session
from .options import cassette_argument, clip, echo_json, json_option


@click.command("ls", epilog="\b\nExample:\n  mcp-tape ls cassettes/mcp-server-time.db")
@cassette_argument
@json_option
def command(file: str, as_json: bool) -> None:
    """List the sessions on a cassette: when, what, how much, and whether it is whole."""
    with Cassette(file) as cassette:
        for session in cassette.sessions():
            counts = cassette.counts(session.id)
            if as_json:
                row = asdict(session) | counts
                row["target"] = orjson.loads(session.target)
                echo_json(row)
            else:
                click.echo(_line(session, counts))


def _line(session: Session, counts: dict[str, int]) -> str:
    server = " ".join(filter(None, (session.server_name, session.server_version))) or _command(session)
    parts = [
        f"{session.id:>3}  {session.started_at[:19].replace('T', ' ')}  {clip(server, 40):<24}",
        session.protocol_version or "-",
        session.transport,
        f"{counts['frames']} frames",
        f"{counts['exchanges']} exchanges",
    ]
    if counts["open"]:
        parts.append(f"{counts['open']} open")
    if counts["errors"]:
        parts.append(f"{counts['errors']} errors")
    if session.note:
        parts.append(clip(session.note, 60))
    if session.incomplete:
        parts.append(f"INCOMPLETE: {session.incomplete}")
    return "  ".join(parts)


def _command(session: Session) -> str:
    target = orjson.loads(session.target)
    return " ".join(target.get("command") or [target.get("url", "?")])
