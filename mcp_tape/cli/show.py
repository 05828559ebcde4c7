"""mcp-tape show"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Generator
from contextlib import closing
from typing import Any

import click

from .. import jsontext
from ..cassette import Cassette
from ..frames import Entry, Frame
from ..ledger import Ledger
from .options import cassette_argument, clip, echo, echo_json, json_option, session_option

_WIDTH_OF_A_PIPE = 200
_Asked = dict[tuple[int | None, str | None], tuple[str, int]]  # method and time of a request, by seq and id
_EXPECTED_CODES = (0, 128 + 15)  # clients end servers with SIGTERM


@click.command(
    "show",
    epilog="\b\nExamples:\n  mcp-tape show cassettes/mcp-server-time.db\n"
    "  mcp-tape show cassettes/mcp-server-time.db --session 2 --json",
)
@cassette_argument
@session_option
@json_option
def command(file: str, session: int | None, as_json: bool) -> None:
    """Show a session, one line a message.

    A line is: number, seconds since the start, direction (→ the client, ← the server, ! before it for
    what needs a look: errors, noise, stderr), id, what it is, size in bytes, content. An answer also says
    how it ended and how long it took. Lines are cut to the width of the terminal; --json and
    mcp-tape export have everything.
    """
    show(file, session, as_json)


def show(file: str, session: int | None, as_json: bool) -> None:
    """What the command prints."""
    # Some terminals do not know their width and say 0.
    width = (shutil.get_terminal_size().columns or 80) if sys.stdout.isatty() else _WIDTH_OF_A_PIPE
    with Cassette(file) as cassette, closing(lines(cassette, cassette.session(session).id)) as shown:
        for line in shown:
            if as_json:
                echo_json(line)
            else:
                echo(clip(_text(line), width), fg="red" if line["odd"] else None)


def lines(cassette: Cassette, session: int) -> Generator[dict[str, Any], None, None]:
    """What there is to say of each message, noise and event of a session."""
    ledger = Ledger()
    asked: _Asked = {}
    for frame in cassette.frames(session):
        entries = ledger.derive(frame)
        if frame.kind == "control":
            yield _control(frame)
        elif frame.kind not in ("message", "batch") and not any(entry.message.status == "refused" for entry in entries):
            yield _line(frame, frame.kind, _plain(frame.text), odd=frame.channel in ("stdio", "stderr"))
        else:
            for part, entry in enumerate(entries):
                yield _message(frame, part, entry, asked)


def _message(frame: Frame, part: int, entry: Entry, asked: _Asked) -> dict[str, Any]:
    message, took = entry.message, None
    if message.kind != "response":
        if message.kind == "request":
            asked[frame.seq, message.rpc_id] = (message.method or "", frame.at)
        what = " ".join(filter(None, (message.method, message.name)))
        body = message.body.get("params")
    else:
        method, at = asked.pop((entry.answers, message.rpc_id), ("?", frame.at))
        took = None if entry.answers is None else frame.at - at
        what = " ".join(filter(None, (method, message.status, _duration(took))))
        body = message.body.get("error", message.body.get("result"))
    detail = _plain(frame.text) if frame.kind == "noise" else _compact(body, frame)
    line = _line(frame, what, detail, odd=message.status in ("error", "tool-error", "refused"))
    return line | {
        "kind": message.kind,
        "id": message.rpc_id,
        "part": part,
        "answers": entry.answers,
        "microseconds": took,
    }


def _control(frame: Frame) -> dict[str, Any]:
    """What happened, in words: `closes`, `exits 0`, `POST /mcp`, `200 application/json`."""
    try:
        facts = jsontext.loads(frame.text)
        event = facts["event"]
    except (ValueError, RecursionError, TypeError, KeyError):
        return _line(frame, "control", _plain(frame.text))
    if event == "exit":
        return _line(frame, f"exits {facts.get('code')}", odd=facts.get("code") not in _EXPECTED_CODES)
    if frame.channel == "stdio":
        return _line(frame, "closes" if event == "close" else str(event))
    what, detail = _fact(str(event), facts, _plain(frame.text))
    status = facts.get("status")
    # Clients leave the streams that they listen to as they please.
    odd = event == "failed" or (event == "abort" and not frame.channel.startswith("get"))
    return _line(frame, f"{what} {frame.channel}", detail, odd=odd or (isinstance(status, int) and status >= 400))


def _fact(event: str, facts: dict[str, Any], text: str) -> tuple[str, str]:
    """What happened on an HTTP channel, and what else there is to say of it."""
    headers = facts.get("headers")
    content = str(headers.get("content-type", "")).partition(";")[0] if isinstance(headers, dict) else ""
    match event:
        case "request":
            return f"{facts.get('verb')} {facts.get('path')} on", jsontext.compact(headers)
        case "response":
            return f"{facts.get('status')} {content}".rstrip() + " on", jsontext.compact(headers)
        case "close":
            return "closes", ""
        case "abort":
            return "aborts", ""
        case "open":
            return "leaves open", ""
        case "failed":
            return "fails on", str(facts.get("why"))
        case "comment" | "endpoint":
            return f"{event} on", str(facts.get("text", facts.get("data"))).strip()
    return event, text


def _line(frame: Frame, what: str, detail: str = "", *, odd: bool = False) -> dict[str, Any]:
    return {
        "seq": frame.seq,
        "at": frame.at,
        "sender": frame.sender,
        "channel": frame.channel,
        "kind": frame.kind,
        "id": None,
        "what": what,
        "odd": odd,
        "size": len(frame.text),
        "detail": detail,
    }


def _plain(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _compact(value: object, frame: Frame) -> str:
    try:
        return "" if value is None else jsontext.compact(value)
    except RecursionError:
        return _plain(frame.text)


def _duration(microseconds: int | None) -> str:
    if microseconds is None:
        return ""
    if microseconds < 1_000:
        return f"{microseconds} µs"
    if microseconds < 1_000_000:
        return f"{microseconds / 1_000:.1f} ms"
    return f"{microseconds / 1_000_000:.2f} s"


def _text(line: dict[str, Any]) -> str:
    arrow = "→" if line["sender"] == "client" else "←"
    number = "" if line["id"] is None else f"#{line['id']}"
    size = "" if line["kind"] == "control" else line["size"]
    left = f"{line['seq']:>5} {line['at'] / 1e6:>9.3f} {'!' if line['odd'] else ' '}{arrow} {number:<4} "
    return f"{left}{line['what']:<34} {size:>7}  {line['detail']}".rstrip()
