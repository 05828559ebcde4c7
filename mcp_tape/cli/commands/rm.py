"""mcp-tape rm"""

from __future__ import annotations

import os

import click

from ...console import say
from ...console.terminal import echo_json
from ...transports.signals import exit_on_signal
from ..click_options import changed_cassette_argument, json_option


@click.command(
    "rm",
    epilog="\b\nExamples:\n  mcp-tape rm tape.db --session 2\n  mcp-tape rm tape.db --session 2 --session 3 --json",
)
@changed_cassette_argument
@click.option("--session", "sessions", type=int, multiple=True, required=True, metavar="N",
              help="Remove this session. May be repeated.")  # fmt: skip
@click.option(
    "--force", is_flag=True, help="Also remove the sessions that extend it, and a session that is being recorded."
)
@json_option
def command(file: str, sessions: tuple[int, ...], force: bool, as_json: bool) -> None:
    """Remove sessions from a cassette. The file shrinks, and holds nothing of them.

    A session that extends another (mode new_episodes) plays only with it: name both, or use --force. The other
    sessions keep their numbers. You can remove sessions while the cassette is being recorded. A session that is
    still open is removed only with --force; its recorder then reports that it no longer records.
    """
    from ...cassette.change.remove import remove

    click.get_current_context().with_resource(exit_on_signal())
    before = os.path.getsize(file) if os.path.exists(file) else 0
    gone = remove(file, sessions, force=force)
    freed = before - os.path.getsize(file)
    if as_json:
        echo_json({"file": file, "removed": gone, "bytes_freed": freed})
    else:
        numbers = ", ".join(map(str, gone))
        say(f"removed session{'s' if len(gone) > 1 else ''} {numbers} from {file}, and freed {max(0, freed)} bytes")
