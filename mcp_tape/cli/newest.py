"""Commands without a file: the newest cassettes, to choose one from."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..cassette.query.sessions import cassettes_in
from ..start.names import data_cassettes
from .click_options import files, read_places
from .output import clip, columns, echo, writable

F = TypeVar("F", bound=Callable[..., Any])
_OFFERED = 10


def cassette_or_newest_argument(function: F) -> F:
    """Decorator of a command: a cassette; without one, a person chooses from the newest."""
    return click.argument("file", metavar="[FILE]", required=False, shell_complete=files, callback=_chosen)(function)


def newest() -> list[str]:
    """The cassettes in this directory and of the clients, as ls lists them, newest first."""
    places = dict.fromkeys(os.path.abspath(place) for place in (".", data_cassettes()))
    found = dict.fromkeys(path for place in places for path in cassettes_in(place))
    return sorted(found, key=_changed, reverse=True)[:_OFFERED]


def _changed(path: str) -> float:
    """When a cassette was written to; that may be in its journal only."""
    times = [os.path.getmtime(one) for one in (path, f"{path}-wal") if os.path.exists(one)]
    return max(times, default=0.0)


def _chosen(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    if value is not None or ctx.resilient_parsing:
        return read_places(ctx, param, value) or ""
    offered = newest()
    if not offered:
        raise click.UsageError("which cassette? There is none here yet; to make one: mcp-tape record -o FILE -- SERVER")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("which cassette? The newest are:\n" + "\n".join(f"  {path}" for path in offered))
    for number, path in enumerate(offered, 1):
        echo(writable(clip(f"{number:>3}  {path}", columns())))
    number = click.prompt("Which?", type=click.IntRange(1, len(offered)), default=1)
    return offered[number - 1]
