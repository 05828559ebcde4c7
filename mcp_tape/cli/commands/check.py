"""mcp-tape check"""

from __future__ import annotations

from typing import Any

import click

from ...cassette.check import Finding, check
from ...cassette.reader import Cassette
from ...errors import CassetteError, count, harmless
from ...options import KNOWN, REDACT
from .. import has_found, say
from ..click_options import files, given_as, json_option
from ..output import Progress, echo, echo_json, frames_of, writable
from .redact import redactor


@click.command(
    "check",
    epilog="\b\nExamples:\n"
    "  mcp-tape check cassettes/*.db\n"
    "  mcp-tape check tape.db --redact-value 'C-[0-9]+'\n"
    "  mcp-tape check tape.db --json",
)
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, shell_complete=files)
@given_as(*REDACT, *KNOWN)
@json_option
def command(paths: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Find what is wrong with cassettes: one line for each finding, and exit code 1 if there is any.

    Looked at are the file (damage, missing pages), the schema (what is missing, what is foreign), sessions that
    are open or incomplete, rows of messages that do not fit the frames, and values that look like secrets,
    by the rules of recording and with this environment's values. A secret's place is told, never the secret.

    Exit code 3: a file is no cassette, or cannot be read.
    """
    found = unreadable = 0
    for path in paths:
        try:
            found += _check(path, given, as_json)
        except CassetteError as error:
            unreadable += 1
            has_found(error.exit_code)
            _print(path, Finding("file", str(error)), as_json)
    if not as_json:
        also = f", {unreadable} unreadable" if unreadable else ""
        say(f"{count(len(paths), 'file')}, {count(found, 'finding')}{also}")
    raise SystemExit(CassetteError.exit_code if unreadable else 1 if found else 0)


def _check(path: str, given: dict[str, Any], as_json: bool) -> int:
    with Cassette(path) as cassette, Progress(f"checking {path}", 2 * frames_of(cassette)) as progress:
        findings = 0
        for finding in check(cassette, redactor(given), progress):
            findings += 1
            has_found(1)
            progress.hide()
            _print(path, finding, as_json)
    return findings


def _print(path: str, finding: Finding, as_json: bool) -> None:
    if as_json:
        echo_json({"file": path} | finding._asdict())
        return
    place = "".join((
        "" if finding.session is None else f" session {finding.session}",
        "" if finding.seq is None else f" #{finding.seq}",
        "" if finding.path is None else f" {finding.path}",
    ))  # fmt: skip
    message = finding.message.removeprefix(f"{path} ")
    echo(writable(harmless(f"{path}:{place}: {message}" if place else f"{path}: {message}")), fg="red")
