"""mcp-tape record, with the values of its options."""

from __future__ import annotations

import os

from .. import api
from ..errors import count
from ..transports.runs import named
from ..wire.channels import SSE
from .outcome import MisuseError, echo, say
from .values import around, check_server, completed, record_from, web_from

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from typing import Any

    from ..record.options import Options
    from ..record.recorder import Summary


def record(command: tuple[str, ...], given: dict[str, Any]) -> int:
    """Record the server of a command or a URL; return its exit code."""
    url, quiet = given["url"], given["quiet"]
    check_server(command, given)
    given = completed(given)
    path, row = _rotated(given["output"] or _default_path(command, given), given)
    web = web_from(given)
    if not quiet:
        report(f"recording to {path}")
    options = record_from(command, given)
    options = options._replace(run=named(options.run) or None, row=row)
    if given["over_stdio"]:
        is_sse = (given["was"] or "").endswith(f",{SSE}")  # the type that a client knew
        code, summary = api.record_url_over_stdio(web, path, options, sse=is_sse, warn=report)
    elif url:
        code, summary = api.record_url(web, path, options, warn=report, started=echo)
    else:
        code, summary = api.record(command, path, options, around=around(given), warn=report)
    report_summary(summary, path, quiet)
    report_stripped(options, quiet)
    return code


def _default_path(command: tuple[str, ...], given: dict[str, Any]) -> str:
    from .names import default_path, default_path_of, path_for

    if given["of_client"]:
        return path_for(given["of_client"])
    return default_path_of(given["url"]) if given["url"] else default_path(command)


def _rotated(path: str, given: dict[str, Any]) -> tuple[str, Any]:
    """The cassette to record into, and the row of those that follow it, if it is in one."""
    if given["rotate"] or given["of_client"]:
        from ..record.rotation import begun

        return begun(path, given["rotate"], given["keep"])
    if given["keep"]:
        raise MisuseError("--keep goes with --rotate")
    return path, None


def report(text: str) -> None:
    """Print a line unless stderr is full, as its reader never reads it: that must not stop the traffic."""
    from ..transports.stdio.relay import has_room

    if has_room(2):
        say(text)


def report_summary(summary: Summary, path: str, quiet: bool) -> None:
    """Report what was recorded, in one line; even when quiet, if it is incomplete."""
    if summary.incomplete:
        report(f"INCOMPLETE: {summary.incomplete}")
    if not quiet or summary.incomplete:
        if summary.incomplete and not summary.sessions:
            report(f"nothing was recorded: {path}")
            return
        recorded = f"{count(summary.frames, 'frame')}, {count(summary.exchanges, 'exchange')}"
        more = f"{summary.still_open} still open, {summary.redactions} redacted"
        if summary.cassettes:
            from ..record.rotation import last_of

            path = last_of(path, summary.cassettes)
        report(f"{recorded}, {more}: {path} ({_sessions(summary.sessions)})")


def report_stripped(options: Options, quiet: bool) -> None:
    """Report that the client kept its environment, and so its secrets, from us."""
    from ..redaction.environment import looks_stripped

    if not quiet and options.redact and not options.known and looks_stripped(os.environ):
        names = ", ".join(sorted(os.environ)) or "no variables"
        report(
            f"the client has passed on {names}: secrets of its other variables were not known, so they are not hidden"
        )
        report("to hide them: --redact-env-from parents, or --env-file FILE")


def _sessions(numbers: list[int]) -> str:
    if not numbers:
        return "no session: no client came"
    return f"session {numbers[0]}" if len(numbers) == 1 else f"sessions {numbers[0]} to {numbers[-1]}"
