"""mcp-tape show"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import click

from .. import jsontext
from ..cassette import Cassette
from ..frames import Entry, Frame
from ..tape import Ledger
from .options import cassette_argument, clip, echo_json, json_option, on_terminal, session_option

_WIDTH_OF_A_PIPE = 200


@click.command("show", epilog="\b\nExample:\n  mcp-tape show cassettes/mcp-server-time.db")
@cassette_argument
@session_option
@json_option
def command(file: str, session: int | None, as_json: bool) -> None:
    """Show a session: one line a message, with its time, direction and size.

    → is the client, ← the server, ! what needs a look: errors, noise, stderr.
    """
    show(file, session, as_json)


def show(file: str, session: int | None, as_json: bool) -> None:
    """What the command prints."""
    width = shutil.get_terminal_size().columns if on_terminal() else _WIDTH_OF_A_PIPE
    with Cassette(file) as cassette:
        for line in lines(cassette, cassette.session(session).id):
            if as_json:
                echo_json(line)
            else:
                click.secho(_text(line, width), fg="red" if line["mark"] == "!" else None)


def lines(cassette: Cassette, session: int) -> Iterator[dict[str, object]]:
    """What there is to say of each message, noise and event of a session."""
    ledger = Ledger()
    methods: dict[int, str] = {}
    for frame in cassette.frames(session):
        entries = ledger.derive(frame)
        for part, entry in enumerate(entries):
            if entry.message.method and entry.message.kind == "request":
                methods[frame.seq] = entry.message.method
            yield _of_message(frame, part, entry, methods)
        if not entries:
            yield _line(frame, frame.kind, frame.text.decode("utf-8", "replace"), frame.kind != "control")


def _of_message(frame: Frame, part: int, entry: Entry, methods: dict[int, str]) -> dict[str, object]:
    message = entry.message
    if message.kind != "response":
        what = " ".join(filter(None, (message.method, message.name)))
        detail = _compact(message.body.get("params"))
    else:
        what = f"{methods.pop(entry.answers or 0, '?')} {message.status}"
        detail = _compact(message.body.get("error", message.body.get("result")))
    line = _line(frame, what, detail, message.status in ("error", "tool-error"))
    return line | {"id": message.rpc_id, "kind": message.kind, "part": part, "answers": entry.answers}


def _line(frame: Frame, what: str, detail: str, odd: bool) -> dict[str, object]:
    return {
        "seq": frame.seq,
        "at": frame.at,
        "sender": frame.sender,
        "mark": "!" if odd else " ",
        "id": None,
        "kind": frame.kind,
        "what": what,
        "size": len(frame.text),
        "detail": detail,
    }


def _compact(value: object) -> str:
    return "" if value is None else jsontext.compact(value)


def _seconds(line: dict[str, object]) -> float:
    at = line["at"]
    return at / 1e6 if isinstance(at, int) else 0.0


def _text(line: dict[str, object], width: int) -> str:
    arrow = "→" if line["sender"] == "client" else "←"
    number = "" if line["id"] is None else f"#{line['id']}"
    left = f"{line['seq']:>5} {_seconds(line):>9.3f} {line['mark']}{arrow} {number:<4} "
    left += f"{line['what']!s:<32} {line['size']:>7} "
    return clip(f"{left} {line['detail']}", width)
