"""mcp-tape replay"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ... import api
from ...options import REPLAY
from .. import say
from ..click_options import cassette_argument, check_faults, given_as, web_from

if TYPE_CHECKING:
    from ...replay.stage import Played, Replay


@click.command(
    "replay",
    epilog="\b\nExamples:\n"
    "  mcp-tape replay time.db\n"
    "  mcp-tape replay time.db --ignore '$.params.arguments.now' --strict\n"
    "  mcp-tape replay time.db --speed 1 --fault 'tools/call:search@2=error:-32000'\n"
    "  mcp-tape replay time.db --listen 127.0.0.1:8000\n"
    "\n\b\n"
    "In a client's configuration:\n"
    '  "command": "mcp-tape", "args": ["replay", "time.db"]',
)
@cassette_argument
@given_as(*REPLAY)
@click.pass_context
def command(ctx: click.Context, /, file: str, quiet: bool, **given: Any) -> None:
    """Be the recorded server: deterministic, offline, for tests.

    On stdin and stdout, or with --listen over HTTP: Streamable HTTP at /mcp, HTTP+SSE at /sse, until
    Ctrl-C. It does not matter how the cassette was recorded.

    A request that nothing on the tape answers is a miss: told in the error, on stderr, and in the exit
    code (1). What is said of it hides secrets, as a recording would; redacting options add to that.
    """
    options = api.replay_options(given)
    check_faults(options, given["listen"])
    web = web_from(given)
    if given["listen"]:
        played = api.replay_web(file, options, web, say=say, started=click.echo)
    else:
        played = api.replay(file, options, say=say)
    report_played(played, options, file, quiet)
    ctx.exit(played.code)


def report_played(played: Played, options: Replay, file: str, quiet: bool) -> None:
    if played.misses or not quiet:
        unplayed = f", {played.unplayed} unplayed" if options.strict or options.report else ""
        say(f"{played.played} played, {played.misses} missed{unplayed}: {file}")
