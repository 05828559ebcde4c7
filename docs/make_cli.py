"""Write docs/cli.md from the help texts: python docs/make_cli.py"""

from __future__ import annotations

from pathlib import Path

import click

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
that is there is replaced without `--force`.

Exit codes: 0 clean; 1 findings; 2 wrong usage; 3 the cassette cannot be read or written; 4 the server could not be
started. `record` returns the server's own code, 128 + n for signal n.
"""


def page() -> str:
    """The whole text of the page."""
    top = click.Context(cli, info_name="mcp-tape", terminal_width=80)
    parts = [INTRO, _section("mcp-tape", cli, top)]
    for name in cli.list_commands(top):
        command = cli.get_command(top, name)
        if command is not None and not command.hidden:
            context = click.Context(command, info_name=name, parent=top, terminal_width=80)
            parts.append(_section(f"mcp-tape {name}", command, context))
    return "\n".join(parts)


def _section(title: str, command: click.Command, context: click.Context) -> str:
    context.help_option_names = ["-h", "--help"]
    return f"## {title}\n\n```text\n{command.get_help(context)}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
