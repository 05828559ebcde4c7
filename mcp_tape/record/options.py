"""How to record: what a writer is told. Without the writer and the relay, as most uses of a cassette record nothing."""

from __future__ import annotations

from ..light import NamedTuple
from ..wire.channels import STDIO

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from typing import Any

    from .production.settings import Production
    from .rotation import Row


class Options(NamedTuple):
    target: dict[str, Any]
    transport: str = STDIO
    note: str | None = None
    run: str | None = None
    label: str | None = None  # of the server, where a cassette has several
    extends: int | None = None  # the session that this one adds to
    extends_modern: int | None = None  # another, for clients of the modern era
    when_needed: bool = False  # no session before there is something to record
    new_times: bool = False  # mode rewrite replaces what says the same, too
    redact: bool = True
    redact_keys: tuple[str, ...] = ()
    redact_paths: tuple[str, ...] = ()
    redact_values: tuple[str, ...] = ()
    redact_with: tuple[str, ...] = ()  # functions, as module:function
    max_decoded: int | None = None  # bytes that a compressed body may decompress to
    headers: tuple[tuple[str, str], ...] = ()  # that we send ourselves: what they say is a secret
    row: Row | None = None  # of cassettes, in the next of which it goes on when one is full
    known: tuple[tuple[str, str], ...] = ()  # variables that are not in our environment, to be hidden as ours are
    manner: str = ""  # options that say how it was recorded, behind the recorder's name
    production: Production | None = None
