"""The command line: parse, call the API, print.

It owns click and the words of commands; it must not know SQL, the wire or processes, which are below it.

    click_options  click's options, made from the table (mcp_tape/options.py)
    lines          a row of a session as one line
    follow         `show -f`: a session that is being recorded
    filter         the option --filter
    compare        options and output of diff, breaking and verify
    forms          what convert writes besides cassettes
    running        runs over many cassettes, in processes and shares: results in order, rows, a summary
    newest         the newest cassettes, where no file is named
    commands/      a module for each command, loaded when it runs
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import get_completion_class

from .. import __version__
from ..cassette.text import losses
from ..console import ended_by, say
from ..errors import TapeError

if TYPE_CHECKING:
    from ..extensions import Extension

_SECTIONS = {
    "Record and replay": {
        "record": "Record a server: stand between it and its client.",
        "replay": "Be the recorded server.",
        "use": "Replay, record, or both, as the mode says.",
    },
    "In the clients you use": {
        "wrap": "Put the tape into a client's servers, or take it out again.",
        "doctor": "Find out why a client or a recording does not work.",
    },
    "Read": {
        "ls": "List the sessions on a cassette.",
        "show": "Show a session, one line per message.",
        "view": "Look through a recording in the browser, also live.",
        "stats": "How often each tool was called, and how long it took.",
        "why": "Why did it hang? Calls without an answer, and who left first.",
        "search": "Find messages by their words.",
        "query": "Run SQL on a cassette.",
        "mcp": "Let agents read recordings, over MCP.",
    },
    "Compare": {
        "diff": "What changed between two recordings of a server.",
        "breaking": "The gate for CI: does it break clients?",
        "verify": "Play the recorded client against a live server, and compare.",
        "review": "Decide on the changes that verify has found.",
    },
    "Edit, share and keep": {
        "convert": "Between forms: SQLite, JSON lines, Markdown, a page, HAR, tests.",
        "edit": "Change a recorded session in your editor.",
        "git-setup": "Let git show changes of cassettes in words.",
        "check": "Is a cassette whole, and free of secrets?",
        "redact": "Hide secrets on an existing cassette.",
        "rm": "Remove sessions from a cassette.",
        "merge": "Combine the sessions of several cassettes.",
    },
    "With a team": {
        "push": "Put cassettes into a bucket: s3://, gs://, az://.",
        "pull": "Fetch cassettes from a bucket.",
        "lake": "Make Parquet tables of cassettes, for any engine of analysis.",
        "merge-reports": "Merge the results of several shares of a run.",
    },
    "More": {
        "demo": "Record a session, replay it, miss a call, find a breaking change.",
    },
}
# Names that commands had, with what they are now.
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


class _Lazy(click.Group):
    """Load a command's module only when that command runs: start-up is the feature.

    Commands of other packages are looked for where a name is not one of ours, and in the help text.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return _COMMANDS

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name in _COMMANDS:
            command: click.Command = importlib.import_module(f".commands.{name.replace('-', '_')}", __name__).command
            return command
        from .. import extensions

        found = extensions.registered(extensions.COMMANDS).get(name)
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

        others = extensions.registered(extensions.COMMANDS)
        if others:
            with formatter.section("From other packages"):
                formatter.write_dl([(name, _origin(name, one)) for name, one in others.items()])

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> click.Context:
        return super().make_context("mcp-tape", args, *more, **extra)  # also as `python -m mcp_tape`

    def invoke(self, ctx: click.Context) -> Any:
        with losses.collect() as lost:
            try:
                return super().invoke(ctx)
            except (TapeError, KeyboardInterrupt, OSError) as error:
                ctx.exit(ended_by(error, ctx.meta.get(_FOUND, 0)))
            finally:
                for path, whys in lost.items():
                    for why in whys:
                        say(f"{path}: {why}")


def _origin(name: str, extension: Extension) -> str:
    """Describe the command of another package, without loading it."""
    if name in _COMMANDS:
        return f"{extension.packages}: not used, as mcp-tape has a command of this name"
    several = len(extension.entries) > 1
    return f"{extension.packages}: not used, as both have this name" if several else extension.packages


def has_found(code: int) -> None:
    """Set the least exit code, which holds even if the reader of our output leaves early."""
    meta = click.get_current_context().meta
    meta[_FOUND] = max(code, meta.get(_FOUND, 0))


def _complete(ctx: click.Context, param: click.Parameter, shell: str | None) -> None:
    if shell is None or ctx.resilient_parsing:
        return

    click.echo(script(cli, shell))
    ctx.exit()


@click.command(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="mcp-tape")
@click.option("--completion", metavar="SHELL", type=click.Choice(("bash", "zsh", "fish")), is_eager=True,
              expose_value=False, callback=_complete, help="Print the script by which bash, zsh or fish completes "
              "commands, options and files.")  # fmt: skip
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
