"""Options that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click
import orjson

F = TypeVar("F", bound=Callable[..., Any])


def cassette_argument(function: F) -> F:
    return click.argument("file", metavar="FILE")(function)


def session_option(function: F) -> F:
    return click.option("--session", type=int, metavar="N", help="Which session; default: the newest.")(function)


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")(function)


def echo_json(value: Any) -> None:
    """One JSON object on its own line."""
    click.echo(orjson.dumps(value))


def clip(text: str, width: int) -> str:
    """One line of text, cut to a width, with what a terminal would act on made visible."""
    text = "".join(c if c.isprintable() else "\N{MIDDLE DOT}" for c in text)
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def on_terminal() -> bool:
    return sys.stdout.isatty()
