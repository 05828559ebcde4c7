"""Options of the command line: click's, made from the table."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from ..cassette.schema import expect_local, is_url
from ..errors import MisuseError
from ..options import Option, OptionValues

F = TypeVar("F", bound=Callable[..., Any])


class SectionedCommand(click.Command):
    """A command whose help lists its options under headings; options without a heading come last."""

    def __init__(self, *arguments: Any, sections: Mapping[str, str] | None = None, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.sections = sections or {}  # heading -> flags, in this order

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        left = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                left[parameter.opts[-1]] = record
        for heading, flags in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl([left.pop(flag) for flag in flags.split()])
        with formatter.section("Other options" if self.sections else "Options"):
            formatter.write_dl([*left.values()])


class DestinationCommand(click.Command):
    """A command whose last argument is the destination. Click takes a lone argument for it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, list(args))
        except click.MissingParameter:
            *_, last = (one for one in self.params if isinstance(one, click.Argument))
            alone = self.make_parser(ctx).parse_args(list(args))[0].get(last.name)
            if not alone:
                raise
            from ..redaction.diagnostics import hide_secrets  # only where something went wrong

            usage = " ".join(self.collect_usage_pieces(ctx)).removeprefix("[OPTIONS] ")
            hint = f"the last argument is {last.metavar}: mcp-tape {self.name} {usage}"
            raise click.UsageError(f"only {hide_secrets(alone)} was given; {hint}", ctx) from None


SECRETS = (
    "--redact-key --redact-path --redact-value --redact-with --env-file --redact-env-from --max-decoded --no-redact"
)


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """Let a shell complete a word to files."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def read_places(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """A callback of cassettes to read: a URL is replaced by its display name, without its signature."""
    return tuple(map(read_place, value)) if isinstance(value, tuple) else value and read_place(value)


def read_place(place: str) -> str:
    """Return a path, or the display name of a URL after copying it: child processes get only that name."""
    if not is_url(place):
        return place
    from ..fleet.cache import local, safe_name  # only where it is remote

    name = safe_name(place)
    if name != place:
        local(name)
    return name


def changed_place(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """A callback of a cassette to change, which must be on this machine."""
    if value:
        expect_local(value)
    return value


def cassette_argument(function: F) -> F:
    return click.argument("file", metavar="FILE", shell_complete=files, callback=read_places)(function)


def changed_cassette_argument(function: F) -> F:
    return click.argument("file", metavar="FILE", shell_complete=files, callback=changed_place)(function)


def cassettes_argument(function: F) -> F:
    """An argument of many cassettes, `paths`: files, directories, quoted patterns and URLs, the same everywhere."""
    return click.argument(
        "paths", metavar="CASSETTE...", nargs=-1, required=True, shell_complete=files, callback=expand_cassettes
    )(function)


def expand_cassettes(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> list[str]:
    """A callback that replaces places by their cassettes."""
    from ..fleet.cassette_paths import cassettes

    return [] if ctx.resilient_parsing else cassettes(map(read_place, value))


def session_option(function: F) -> F:
    return click.option("--session", type=int, metavar="N", help="The number of a session. Default: the newest.")(
        function
    )


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")(function)


def format_option(function: F) -> F:
    """`--format` of a command with findings, and its short form `--json`."""
    form = click.option(
        "--format",
        "form",
        type=click.Choice(("text", "json", "junit")),
        default="text",
        show_default=True,
        help="The format of the report; --json is the same as --format json.",
    )
    return form(json_option(function))


def many_options(function: F) -> F:
    """Options of a command that takes many cassettes: `jobs`, a number, and `shard`, a share of them or None."""
    from ..fleet.jobs import parse_jobs
    from ..fleet.shards import parse_shard

    jobs = click.option(
        "--jobs",
        metavar="N",
        default="1",
        show_default=True,
        callback=option_reader(parse_jobs),
        help="Work with N processes; auto: one for each core.",
    )
    shard = click.option(
        "--shard",
        metavar="I/N",
        callback=option_reader(parse_shard),
        help="Take only the I-th of N shares of the cassettes. Shares are by content: the same on every machine.",
    )
    return jobs(shard(function))


class WholeNumber(click.IntRange):
    """A whole number with a minimum."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not a whole number of {self.min} or more", param, ctx)


class Number(click.FloatRange):
    """A number with a minimum, which it may have to exceed (`min_open`)."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            limit = f"above {self.min}" if self.min_open else f"of {self.min} or more"
            self.fail(f"{value!r} is not a number {limit}, e.g. 1.5", param, ctx)


SECONDS = Number(min=0, min_open=True)
_TYPES: dict[str, Any] = {
    "integer": int,
    "number": Number(min=0),
    "seconds": SECONDS,
    "file": click.Path(exists=True, dir_okay=False),
}


def table_options(*rows: Option) -> Callable[[F], F]:
    """Decorator of a command: rows of the table as its options, in this order.

    The command gets all their values as one argument, `values`.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def collect_values(*arguments: Any, values: OptionValues | None = None, **named: Any) -> Any:
            own = {row.name: named.pop(row.name) for row in rows}
            own = {name: value for name, value in own.items() if value is not None}
            return function(*arguments, values=(values or OptionValues())._replace(**own), **named)

        for row in reversed(rows):
            collect_values = click_option(row)(collect_values)
        return collect_values  # type: ignore[return-value]  # it takes what the function takes

    return decorate


def option_reader(read: Callable[[Any], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback that reads the value of an option, and reports its errors."""

    def take(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        try:
            return None if value is None else read(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return take


def click_option(row: Option) -> Callable[[F], F]:
    """Make a click option of a row."""
    names = (row.short, row.flag, row.name) if row.short else (row.flag, row.name)
    more: dict[str, Any] = {"is_flag": True} if row.kind == "flag" else {"multiple": row.multiple}
    if row.default is not None:
        more |= {"default": row.default, "show_default": True}
    if row.kind == "path":
        more["shell_complete"] = files
    kind = click.Choice(row.kind) if isinstance(row.kind, tuple) else _TYPES.get(row.kind)
    return click.option(
        *names,
        metavar=row.metavar,
        type=kind,
        callback=option_reader(row.convert),
        hidden=bool(row.hidden),
        help=row.help,
        **more,
    )


def carry_out(run: Callable[..., int], *values: Any) -> None:
    """Run a command with values that click has read, and end with its exit code."""
    try:
        code = run(*values)
    except MisuseError as error:
        raise click.UsageError(str(error)) from None
    click.get_current_context().exit(code)
