"""mcp-tape convert"""

from __future__ import annotations

import os

import click

from ...cassette import replace
from ...cassette.change.convert import Converted, ConvertError, convert, converted
from ...cassette.query import filters
from ...cassette.reader import Cassette
from ...console import say
from ...console.terminal import echo_json
from ...errors import count
from ...options import FORMATS
from ...transports.signals import tidied_up
from ..click_options import changed_place, files, read_places
from ..exporting import FOR_PEOPLE, FORMS, form_of
from .export import command as export

_ONE_WAY = (*FOR_PEOPLE, *FORMS)  # written by export


@click.command(
    "convert",
    epilog="\b\nExamples:\n"
    "  mcp-tape convert tape.db tape.jsonl\n"
    "  mcp-tape convert tape.jsonl tape.db --force\n"
    "  mcp-tape convert recording.log tape --to jsonl\n"
    "  mcp-tape convert tape.jsonl test_server.py\n"
    "  mcp-tape convert tape.db spans.otlp.json",
)
@click.argument("file", metavar="FILE", shell_complete=files, callback=read_places)
@click.argument("output", metavar="OUTPUT", shell_complete=files, callback=changed_place)
@click.option("--to", "form", type=click.Choice([*FORMATS, *_ONE_WAY]), help="The form of the output. Default: what "
              "its name ends in.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace the output if it is there.")
@click.option("--json", "as_json", is_flag=True, help="Say what was made as a JSON object.")
@click.pass_context
def command(ctx: click.Context, file: str, output: str, form: str | None, force: bool, as_json: bool) -> None:
    """Make a cassette of another form: SQLite (.db), or text that can be reviewed (.jsonl).

    FILE is whatever mcp-tape reads. All sessions go over, byte for byte, and come back as they were. FILE stays
    as it is.

    Or write what others read, as mcp-tape export does without options: md (.md), html (.html), har (.har), lock
    (.lock), otlp (.otlp.json), perfetto (.perfetto.json), pytest (test_*.py) and vitest (.test.ts, .test.mjs); these
    two of the newest session.
    """
    form = form or form_of(output)
    if form not in (*FORMATS, *_ONE_WAY):
        raise click.UsageError(f"what is {output} to be? Let its name end in .db or .jsonl, or add --to")
    ctx.with_resource(tidied_up())
    if form in _ONE_WAY:
        made = _exported(ctx, file, output, form, force)
    else:
        made = convert(file, output, as_text=form == "jsonl", overwrite=force)
    if as_json:
        echo_json({"file": output, "format": form, "sessions": made.sessions, "frames": made.frames})
    else:
        say(f"{output}: {count(made.sessions, 'session')}, {count(made.frames, 'frame')}")


def _exported(ctx: click.Context, file: str, output: str, form: str, force: bool) -> Converted:
    """Write what cannot be read again; the numbers of what was read for it."""
    replace.expect_room(output, force)
    if os.path.exists(output) and os.path.exists(file) and os.path.samefile(file, output):
        raise ConvertError(f"{output} is the recording itself, and {form} does not hold all of it; choose another name")
    ctx.invoke(
        export, file=file, session="all", form=form, side=None, output=output, force=force, kept=filters.parse("")
    )
    with Cassette(file) as cassette:
        return converted(cassette)
