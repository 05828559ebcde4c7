"""mcp-tape demo"""

from __future__ import annotations

import os
import sys
import tempfile

import click

from ..demo import client

_MODULE = [sys.executable, "-m", "mcp_tape"]
_SERVER = [sys.executable, "-m", "mcp_tape.demo.server"]


@click.command("demo", epilog="\b\nExample:\n  mcp-tape demo")
def command() -> None:
    """Record a small session and show it: a tool call, progress, a server request, an error.

    Everything is real and local: a bundled client talks to a bundled server through the recorder, in a
    temporary directory.
    """
    from .show import show

    with tempfile.TemporaryDirectory(prefix="mcp-tape-demo-") as directory:
        tape = os.path.join(directory, "weather.db")
        _step("A client talks to a weather server; mcp-tape record stands between them.")
        click.echo("$ mcp-tape record -o weather.db -- python -m mcp_tape.demo.server")
        client.play([*_MODULE, "record", "-o", tape, "--", *_SERVER])
        _step("What they said: → is the client, ← the server, ! an error.")
        click.echo("$ mcp-tape show weather.db")
        show(tape, None, False)
    _step("Now record your own server. Type:")
    click.echo("  mcp-tape record -o my.db -- YOUR-SERVER-COMMAND    (in front of the command in your client)")
    click.echo("  mcp-tape show my.db")


def _step(text: str) -> None:
    click.secho(f"\n{text}", bold=True)
