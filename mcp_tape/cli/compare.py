"""Options and output that diff, breaking and verify share."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..compare.report import FORMATS
from ..compare.rules import CATEGORIES, LEVELS
from ..options import JSON_PATH, Option
from . import discard_output
from .click_options import given_as
from .output import shows_colours

if TYPE_CHECKING:
    from ..compare.judging import Comparison
    from ..compare.project import Project

F = TypeVar("F", bound=Callable[..., Any])
_LONGEST = 1_000_000  # seconds, or times as long


def finite(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """Callback of an option: refuse nan, and more than a clock can wait for."""
    if value is not None and not value <= _LONGEST:
        raise click.BadParameter(f"{value:g} is no number up to {_LONGEST:,}")
    return value


_OPTIONS = (
    click.option("--category", type=click.Choice(CATEGORIES),
                 help="wire: only what the protocol needs. call: the contract (default). model: what a model reads "
                 "counts more."),
    click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True,
                 help="For people, programs, pull requests, browsers and CI."),
    click.option("--json", "as_json", is_flag=True, help="The same as --format json."),
    given_as(Option("ignore_paths", "--ignore-path", "Leave out what changed at this place, e.g. "
                    "'$.result.structuredContent.uptime'.", "JSONPATH", multiple=True, check=JSON_PATH)),
)  # fmt: skip
_FAIL_ON = click.option("--fail-on", type=click.Choice([*LEVELS, "never"]),
                        help="Exit with 1 at changes of this level or above; default: error.")  # fmt: skip
_SLOWER = click.option("--slower-than", type=click.FloatRange(min=1), metavar="RATIO", callback=finite,
                       help="Tell of calls that take this many times as long.")  # fmt: skip


class AfterDashes(click.Command):
    """A command with words behind `--`, which it is given apart from those before."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        rest = super().parse_args(ctx, args[:at])
        ctx.params["command"] = tuple(args[at + 1 :])
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- CMD...]"]


def judging_options(function: F) -> F:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def diff_options(function: F) -> F:
    """Judging options, and those that choose the exit code."""
    return judging_options(_FAIL_ON(_SLOWER(function)))


def project_from(given: dict[str, Any]) -> Project:
    """The project's settings, overridden by the command line."""
    from ..compare.project import here, load

    chosen = {name: given.get(name) for name in ("category", "fail_on")}
    return load(here(), **chosen, ignore_paths=given["ignore_paths"])


def is_text(given: dict[str, Any]) -> bool:
    """Return whether output is for people, who want each part at once."""
    return given["form"] == "text" and not given["as_json"]


def show(
    comparison: Comparison | Sequence[Comparison], project: Project, given: dict[str, Any], file: str | None = None
) -> None:
    """Print a comparison, or several, in the format asked for."""
    from ..compare.report import render

    form = "json" if given["as_json"] else given["form"]
    width = shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 100
    fail_on = None if project.fail_on == "never" else project.fail_on
    ignores = os.path.relpath(project.ignore_path)
    text = render(comparison, form, shows_colours(), width, fail_on=fail_on, file=file, ignore_file=ignores)
    try:
        click.echo(text, nl=False, color=True)
    except BrokenPipeError:
        discard_output()  # its reader has seen enough, as with `| head`; the exit code still counts


def fails(comparison: Comparison, project: Project) -> bool:
    """Return whether a change is at or above the level that fails."""
    return project.fail_on != "never" and bool(comparison.at_least(project.fail_on))
