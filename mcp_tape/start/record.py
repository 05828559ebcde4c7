"""mcp-tape record, with the values of its options."""

from __future__ import annotations

from .. import api
from ..console import announce, report
from ..errors import MisuseError, ServerError
from ..transports.runs import named
from .values import around, check_server, completed, record_from, web_from

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from typing import Any


_IN_PRODUCTION = ("sample", "on_rotate", "hook_timeout", "otlp")


def record(command: tuple[str, ...], given: dict[str, Any]) -> int:
    """Record the server of a command or a URL; return its exit code."""
    url, quiet = given["url"], given["quiet"]
    check_server(command, given)
    given = completed(given)
    web = web_from(given)
    if given["keep"] and not (given["rotate"] or given["of_client"]):
        raise MisuseError("--keep needs --rotate")
    asked = None
    if given["bodies"] != "full" or any(given[name] for name in _IN_PRODUCTION):
        from . import production

        asked = production.asked(given)
        if production.is_left_out(asked, given):
            return production.pass_on(command, given, web)
    path, row = _rotated(given["output"] or _default_path(command, given), given)
    if not quiet and "://" not in path:  # else it is refused below
        report(f"recording to {path}")
    options = record_from(command, given)
    options = options._replace(run=named(options.run) or None, row=row, production=asked)
    if given["over_stdio"]:
        from . import remote

        code, summary = remote.record_url_over_stdio(web, path, options, was=given["was"], warn=report)
    elif url:
        code, summary = api.record_url(web, path, options, warn=report, started=announce)
    else:
        try:
            code, summary = api.record(command, path, options, around=around(given), warn=report)
        except ServerError as error:
            api.record_failure(error, path, options, report)
            raise
    from .summary import report_stripped, report_summary  # when all is over

    report_summary(summary, path, quiet, bool(asked and asked.sample))
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
        from ..record.rotation import KEPT, begun

        kept = given["keep"] or (KEPT if given["of_client"] else None)
        return begun(path, given["rotate"], kept, bool(given["on_rotate"]))
    return path, None
