"""How commands print: lines for people, coloured only where they can see colours, and JSON for machines."""

from __future__ import annotations

import os
import sys
from typing import Any

import click


def echo_json(value: dict[str, Any]) -> None:
    """One JSON object on its own line."""
    from ..formats.jsonl import line

    click.echo(line(value), nl=False)


def echo(text: str, **style: Any) -> None:
    """A line for people, coloured only where they can see colours."""
    click.secho(text, color=shows_colours(), **style)


def echo_one_of_many(text: str, **style: Any) -> None:
    """The same; into a pipe without a flush: it may be one of millions."""
    if sys.stdout.isatty():
        echo(text, **style)
    else:
        sys.stdout.write(text + "\n")


def shows_colours() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def clip(text: str, width: int) -> str:
    """One line of text, cut to a width, with what a terminal would act on made visible."""
    short = text if len(text) <= width else text[: max(0, width - 1)] + "…"
    return short if short.isprintable() else "".join(c if c.isprintable() else "\N{MIDDLE DOT}" for c in short)


def count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
