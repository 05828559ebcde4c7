"""Options that name secrets which are not in our own environment: in files, of other processes, of a test."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from ..redaction.environment import Pairs

F = TypeVar("F", bound=Callable[..., Any])


def _of_files(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> Pairs:
    if not values:
        return ()
    from ..redaction.environment import from_file  # only where the option is used

    return tuple(pair for value in values for pair in from_file(value))


def _of_processes(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> Pairs:
    for value in values:
        if value != "parents" and not re.fullmatch(r"pid:\d+", value):
            raise click.BadParameter(f"{value!r} is neither parents nor pid:N, as in pid:4711")
    if not values:
        return ()
    from ..redaction.environment import from_process

    return tuple(pair for value in values for pair in from_process(value))


def _of_test(ctx: click.Context, param: click.Parameter, value: str | None) -> Pairs:
    if value is None:
        return ()
    from ..transports.handover import received

    return received(value)


def known(given: dict[str, Any]) -> Pairs:
    """The variables of others, whose values are to be hidden."""
    return tuple(pair for name in ("of_files", "of_processes", "of_test") for pair in given.get(name, ()))


KNOWN = (
    click.option("--env-file", "of_files", metavar="FILE", multiple=True, callback=_of_files,
                 help="Hide the values of secret variables in this .env file too."),
    click.option("--redact-env-from", "of_processes", metavar="WHO", multiple=True, callback=_of_processes,
                 help="Hide the values of secret variables of other processes too: parents (those that started "
                 "mcp-tape) or pid:N. Linux only."),
)  # fmt: skip
OF_TEST = (
    click.option("--secrets-from", "of_test", metavar="SOCKET", hidden=True, callback=_of_test,
                 help="Where a test tells what to hide."),
)  # fmt: skip


def known_options(function: F) -> F:
    """Where secrets are known from, besides our own environment."""
    for option in reversed(KNOWN):
        function = option(function)
    return function
