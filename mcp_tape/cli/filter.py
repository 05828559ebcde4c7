"""The option --filter, and the message for a filter that does not parse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..cassette.query.filters import EVERYTHING, Filter, FilterError, parse
from ..console.terminal import display_width
from ..errors import replace_control_characters

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def filter_option(function: F) -> F:
    """`--filter TEXT`, given to the command as `kept`."""
    return click.option(
        "--filter", "kept", metavar="FILTER", default="", callback=_parse_filter,
        help="Only messages that match, e.g. 'tool:search status:error -method:ping dur:>50'.",
    )(function)  # fmt: skip


def _parse_filter(ctx: click.Context, param: click.Parameter, value: str) -> Filter:
    try:
        return parse(value) if value else EVERYTHING
    except FilterError as error:
        raise click.BadParameter(point_at_error(value, error)) from None


def each(make: Callable[[str], T]) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], tuple[T, ...]]:
    """A callback for an option that may be repeated, each time with something that has a filter."""

    def parse_one(text: str) -> T:
        try:
            return make(text)
        except FilterError as error:
            raise click.BadParameter(point_at_error(text, error)) from None

    return lambda ctx, param, values: tuple(map(parse_one, values))


def point_at_error(text: str, error: FilterError) -> str:
    """Return the message for a filter that does not parse, with a mark at the place."""
    start = max(0, error.position - 60)  # a long filter is cut around the place
    shown = "".join(" " if c.isspace() else replace_control_characters(c) for c in text[start : error.position + 20])
    return f"{error}\n  {shown}\n  {' ' * display_width(shown[: error.position - start])}^"
