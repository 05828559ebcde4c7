"""mcp-tape demo"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator

import click

from ...console.terminal import echo
from ...demo import client
from ...errors import CassetteError, ServerError

_MODULE = [sys.executable, "-m", "mcp_tape"]
_SERVER = [sys.executable, "-m", "mcp_tape.demo.server"]
_CASSETTES = ("tape.db", "next.db")
_NEXT = """\
  mcp-tape record -o my.db -- YOUR-SERVER   put it before the server's command
  mcp-tape show my.db                       list the messages
  mcp-tape replay my.db                     be that server, in tests and offline
  mcp-tape use my.db -- YOUR-SERVER         record once, then always replay
  mcp-tape verify my.db -- YOUR-SERVER      check that it still answers the same"""


@click.command("demo", epilog="\b\nExamples:\n  mcp-tape demo\n  mcp-tape demo -o .")
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    help=f"Keep {' and '.join(_CASSETTES)} here, to try the examples of the manual.",
)
def command(output: str | None) -> None:
    """Watch mcp-tape record, replay, miss a call and find a breaking change.

    Everything is real and local: in a temporary directory, a bundled client talks to a bundled server through the
    recorder, then to the tape alone, then to the server's next version.
    """
    with _new_directory(output) if output else tempfile.TemporaryDirectory(prefix="mcp-tape-demo-") as directory:
        _replay(directory, _record(directory))
        _miss(directory)
        _diff(directory)
    if output:
        _step(f"Kept: {' and '.join(os.path.join(output, name) for name in _CASSETTES)}")
    _step("Now your own server. Type:")
    click.echo(_NEXT)


@contextlib.contextmanager
def _new_directory(directory: str) -> Iterator[str]:
    """A directory for new cassettes: none is recorded over."""
    for name in _CASSETTES:
        if os.path.lexists(os.path.join(directory, name)):
            raise click.UsageError(f"there is a {name} in {directory} already; give another directory")
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        raise CassetteError(
            f"cannot write to {directory}: {error.strerror}; name a directory that you can write to"
        ) from None
    yield directory


def _record(directory: str) -> list[client.Answer]:
    from .show import show

    _step("1. Record. A client talks to a weather server, through mcp-tape.")
    click.echo("$ mcp-tape record -o tape.db -- python -m mcp_tape.demo.server")
    answers = _play(["record", "-o", "tape.db", "--", *_SERVER], directory, client.REQUESTS).answers
    _step("The messages: → from the client, ← from the server, ! an error.")
    click.echo("$ mcp-tape show tape.db")
    show(os.path.join(directory, "tape.db"), None, False)
    return answers


def _replay(directory: str, recorded: list[client.Answer]) -> None:
    _step("2. Replay. The same client, the tape alone: no server is running.")
    click.echo("$ mcp-tape replay tape.db")
    answers = _play(["replay", "tape.db"], directory, client.REQUESTS).answers
    if answers != recorded:
        raise ServerError("the replay did not answer as recorded; its stderr above should say why")
    click.echo(f"The client got the same {len(answers)} answers. Tomorrow in Bern: {client.forecast(answers[2])}")


def _miss(directory: str) -> None:
    _step("3. Miss. It asks for Basel, and only Bern is on the tape.")
    click.echo("$ mcp-tape replay tape.db")
    answers, code = _play(["replay", "tape.db"], directory, client.ELSEWHERE)
    click.echo(f"The client got error {answers[-1]['error']['code']}, and mcp-tape exits with {code}.")


def _diff(directory: str) -> None:
    import subprocess

    _step("4. Diff. The server's next version is out. Does it break its clients?")
    click.echo("$ mcp-tape record -o next.db -- python -m mcp_tape.demo.server next")
    _play(["record", "-o", "next.db", "--", *_SERVER, "next"], directory, client.REQUESTS)
    click.echo("$ mcp-tape breaking tape.db next.db")
    done = subprocess.run([*_MODULE, "breaking", "tape.db", "next.db"], cwd=directory, check=False)
    click.echo(f"mcp-tape exits with {done.returncode}: such a release would not pass CI.")


def _play(arguments: list[str], directory: str, requests: client.Requests) -> client.Outcome:
    outcome = client.play([*_MODULE, *arguments], directory, requests)
    if len(outcome.answers) < len(requests):
        raise ServerError("the demo's server ended too early; its stderr above should say why")
    return outcome


def _step(text: str) -> None:
    echo(f"\n{text}", bold=True)
