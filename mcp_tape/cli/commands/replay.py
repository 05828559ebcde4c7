"""mcp-tape replay"""

from __future__ import annotations

import click

from ...options import REPLAY, OptionValues
from ...start.replay import replay
from ..click_options import carry_out, cassette_argument, table_options


@click.command(
    "replay",
    epilog="\b\nExamples:\n"
    "  mcp-tape replay time.db\n"
    "  mcp-tape replay time.db --ignore '$.params.arguments.now' --strict\n"
    "  mcp-tape replay files.db --normalize paths --match tools/call:search=nearest\n"
    "  mcp-tape replay time.db --speed 1 --fault 'tools/call:search@2=error:-32000'\n"
    "  mcp-tape replay time.db --listen 127.0.0.1:8000\n"
    "\n\b\n"
    "In a client's configuration:\n"
    '  "command": "mcp-tape", "args": ["replay", "time.db"]',
)
@cassette_argument
@table_options(*REPLAY)
def command(file: str, values: OptionValues) -> None:
    """Be the recorded server: deterministic, offline, for tests.

    On stdin and stdout, or with --listen over HTTP: Streamable HTTP at /mcp, HTTP+SSE at /sse, until
    Ctrl-C. It does not matter how the cassette was recorded.

    A request that nothing on the tape answers is a miss: the client gets an error, stderr says what comes
    nearest, and the exit code is 1. Secrets are hidden there as in a recording; the --redact options add
    to that.
    """
    carry_out(replay, file, values)
