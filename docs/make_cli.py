"""Write docs/cli.md from the help texts: python docs/make_cli.py. The man page of a release is made here, too."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import click

from mcp_tape import __version__
from mcp_tape.cli import cli

PAGE = Path(__file__).parent / "cli.md"
INTRO = """# Command line

<!-- Made by docs/make_cli.py from the help texts. -->

`--` always means: the rest is the server's command. `--json` prints one JSON object per line. Colours are used only on
a terminal, and not if `NO_COLOR` is set.

**What is read.** `CASSETTE` and `FILE` are a cassette (`.db`, `.jsonl`), [another tool's recording](formats.md#read), a
URL (`s3://…`, `https://….db`), or `git:REVISION:FILE`, as it was then. `CASSETTE...` is any number of them: files,
directories (all cassettes in them and below), quoted patterns (`'tapes/**/*.db'`) and prefixes in a bucket, with a / at
the end (`s3://team/tapes/`). It is the same in every command that takes several.

**What is written.** `-o` names the file or directory that a command makes. Only commands that take something from one
place to another have their destination as the last argument, as `cp` has: `convert`, `push`, `pull` and `lake`. Nothing
that is there is replaced without `--force`, but for reports: `--also` replaces an older one, and `--report` adds to it.

Exit codes: 0 clean; 1 findings; 2 wrong usage; 3 the cassette cannot be read or written; 4 the server could not be
started. `record` returns the server's own code, 128 + n for signal n.
"""


def page() -> str:
    """The whole text of the page."""
    return "\n".join([INTRO, *(_section(context.command_path, context) for context in contexts())])


def contexts() -> Iterator[click.Context]:
    """The context of mcp-tape, and of each of its commands."""
    names = ["-h", "--help"]
    top = click.Context(cli, info_name="mcp-tape", terminal_width=80, help_option_names=names)
    yield top
    for name in cli.list_commands(top):
        command = cli.get_command(top, name)
        if command is not None and not command.hidden:
            yield click.Context(command, info_name=name, parent=top, terminal_width=80, help_option_names=names)


def _section(title: str, context: click.Context) -> str:
    return f"## {title}\n\n```text\n{context.get_help()}\n```\n"


def man_page() -> str:
    """The same for man: see man(7)."""
    top, *commands = contexts()
    promise, _, more = (top.command.help or "").partition("\n")
    lines = [f'.TH MCP-TAPE 1 "" "mcp-tape {__version__}"', ".SH NAME", rf"mcp\-tape \- {_roff(promise.rstrip('.'))}"]
    lines += [".SH SYNOPSIS", r".B mcp\-tape", "COMMAND [OPTIONS] [ARGS]"]
    lines += [".SH DESCRIPTION", *_paragraphs(more), *_options(top)]
    for context in commands:
        usage = " ".join(context.command.collect_usage_pieces(context))
        lines += [f'.SH "MCP\\-TAPE {_roff(str(context.info_name).upper())}"']
        lines += [f".B {_roff(context.command_path)}", _roff(usage), ".PP"]
        lines += [
            *_paragraphs(context.command.help or ""),
            *_options(context),
            *_paragraphs(context.command.epilog or ""),
        ]
    lines += [".SH EXIT STATUS", *_paragraphs(INTRO.partition("Exit codes: ")[2].replace("`", ""))]
    return "\n".join(lines) + "\n"


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs as click lays them out: those after a line with a backspace keep their line breaks."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        kept = paragraph.startswith("\b\n")
        lines = map(_roff, paragraph.removeprefix("\b\n").splitlines())
        yield from (".PP", *([".nf", *lines, ".fi"] if kept else lines))


def _options(context: click.Context) -> Iterator[str]:
    records = [param.get_help_record(context) for param in context.command.get_params(context)]
    for option, text in (record for record in records if record and record[1]):
        yield from (".TP", f".B {_roff(option)}", _roff(text))


def _roff(text: str) -> str:
    """Text that roff prints as it is."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq")
    return rf"\&{escaped}" if escaped.startswith((".", r"\(aq")) else escaped


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
