"""Commands without a file: the newest cassettes, to choose one from."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import click

from ..cassette.query.inventory import cassettes_in, server
from ..cassette.reader import Cassette
from ..console import say
from ..console.terminal import fit, is_attended, lay_out_line, pad, pick_one
from ..errors import CassetteError, count
from ..start.cassette_names import data_cassettes
from .click_options import files, read_places

F = TypeVar("F", bound=Callable[..., Any])
_OFFERED = 10


class _Offer(NamedTuple):
    """A cassette to choose, with its summary; empty if it cannot be read."""

    path: str
    about: tuple[str, ...]
    is_readable: bool


def cassette_or_newest_argument(function: F) -> F:
    """Decorator of a command: a cassette; without one, a person chooses from the newest."""
    return click.argument("file", metavar="[FILE]", required=False, shell_complete=files, callback=_choose_cassette)(
        function
    )


def newest_cassettes() -> list[_Offer]:
    """The newest cassettes in this directory and of the clients; those that cannot be read come last."""
    places = dict.fromkeys(os.path.abspath(place) for place in (".", data_cassettes()))
    found = dict.fromkeys(path for place in places for path in cassettes_in(place))
    offered = [_offer(path) for path in sorted(found, key=_changed_at, reverse=True)[:_OFFERED]]
    return sorted(offered, key=lambda one: not one.is_readable)


def _offer(path: str) -> _Offer:
    here = os.path.relpath(path)
    shown = path if here.startswith(os.pardir) else here
    try:
        with Cassette(path) as cassette:
            numbers = [session.id for session in cassette.each_session()]
            if not numbers:
                return _Offer(shown, ("no session yet",), True)
            last = cassette.session(numbers[-1])
            calls = sum(counts.exchanges for counts in cassette.counts_of(numbers[0], numbers[-1]).values())
    except CassetteError:
        return _Offer(shown, ("cannot be read",), False)
    when = str(last.started_at)[:16].replace("T", " ")
    several = f"{len(numbers)} sessions" if numbers[1:] else ""
    return _Offer(shown, (when, pad(fit(server(last), 24), 24), pad(count(calls, "exchange"), 13), several), True)


def _changed_at(path: str) -> float:
    """Return when a cassette was last written, perhaps only in its journal."""
    times = [os.path.getmtime(one) for one in (path, f"{path}-wal") if os.path.exists(one)]
    return max(times, default=0.0)


def _parts(offer: _Offer) -> list[str]:
    return [*offer.about, offer.path]


def _choose_cassette(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    if value is not None or ctx.resilient_parsing:
        return read_places(ctx, param, value) or ""
    offered = newest_cassettes()
    if not offered:
        raise click.UsageError("which cassette? There is none here yet; to make one: mcp-tape record -o FILE -- SERVER")
    if len(offered) == 1:
        say(f"the only cassette: {offered[0].path}")
        return offered[0].path
    if not is_attended():
        newest_ones = "\n".join(f"  {lay_out_line(_parts(one))}" for one in offered)
        raise click.UsageError(f"which cassette? The newest are:\n{newest_ones}")
    return offered[pick_one([(_parts(offer), None if offer.is_readable else "red") for offer in offered])].path
