"""mcp-tape record in production: its options, and sessions outside the sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..console import report
from ..errors import MisuseError
from ..record.production.production_options import HOOK_TIMEOUT, Production
from ..record.production.sampling import draw_sample, parse_share
from ..wire.channels import STDIO
from .server_values import around_from

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..api import Web
    from ..options import OptionValues
    from ..telemetry.live_spans import LiveSpans


def production_from(values: OptionValues) -> Production:
    """The options of recording in production. Refuse contradictory ones."""
    if values.on_rotate and not (values.rotate or values.of_client):
        raise MisuseError("--on-rotate needs --rotate: a cassette that was handed on is not written again")
    if values.hook_timeout and not values.on_rotate:
        raise MisuseError("--hook-timeout needs --on-rotate")
    words: tuple[str, ...] = ()
    if values.on_rotate:
        from ..record.production.hooks import parse

        words = parse(values.on_rotate)
    return Production(
        draw_sample(parse_share(values.sample), values.sample_seed) if values.sample else None,
        values.bodies,
        words,
        values.hook_timeout or HOOK_TIMEOUT,
        _spans_to(values.otlp) if values.otlp else None,
        values.quiet,
    )


def _spans_to(url: str) -> Callable[[Callable[[str], None]], LiveSpans]:
    def open_spans(warn: Callable[[str], None]) -> LiveSpans:
        from ..telemetry.live_spans import LiveSpans  # in the recording process

        return LiveSpans(url, warn)

    return open_spans


def is_left_out(asked: Production, values: OptionValues) -> bool:
    """Return whether this is a stdio server, with a single session, which is not in the sample."""
    is_one = not values.url or values.over_stdio
    return bool(is_one and asked.sample and not asked.sample.takes(STDIO))


def pass_on(command: tuple[str, ...], values: OptionValues, missing: tuple[str, ...], web: Web) -> int:
    """Run a session without recording it, by becoming its server. Returns only for a URL."""
    if not values.quiet:
        report("not in the sample: passed on, and not recorded")
    if values.over_stdio:
        from .url_over_stdio import pass_on_over_stdio

        return pass_on_over_stdio(web, values.was, warn=report)
    from ..transports.exec_server import become

    return become(command, around_from(values, missing))
