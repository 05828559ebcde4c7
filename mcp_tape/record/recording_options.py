"""The options of a recording. Separate from the writer and the relay, since most uses of a cassette record nothing."""

from __future__ import annotations

from ..light import NamedTuple
from ..wire.channels import STDIO

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from typing import Any

    from .production.production_options import Production
    from .rotation import CassetteSeries


class RecordingOptions(NamedTuple):
    target: dict[str, Any]
    transport: str = STDIO
    note: str | None = None
    run: str | None = None
    label: str | None = None  # of the server, if a cassette has several
    extends: int | None = None  # the session that this one extends
    extends_modern: int | None = None  # another, for clients of the modern era
    when_needed: bool = False  # create no session before there is something to record
    new_times: bool = False  # mode rewrite also replaces recordings that differ only in their times
    redact: bool = True
    redact_keys: tuple[str, ...] = ()
    redact_paths: tuple[str, ...] = ()
    redact_values: tuple[str, ...] = ()
    redact_with: tuple[str, ...] = ()  # functions, as module:function
    max_decoded: int | None = None  # maximum size of a decompressed body, in bytes
    headers: tuple[tuple[str, str], ...] = ()  # headers that we send ourselves; their values are secrets
    series: CassetteSeries | None = None  # the series of cassettes, with --rotate
    known: tuple[tuple[str, str], ...] = ()  # variables outside our environment, hidden like ours
    manner: str = ""  # options in effect, appended to the recorder's name
    production: Production | None = None
