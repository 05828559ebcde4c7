"""mcp-tape redact"""

from __future__ import annotations

import sys
from typing import Any

import click

from ...cassette import file as database
from ...cassette.change.redact import Hidden, hide, would_hide
from ...cassette.reader import Cassette
from ...errors import count, harmless
from ...options import KNOWN, REDACT
from ...redaction import diagnostics
from ...redaction.redactor import Redactor
from ...start.outcome import say
from ...start.values import rules_from
from ...transports.signals import tidied_up
from ...wire.secret_names import placeholder
from ..click_options import cassette_argument, given_as, json_option
from ..output import Progress, echo_json, frames_of


@click.command(
    "redact",
    epilog="\b\nExamples:\n"
    "  mcp-tape redact tape.db --dry-run\n"
    "  mcp-tape redact tape.db --redact-key pin --redact-value 'C-[0-9]+'\n"
    "  mcp-tape redact tape.db --env-file .env\n"
    "  mcp-tape check tape.db",
)
@cassette_argument
@given_as(*REDACT, *KNOWN)
@click.option("--dry-run", is_flag=True, help="Only say what would be hidden.")
@json_option
def command(file: str, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Hide secrets on an existing cassette, such as one recorded with --no-redact or fewer rules.

    It uses the rules of recording, the options, and the values in this environment. A value found under a
    secret key is hidden everywhere on the cassette, even before that. Placeholders are those of recording,
    and requests still match. The file is rewritten, so no page of it holds what was hidden; backups, copies
    and git's history still do. While the cassette is being recorded, new messages are hidden by the
    recorder's own rules, so run it again at the end.
    """
    click.get_current_context().with_resource(tidied_up())
    with Cassette(file) as cassette:
        total = 2 * frames_of(cassette)
    with Progress(f"redacting {file}", total) as progress:
        rules = redactor(given)
        hidden = would_hide(file, rules, progress) if dry_run else _hidden(file, rules, progress)
    if as_json:
        facts = {"frames": hidden.frames, "hidden": dict(hidden.kinds), "dry_run": dry_run, "recorded": hidden.recorded}
        echo_json({"file": file} | facts)
        return
    for kind, number in sorted(hidden.kinds.items()):
        click.echo(f"{number:>7}  {placeholder(harmless(kind))}")
    say(_summary(file, hidden, dry_run))
    if hidden.recorded:
        say("it is still being recorded, by the recorder's own rules: run this again when that has ended")


def _hidden(file: str, rules: Redactor, progress: Progress) -> Hidden:
    try:
        return hide(file, rules, progress)
    except (KeyboardInterrupt, SystemExit):
        if database.header_says_wal(file):  # it was in use, and is changed in its place
            progress.hide()
            say(f"stopped: some of it is hidden in {file}, but may still be in the file; run this again to finish it")
        raise


def _summary(file: str, hidden: Hidden, dry_run: bool) -> str:
    values = hidden.kinds.total()
    if not values:
        return f"nothing to hide in {file}"
    verb = "would be hidden" if dry_run else "hidden"
    return f"{count(values, 'value')} {verb} in {file}, in {count(hidden.frames, 'frame')}"


def redactor(given: dict[str, Any]) -> Redactor:
    """A redactor with the rules of recording and those given. It remembers all it sees, as nobody waits for it."""
    return diagnostics.redactor(rules_from(given), most_seen=sys.maxsize)
