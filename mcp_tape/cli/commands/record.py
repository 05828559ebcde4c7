"""mcp-tape record"""

from __future__ import annotations

import click

from ...options import RECORD, OptionValues
from ...start.run_record import record
from ..click_options import SECRETS, SectionedCommand, carry_out, table_options


@click.command(
    "record",
    cls=SectionedCommand,
    sections={
        "Most used": "--output --url --header --env --note",
        "The server": "--env-from --cwd --header-env --cacert --stdio",
        "Where clients connect": "--listen --allow-remote --head-timeout",
        "Secrets": SECRETS,
        "Long-running recordings": "--rotate --keep --sample --bodies --on-rotate --hook-timeout --otlp",
    },
    context_settings={"allow_interspersed_args": False},
    epilog="\b\nExamples:\n"
    "  mcp-tape record -- uvx mcp-server-time\n"
    "  mcp-tape record -o git.db --note 'before 2.0' -- uvx mcp-server-git -r .\n"
    "  mcp-tape record --url https://example.com/mcp -o example.db\n"
    "  mcp-tape record --url https://example.com/mcp --stdio --header-env X-Key\n"
    "  mcp-tape record --sample 1% --rotate 50M --on-rotate 'cp {} /kept' -- server\n"
    "\n\b\n"
    "In a client's configuration put mcp-tape in front of the server's command:\n"
    '  "command": "mcp-tape", "args": ["record", "--", "uvx", "mcp-server-time"]\n'
    "or, with --url, the URL that mcp-tape prints in place of the server's.",
)
@table_options(*RECORD)
@click.argument("command", metavar="[-- CMD...]", nargs=-1, type=click.UNPROCESSED)
def command(command: tuple[str, ...], values: OptionValues) -> None:
    """Record a server by running between it and its client.

    Bytes pass through untouched, and every message is on the cassette, with its time, before the other
    side sees it. An existing cassette gets another session.

    With a command, stdin, stdout, stderr, signals and the exit code are the server's own. With --url,
    mcp-tape is a proxy: it prints its own URL on stdout; give that to the client, and stop it with Ctrl-C.
    With --url and --stdio, the client starts mcp-tape as a stdio server, and it forwards to the URL.
    """
    carry_out(record, command, values)
