"""mcp-tape replay"""

from __future__ import annotations

import click

from ...options import REPLAY, OptionValues
from ...start.run_replay import replay
from ..click_options import SectionedCommand, carry_out, cassette_argument, table_options


@click.command(
    "replay",
    cls=SectionedCommand,
    sections={
        "Most used": "--listen --session --ignore --strict --quiet",
        "Matching": "--match-on --normalize --match --repeats --order",
        "Replaying": "--lock --unanswered --speed --fault --seed --fail-on --report",
        "Where clients connect": "--allow-remote --head-timeout --max-body --workers",
        "Secrets in reports": "--redact-key --redact-path --redact-value --redact-with",
    },
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
    """Act as the recorded server, offline and with the same answers every time.

    It talks on stdin and stdout. With --listen it serves Streamable HTTP at /mcp and HTTP+SSE at /sse until
    Ctrl-C. It does not matter which transport was recorded.

    A request that is not on the tape is a miss: the client gets an error, stderr shows the nearest
    recording, and the exit code is 1. Reports hide secrets as recordings do; the --redact options hide more.
    """
    carry_out(replay, file, values)
