"""mcp-tape record"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ...console import say
from ...errors import count
from ...options import (
    AROUND,
    HEADER_ENV,
    IN_PRODUCTION,
    LABEL,
    OUTPUT,
    RECORD,
    RECORDING,
    URL,
    WEB,
    Option,
    OptionValues,
)
from ...start.run_record import record
from ..click_options import SECRETS, SectionedCommand, carry_out, click_option, table_options

if TYPE_CHECKING:
    from ...verify.scripted_calls import CallsOutcome

_CALL = Option(
    "call", "--call", "Record without a client: make this call, after the handshake and the lists. A tool with its "
    "arguments, or a method with its params, e.g. 'resources/read={\"uri\": \"…\"}'. May be repeated.", "NAME=JSON",
    multiple=True,
)  # fmt: skip
_CALLS = Option(
    "calls", "--calls", "The same, with the calls of a file: JSON lines such as {\"tool\": \"search\", \"arguments\": "
    "{\"q\": \"x\"}}.", "FILE", "file",
)  # fmt: skip
# Options that count without a client. The recorder gets them as words: a value may be a secret, or depend on its time.
_COUNTS = (*AROUND, *WEB[1:], HEADER_ENV, *RECORDING, *(row for row in IN_PRODUCTION if row.name == "bodies"), LABEL)
_OURS = {_CALL.name, _CALLS.name, OUTPUT.name, URL.name, "quiet"}
_TEXTS = f"{__name__}.texts"
_STARTING = 120.0  # seconds for the first answer: a package runner may download the server


class RecordCommand(SectionedCommand):
    """A command that keeps its options as text, by name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if _CALL.flag in " ".join(args):  # and so --calls
            ctx.meta[_TEXTS] = self.make_parser(ctx).parse_args(list(args))[0]
        return super().parse_args(ctx, args)


@click.command(
    "record",
    cls=RecordCommand,
    sections={
        "Most used": "--output --url --header --env --note",
        "The server": "--env-from --cwd --header-env --cacert --stdio",
        "Without a client": "--call --calls",
        "Where clients connect": "--listen --allow-remote --head-timeout",
        "Secrets": SECRETS,
        "Long-running recordings": "--rotate --keep --sample --bodies --on-rotate --hook-timeout --otlp",
    },
    context_settings={"allow_interspersed_args": False},
    epilog="\b\nExamples:\n"
    "  mcp-tape record -- uvx mcp-server-time\n"
    "  mcp-tape record -o git.db --note 'before 2.0' -- uvx mcp-server-git -r .\n"
    '  mcp-tape record -o t.db --call \'search={"q": "tape"}\' -- python server.py\n'
    "  mcp-tape record --url https://example.com/mcp -o example.db\n"
    "  mcp-tape record --url https://example.com/mcp --stdio --header-env X-Key\n"
    "  mcp-tape record --sample 1% --rotate 50M --on-rotate 'cp {} /kept' -- server\n"
    "\n\b\n"
    "In a client's configuration put mcp-tape in front of the server's command:\n"
    '  "command": "mcp-tape", "args": ["record", "--", "uvx", "mcp-server-time"]\n'
    "or, with --url, the URL that mcp-tape prints in place of the server's.",
)
@table_options(*RECORD)
@click_option(_CALL)
@click_option(_CALLS)
@click.argument("command", metavar="[-- CMD...]", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(
    ctx: click.Context, /, command: tuple[str, ...], call: tuple[str, ...], calls: str | None, values: OptionValues
) -> None:
    """Record a server by running between it and its client.

    Bytes pass through untouched, and every message is on the cassette, with its time, before the other
    side sees it. An existing cassette gets another session.

    With a command, stdin, stdout, stderr, signals and the exit code are the server's own. With --url,
    mcp-tape is a proxy: it prints its own URL on stdout; give that to the client, and stop it with Ctrl-C.
    With --url and --stdio, the client starts mcp-tape as a stdio server, and it forwards to the URL.
    With --call or --calls, mcp-tape is the client, too; the exit code is 1 if a call got no answer.
    """
    if call or calls:
        ctx.exit(_record_calls(command, call, calls, values, ctx.meta[_TEXTS]))
    carry_out(record, command, values)


def _record_calls(
    command: tuple[str, ...], call: tuple[str, ...], calls: str | None, values: OptionValues, texts: dict[str, Any]
) -> int:
    from ...start.cassette_names import default_path, default_path_of_url
    from ...verify.plan import VerifyOptions, VerifyTarget
    from ...verify.scripted_calls import parse_call, read_calls, record_calls

    url = values.url
    if bool(command) == bool(url):
        raise click.UsageError("which server should be called? Add -- and its command, or --url URL")
    script = [*map(parse_call, call), *(read_calls(calls) if calls else ())]
    path = values.output or (default_path_of_url(url) if url else default_path(command))
    options = VerifyOptions(writes="allow", recording=tuple(_words_for_recorder(texts)), starting=_STARTING)
    made = record_calls(script, VerifyTarget(command, url or ""), options, path)
    return _report(made, path, values.quiet)


def _words_for_recorder(texts: dict[str, Any]) -> list[str]:
    """Return the options of the recorder as words. Refuse options that need a client."""
    counts = {row.name for row in _COUNTS} | _OURS
    for row in RECORD:
        if texts.get(row.name) and row.name not in counts:
            raise click.UsageError(f"{row.flag} does not go with --call and --calls, which end by themselves")
    words: list[str] = []
    for row in _COUNTS:
        given = texts.get(row.name)
        for text in given if isinstance(given, list) else [given] if given else ():
            words += [row.flag] if row.kind == "flag" else [row.flag, text]
    return words


def _report(made: CallsOutcome, path: str, quiet: bool) -> int:
    for failure in made.failures:
        about = f"{failure.request}: " if failure.request else ""
        say("\n  ".join([f"{about}{failure.message}", *failure.stderr]))
    if not quiet or made.failures:
        errors = f", {count(made.errors, 'error')} among the answers" if made.errors else ""
        say(f"{made.answered} of {count(made.made, 'call')} answered{errors}: {path}")
    return int(bool(made.failures) or made.answered < made.made)
