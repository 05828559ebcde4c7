"""mcp-tape record, with the values of its options."""

from __future__ import annotations

from .. import api
from ..console import announce, report
from ..errors import MisuseError, ServerError
from ..options import IN_PRODUCTION, is_given
from ..transports.runs import run_name
from .server_values import around_from, check_server, complete_values, record_from, web_from

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from ..options import OptionValues
    from ..record.rotation import CassetteSeries


def record(command: tuple[str, ...], values: OptionValues) -> int:
    """Record the server of a command or a URL; return its exit code."""
    quiet = values.quiet
    check_server(command, values)
    values, missing = complete_values(values)
    web = web_from(values)
    if values.keep and not (values.rotate or values.of_client):
        raise MisuseError("--keep needs --rotate")
    asked = None
    if any(is_given(option, values) for option in IN_PRODUCTION):
        from . import production

        asked = production.production_from(values)
        if production.is_left_out(asked, values):
            return production.pass_on(command, values, missing, web)
    path, row = _rotation_target(values.output or _default_path(command, values), values)
    if not quiet and "://" not in path:  # a URL is refused below
        report(f"recording to {path}")
    options = record_from(command, values)
    options = options._replace(run=run_name(options.run) or None, series=row, production=asked)
    if values.over_stdio:
        from . import url_over_stdio

        code, summary = url_over_stdio.record_url_over_stdio(web, path, options, was=values.was, warn=report)
    elif values.url:
        code, summary = api.record_url(web, path, options, warn=report, started=announce)
    else:
        try:
            code, summary = api.record(command, path, options, around=around_from(values, missing), warn=report)
        except ServerError as error:
            api.record_failure(error, path, options, report)
            raise
    from .end_report import report_stripped_environment, report_summary  # late, for a fast start

    report_summary(summary, path, quiet, bool(asked and asked.sample))
    report_stripped_environment(options, quiet)
    return code


def _default_path(command: tuple[str, ...], values: OptionValues) -> str:
    from .cassette_names import default_path, default_path_of_url, path_for

    if values.of_client:
        return path_for(values.of_client)
    return default_path_of_url(values.url) if values.url else default_path(command)


def _rotation_target(path: str, values: OptionValues) -> tuple[str, CassetteSeries | None]:
    """The cassette to record into, and its series, if any."""
    if values.rotate or values.of_client:
        from ..record.rotation import KEPT, begin_series

        kept = values.keep or (KEPT if values.of_client else None)
        return begin_series(path, values.rotate, kept, bool(values.on_rotate))
    return path, None
