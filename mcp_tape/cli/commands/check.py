"""mcp-tape check"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import click

from ...cassette.query.check import Finding, check
from ...cassette.reader import Cassette
from ...contracts.terms import Limit, Term, Terms, limit, term
from ...errors import CassetteError, count, harmless
from ...options import KNOWN, REDACT
from ...start.outcome import say
from ...values import check_session, parse_duration, parse_size
from .. import has_found
from ..click_options import files, given_as, json_option, read_by
from ..filter import each
from ..output import Progress, echo, echo_json, frames_of, writable
from .redact import redactor


def _session(text: str) -> str:
    check_session(text)
    return text


@click.command(
    "check",
    epilog="\b\nExamples:\n"
    "  mcp-tape check cassettes/*.db\n"
    "  mcp-tape check tape.db --redact-value 'C-[0-9]+'\n"
    "  mcp-tape check tape.db --expect tool:search --forbid 'tool:delete_*'\n"
    "  mcp-tape check tape.db --max 'tools/call<=20' --max-duration 2s\n"
    "  mcp-tape check tape.db --audit --json",
)
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, shell_complete=files)
@click.option(
    "--expect", metavar="FILTER", multiple=True, callback=each(term), help="Something must fit this; may be repeated."
)
@click.option(
    "--forbid", metavar="FILTER", multiple=True, callback=each(term), help="Nothing may fit this; may be repeated."
)
@click.option(
    "--max",
    "limits",
    metavar="'FILTER<=N'",
    multiple=True,
    callback=each(limit),
    help="At most so many calls of the client may fit this; may be repeated.",
)
@click.option(
    "--max-duration",
    "duration",
    metavar="TIME",
    callback=read_by(parse_duration),
    help="How long each call may take: 500ms, 2s.",
)
@click.option(
    "--max-definition-bytes",
    "definitions",
    metavar="SIZE",
    callback=read_by(parse_size),
    help="How large the definitions of all tools may be together: 40k.",
)
@click.option("--audit", "audited", is_flag=True, help="Also find text of the server that tries to steer a model.")
@click.option(
    "--session",
    metavar="N|latest|all",
    callback=read_by(_session),
    help="Whose run the contract and --audit are about; default: all of them, as one run.",
)
@given_as(*REDACT, *KNOWN)
@json_option
def command(
    paths: tuple[str, ...],
    expect: tuple[Term, ...],
    forbid: tuple[Term, ...],
    limits: tuple[Limit, ...],
    duration: int | None,
    definitions: int | None,
    audited: bool,
    session: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Find what is wrong with cassettes: one line for each finding, and exit code 1 if there is any.

    It looks for a damaged or truncated file, a schema with parts missing or added, sessions that are open or
    incomplete, messages that do not match their frames, and values that look like secrets, by the rules of
    recording and the values in this environment. Secrets are reported by their place, never by their value.

    A contract says what a run must do: --expect, --forbid, --max, --max-duration, --max-definition-bytes. What
    breaks it is a finding. Filters are those of mcp-tape show; a bare word with a slash is a method.

    --audit searches what the server said to the model, in descriptions and results, for orders (ignore your
    instructions, do not tell the user), invisible characters, names that look like others, and links that
    carry data out.

    Exit code 3: a file is not a cassette, or cannot be read.
    """
    terms = Terms(expect, forbid, limits, duration, definitions)
    if session is not None and terms == Terms() and not audited:
        raise click.UsageError("--session is for contracts and --audit: all else is checked in the whole file")
    found = unreadable = 0
    for path in paths:
        try:
            found += _check(path, Run(session or "all", terms, audited), given, as_json)
        except CassetteError as error:
            unreadable += 1
            has_found(error.exit_code)
            _print(path, Finding("file", str(error)), as_json)
    if not as_json:
        also = f", {unreadable} unreadable" if unreadable else ""
        say(f"{count(len(paths), 'file')}, {count(found, 'finding')}{also}")
    raise SystemExit(CassetteError.exit_code if unreadable else 1 if found else 0)


class Run(NamedTuple):
    """The sessions that are one run, and what to check of it."""

    session: str
    terms: Terms
    audited: bool


def _check(path: str, run: Run, given: dict[str, Any], as_json: bool) -> int:
    with Cassette(path) as cassette, Progress(f"checking {path}", 2 * frames_of(cassette)) as progress:
        findings = 0
        for finding in _findings(cassette, run, check(cassette, redactor(given), progress)):
            findings += 1
            has_found(1)
            progress.hide()
            _print(path, finding, as_json)
    return findings


def _findings(cassette: Cassette, run: Run, found: Iterable[Finding]) -> Iterator[Finding]:
    """All findings. Of a damaged file nobody knows what else is on it."""
    damaged = False
    for finding in found:
        damaged = damaged or finding.what == "file"
        yield finding
    if damaged or (run.terms == Terms() and not run.audited):
        return
    from ...contracts import audit  # only where they are asked for
    from ...contracts import run as contracts

    sessions = contracts.sessions_of(cassette, run.session)
    for broken in contracts.check(cassette, sessions, run.terms):
        yield Finding("contract", f"{broken.term}: {broken.why}", broken.session, broken.seq)
    for one in audit.audit(cassette, sessions) if run.audited else ():
        yield Finding("audit", f"{one.why} [{one.rule}]", one.session, one.seq, one.path)


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
    colour = "yellow" if finding.what == "audit" else "red"
    echo(writable(harmless(f"{path}:{place}: {message}" if place else f"{path}: {message}")), fg=colour)
