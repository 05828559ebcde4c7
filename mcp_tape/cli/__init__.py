"""The command line: parse, call the API, print.

It owns click and the wording of commands. SQL, the wire and processes belong to the layers below.

    click_options  click's options, made from the table (mcp_tape/options.py)
    message_lines  a row of a session as one line
    follow         `show -f`: a session that is being recorded
    filter         the option --filter
    compare        options and output of diff, breaking and verify
    forms          the formats that convert writes besides cassettes
    running        runs over many cassettes, in processes and shares: results in order, rows, a summary
    powershell     completion for PowerShell
    newest         the newest cassettes, to choose from if no file is named
    commands/      a module for each command, loaded when it runs
"""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import get_completion_class

from .. import __version__
from ..cassette.text import losses
from ..console import report_error, say
from ..errors import TapeError
from . import powershell as powershell  # click finds it by name

if TYPE_CHECKING:
    from ..extensions import Extension

_SECTIONS = {
    "Record and replay": {
        "record": "Record a server by running between it and its client.",
        "replay": "Act as the recorded server.",
        "use": "Replay a cassette, record it, or both.",
    },
    "In the clients you use": {
        "wrap": "Record a client's servers by changing its configuration, and undo it.",
        "doctor": "Find out why a client or a recording does not work.",
    },
    "Read": {
        "ls": "List the sessions on a cassette.",
        "show": "Show a session, one line per message.",
        "view": "Open a recording in the browser, even while it is made.",
        "stats": "Count calls and errors of each tool, and how long they took.",
        "why": "Explain a hang or a crash: unanswered calls, and which side left first.",
        "search": "Find messages by words.",
        "query": "Run SQL on a cassette.",
        "mcp": "Let agents read recordings, over MCP.",
    },
    "Compare": {
        "diff": "Show what changed between two recordings of a server.",
        "breaking": "Fail if a change breaks clients: the gate for CI.",
        "lock": "Lock what servers offer, and check it: a gate without a client.",
        "verify": "Play the recorded client against a live server, and compare.",
        "review": "Accept or reject the changes that verify found.",
    },
    "Edit, share and keep": {
        "convert": "Convert to and from SQLite, JSON lines, Markdown, a page, HAR, tests.",
        "edit": "Change a recorded session in your editor.",
        "git-setup": "Make git diff show cassettes as text.",
        "check": "Check a cassette for damage and secrets.",
        "redact": "Hide secrets in an existing cassette.",
        "rm": "Remove sessions from a cassette.",
        "merge": "Combine the sessions of several cassettes.",
    },
    "With a team": {
        "push": "Put cassettes into a bucket: s3://, gs://, az://.",
        "pull": "Fetch cassettes from a bucket.",
        "lake": "Write cassettes to Parquet tables, for any analytics engine.",
        "merge-reports": "Merge the reports of a sharded run.",
    },
    "More": {
        "schema": "Print the JSON Schema of output, reports, locks, stubs and text cassettes.",
        "demo": "Watch it record, replay, miss a call and find a breaking change.",
    },
}
# Former names of commands, with the new name and an example.
_GONE = {
    "export": ("convert", "mcp-tape convert IN OUT --to jsonl"),
    "load": ("convert", "mcp-tape convert IN OUT.db"),
    "migrate": ("convert", "mcp-tape convert IN OUT.db"),
    "dump": ("convert --to txt", "mcp-tape convert IN --to txt"),
    "clients": ("wrap --list", "mcp-tape wrap --list"),
    "unwrap": ("wrap --undo", "mcp-tape wrap SERVER --undo"),
    "rules": ("diff --rules", "mcp-tape diff --rules"),
    "completion": ("--completion", "mcp-tape --completion bash"),
}
_FOUND = f"{__name__}.found"
_COMMANDS = [name for commands in _SECTIONS.values() for name in commands]


class _LazyGroup(click.Group):
    """Load a command's module only when that command runs: start-up is the feature.

    Unknown names and the help text also look for commands of other packages.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return _COMMANDS

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name in _COMMANDS:
            command: click.Command = importlib.import_module(f".commands.{name.replace('-', '_')}", __name__).command
            return command
        from .. import extensions

        found = extensions.find_extensions(extensions.COMMANDS).get(name)
        return found.load() if found else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if args[0] in _GONE:
                now, example = _GONE[args[0]]
                raise click.UsageError(f"`{args[0]}` is now `{now}`: {example}", ctx) from None
            import difflib  # only where it is used

            near = difflib.get_close_matches(args[0], _COMMANDS, 1)
            if not near:
                raise
            raise click.UsageError(f"{error.message} Did you mean {near[0]}?", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, commands in _SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl(list(commands.items()))
        from .. import extensions

        others = extensions.find_extensions(extensions.COMMANDS)
        if others:
            with formatter.section("From other packages"):
                formatter.write_dl([(name, _origin(name, one)) for name, one in others.items()])

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> click.Context:
        return super().make_context("mcp-tape", args, *more, **extra)  # also as `python -m mcp_tape`

    def invoke(self, ctx: click.Context) -> Any:
        with losses.collect() as lost:
            try:
                return super().invoke(ctx)
            except click.MissingParameter as error:
                raise click.UsageError(f"{error.format_message()}{_example(error.ctx)}", error.ctx) from None
            except (TapeError, KeyboardInterrupt, OSError) as error:
                ctx.exit(report_error(error, ctx.meta.get(_FOUND, 0)))
            finally:
                for path, whys in lost.items():
                    for why in whys:
                        say(f"{path}: {why}")


def _example(ctx: click.Context | None) -> str:
    """The first example in a command's help."""
    found = re.search(r"^ +(mcp-tape .*)", (ctx.command.epilog if ctx else None) or "", re.M)
    return f" Example: {found[1]}" if found else ""


def _origin(name: str, extension: Extension) -> str:
    """Describe the command of another package, without loading it."""
    if name in _COMMANDS:
        return f"{extension.packages}: not used, as mcp-tape has a command of this name"
    several = len(extension.entries) > 1
    return f"{extension.packages}: not used, as both have this name" if several else extension.packages


def set_least_exit_code(code: int) -> None:
    """Set the least exit code, which counts even if the reader of stdout closes it early."""
    meta = click.get_current_context().meta
    meta[_FOUND] = max(code, meta.get(_FOUND, 0))


def _complete(ctx: click.Context, param: click.Parameter, shell: str | None) -> None:
    if shell is None or ctx.resilient_parsing:
        return

    click.echo(script(cli, shell))
    ctx.exit()


@click.command(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="mcp-tape")
@click.option("--completion", metavar="SHELL", type=click.Choice(("bash", "zsh", "fish", "powershell")), is_eager=True,
              expose_value=False, callback=_complete, help="Print the script by which a shell completes commands, "
              "options and files: bash, zsh, fish or powershell.")  # fmt: skip
def cli() -> None:
    """A VCR for the Model Context Protocol.

    \b
    Record:  mcp-tape record -o time.db -- uvx mcp-server-time
    Look:    mcp-tape show time.db
    Replay:  mcp-tape replay time.db
    Both:    mcp-tape use time.db -- uvx mcp-server-time
    Remote:  mcp-tape record --url https://example.com/mcp -o example.db
    """


# -- the script by which a shell completes commands, options and files: `mcp-tape --completion SHELL`


def script(command: click.Command, shell: str) -> str:
    """Return the script for a shell that click knows."""
    found = get_completion_class(shell)
    assert found is not None
    completion = found(command, {}, "mcp-tape", "_MCP_TAPE_COMPLETE")
    return completion.source_template % completion.source_vars()  # source() starts a shell to ask how old it is
