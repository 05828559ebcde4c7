"""mcp-tape record --url URL --stdio: a stdio server in front of one at a URL."""

from __future__ import annotations

from .. import api
from ..cassette import schema
from ..errors import ServerError
from ..transports import signals
from ..transports.http.addresses import is_sse_url
from ..wire.channels import SSE, STDIO

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..api import Web
    from ..record.recorder import RecordingSummary, Taker
    from ..record.recording_options import RecordingOptions


def record_url_over_stdio(
    web: Web, path: str, options: RecordingOptions, *, was: str | None, warn: Callable[[str], None]
) -> tuple[int, RecordingSummary]:
    """Run a recorded stdio server that forwards to one at a URL. Return the exit code and a summary.

    `was`: the client's original entry, which may name HTTP+SSE even if the URL does not look like it.
    """
    path = schema.absolute(path)
    api.check_writable(path)
    return _relay(web, api.start_recorder(path, options, warn), was, warn)


def pass_on_over_stdio(web: Web, was: str | None, *, warn: Callable[[str], None]) -> int:
    """Run an unrecorded stdio server that forwards to one at a URL. Return the exit code."""
    from ..record.production.sampling import NoRecorder

    return _relay(web, NoRecorder(), was, warn)[0]


def _relay(web: Web, recorder: Taker, was: str | None, warn: Callable[[str], None]) -> tuple[int, RecordingSummary]:
    # Imported after the recorder has started, as these may start a thread.
    from ..transports.http.connect import HttpConnection
    from ..transports.stdio.url_relay import relay_url

    code, sse = 0, (was or "").endswith(f",{SSE}") or is_sse_url(web.url)
    try:
        with HttpConnection(web.url, web.headers, web.cacert, sse=sse, again=True) as server:
            signals.run_until_stopped(lambda: relay_url(server, recorder, warn), recorder.record_signal)
            for reason in dict.fromkeys(server.made_up.values()):
                warn(reason)
            code = ServerError.exit_code if server.ended or server.made_up else 0
    except ServerError as error:
        warn(str(error))
        recorder.control("server", STDIO, event="failed", why=str(error))
        code = error.exit_code
    recorder.control("server", STDIO, event="exit", code=code)
    return code, recorder.close()
