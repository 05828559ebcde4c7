"""mcp-tape use"""

from __future__ import annotations

import click

from ...options import USE, OptionValues
from ...start.run_use import use
from ..click_options import SECRETS, SectionedCommand, carry_out, cassette_argument, table_options


@click.command(
    "use",
    cls=SectionedCommand,
    sections={
        "Most used": "--mode --url --listen --ignore --strict",
        "Matching": "--session --match-on --normalize --match --repeats --order",
        "Replaying": "--unanswered --speed --fault --seed --fail-on --report",
        "Recording": "--replay-prefix --new-times --note",
        "The server": "--env --env-from --cwd --header --cacert",
        "Where clients connect": "--allow-remote --head-timeout --max-body",
        "Secrets": SECRETS,
    },
    epilog="\b\nExamples:\n"
    "  mcp-tape use time.db -- uvx mcp-server-time\n"
    "  mcp-tape use time.db --mode new_episodes -- uvx mcp-server-time\n"
    "  mcp-tape use remote.db --url https://example.com/mcp --listen 127.0.0.1:8000\n"
    "  mcp-tape use agent.db --config .mcp.json -- my-agent --mcp-config {config}\n"
    "\n\b\n"
    "In a client's configuration:\n"
    '  "command": "mcp-tape",\n'
    '  "args": ["use", "time.db", "--", "uvx", "mcp-server-time"]',
)
@cassette_argument
@table_options(*USE)
@click.argument("command", metavar="[-- CMD...]", nargs=-1, type=click.UNPROCESSED)
def command(file: str, command: tuple[str, ...], values: OptionValues) -> None:
    """Replay a cassette, record it, or both.

    Put it into a client's configuration once; --mode decides what happens. With --url, mcp-tape prints a
    URL on stdout for clients to connect to, until Ctrl-C.
    """
    carry_out(use, file, command, values)
