"""mcp-tape dump"""

from __future__ import annotations

import os
import sys
from hashlib import sha256

import click

from ... import __version__
from ...cassette.reader import Cassette
from ...console.terminal import echo_json
from ...errors import CassetteError
from ...formats import dump
from ..click_options import cassette_argument, json_option


@click.command(
    "dump",
    epilog="\b\nExamples:\n"
    "  mcp-tape dump tape.db\n"
    "  diff -u <(mcp-tape dump old.db) <(mcp-tape dump new.db)\n"
    "  mcp-tape git-setup     lets git diff and git log -p do that",
)
@cassette_argument
@click.option("--session", type=int, metavar="N", help="Only this session; default: all.")
@click.option("--times", is_flag=True, help="Add times, in milliseconds since the session's start.")
@click.option("--textconv", is_flag=True, help="For git: report a file that cannot be read, but exit with 0.")
@json_option
def command(file: str, session: int | None, times: bool, textconv: bool, as_json: bool) -> None:
    """Print a cassette as text that has only what was said, for git diff.

    It prints all sessions, with one line for each member of a message, sorted by name. Times, frame numbers
    and the recorder's name are left out, so that two recordings of the same conversation give the same
    text. Lines of stderr come at the end of their session. Numbers are printed as they were written.
    """
    try:
        _dump(file, session, times, as_json)
    except CassetteError as error:
        if not textconv:
            raise
        why = str(error).replace(file, "the file").replace("\n", " ")
        _write(f"mcp-tape {__version__} cannot show this: {why}\n{_look_of(file)}\n")
    sys.stdout.flush()


def _dump(file: str, session: int | None, times: bool, as_json: bool) -> None:
    with Cassette(file) as cassette:
        sessions = cassette.sessions() if session is None else [cassette.session(session)]
        if as_json:
            for one in sessions:
                for block in dump.blocks(cassette, one.id):
                    echo_json(block._asdict() | {"text": "".join(block.text)})
            return
        for text in dump.dump(cassette, sessions, times):
            _write(text)


def _write(text: str) -> None:
    """Print UTF-8, whatever the locale is: git reads bytes."""
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))


def _look_of(file: str) -> str:
    """Return a value that changes when the file does."""
    digest = sha256()
    try:
        with open(file, "rb") as data:
            while block := data.read(1 << 20):
                digest.update(block)
        return f"{os.path.getsize(file)} bytes, sha256 {digest.hexdigest()}"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
