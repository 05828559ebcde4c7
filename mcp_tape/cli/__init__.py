"""The command line: parse, call the API, print.

It owns click, words for people and exit codes; it must not know SQL, the wire or processes, which are below it.

    click_options  click's options, made from the table (mcp_tape/options.py), and values for the API made from them
    output         lines that fit a terminal, colours, JSON, progress
    names          the cassette of a server, where none is named
    lines          a row of a session as one line
    exchange       `show FILE SEQ`: one exchange, whole
    follow         `show -f`: a session that is being recorded
    filter         the option --filter
    compare        options and output of diff, breaking and verify
    commands/      a module for each command, loaded when it runs
"""

from __future__ import annotations

import errno
import importlib
from typing import Any

import click

from .. import __version__
from ..errors import ServerError, TapeError, harmless

_SECTIONS = {
    "Record and replay": {
        "record": "Record a server: stand between it and its client.",
        "replay": "Be the recorded server.",
        "use": "Replay, record, or both, as the mode says.",
    },
    "Read": {
        "ls": "List the sessions on a cassette.",
        "show": "Show a session, one line a message.",
        "stats": "How often each tool was called, and how long it took.",
        "search": "Find messages by their words.",
        "query": "Ask a cassette in SQL.",
    },
    "Compare": {
        "diff": "What changed between two recordings of a server.",
        "breaking": "The gate for CI: does it break clients?",
        "verify": "Play the recorded client at a live server, and diff.",
        "review": "Decide on the changes that verify has found.",
        "rules": "List the rules of diff, breaking and verify.",
    },
    "Edit, share and keep": {
        "export": "Write sessions out as JSON lines, Markdown or raw bytes.",
        "load": "Make a cassette of JSON lines.",
        "edit": "Change a recorded session in your editor.",
        "dump": "A cassette as text that stays the same, for git diff.",
        "git-setup": "Let git show changes of cassettes in words.",
        "check": "Is a cassette whole, and without secrets?",
        "redact": "Hide secrets on a cassette that is there.",
        "rm": "Remove sessions from a cassette.",
        "merge": "The sessions of several cassettes in one.",
        "migrate": "Bring an older cassette up to date.",
    },
    "More": {
        "demo": "Record a session, replay it, miss, and find a breaking change.",
        "completion": "Let your shell complete commands and options.",
    },
}
_FOUND = f"{__name__}.found"
_COMMANDS = [name for commands in _SECTIONS.values() for name in commands]


class _Lazy(click.Group):
    """Load a command's module only when that command runs: start-up is the feature."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return _COMMANDS

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f".commands.{name.replace('-', '_')}", __name__).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, commands in _SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl(list(commands.items()))

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> click.Context:
        return super().make_context("mcp-tape", args, *more, **extra)  # also as `python -m mcp_tape`

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except TapeError as error:
            say(_discreetly(error))
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            ctx.exit(130)  # as a shell has it; 1 would mean that something was found
        except BrokenPipeError:
            discard_output()  # its reader has seen enough, as with `| head`
            ctx.exit(ctx.meta.get(_FOUND, 0))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            discard_output()  # what is still buffered would fail again
            say(f"cannot write the output: {error.strerror}; free some space, or write it elsewhere")
            ctx.exit(1)


def _discreetly(error: TapeError) -> str:
    """Return an error's message without secrets, which a server's URL, command line and last words may hold."""
    if not isinstance(error, ServerError):
        return str(error)
    from ..redaction.diagnostics import hidden

    return hidden(str(error))


def has_found(code: int) -> None:
    """Set the least exit code, which holds even if the reader of our output leaves early."""
    meta = click.get_current_context().meta
    meta[_FOUND] = max(code, meta.get(_FOUND, 0))


def discard_output() -> None:
    from ..transports.process import point_at_null

    point_at_null(1)


def say(text: str) -> None:
    """Print a line for people, to stderr: stdout is for the protocol, or for data."""
    # A message may quote what a stranger's cassette says: a terminal must not act on it.
    plain = harmless(text, lambda character: character if character == "\n" else " ")
    try:
        click.echo(f"mcp-tape: {plain}", err=True)
    except OSError:
        pass  # nobody reads our stderr; that must not stop a recording


@click.command(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="mcp-tape")
def cli() -> None:
    """A VCR for the Model Context Protocol.

    \b
    Record:  mcp-tape record -o time.db -- uvx mcp-server-time
    Look:    mcp-tape show time.db
    Replay:  mcp-tape replay time.db
    Both:    mcp-tape use time.db -- uvx mcp-server-time
    Remote:  mcp-tape record --url https://example.com/mcp -o example.db
    """
