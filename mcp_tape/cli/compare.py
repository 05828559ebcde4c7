"""Options and output that diff, breaking and verify share."""

from __future__ import annotations

import functools
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from ..cassette.text.safe_lines import json_line
from ..compare.report import FORMATS
from ..compare.report.wording import View
from ..compare.rule_table import CATEGORIES, LEVELS, RULES
from ..console import discard_output, say
from ..console.terminal import echo_json, shows_colours
from ..fleet.many.results import Result, comparisons_of
from ..fleet.many.results import report as junit
from ..options import JSON_PATH, Option
from .click_options import Number, SectionedCommand, changed_place, click_option, files
from .running import Found, Row

if TYPE_CHECKING:
    from ..compare.judging import Comparison
    from ..compare.rule_table import Category, Level
    from ..diff.project import FailOn, Project
    from ..fleet.many.diffing import JudgingOptions

F = TypeVar("F", bound=Callable[..., Any])
_LONGEST = 1_000_000  # seconds, or times as long


def check_finite(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """Callback of an option: refuse nan, and more than a clock can wait for."""
    if value is not None and not value <= _LONGEST:
        raise click.BadParameter(f"{value:g} is not a number up to {_LONGEST:,}")
    return value


def _check_rules(ctx: click.Context, param: click.Parameter, rules: tuple[str, ...]) -> tuple[str, ...]:
    for rule in rules:
        if rule not in RULES:
            raise click.BadParameter(f"there is no rule {rule!r}; the rules: mcp-tape diff --rules")
    return rules


def _read_reports(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    reports = []
    for one in given:
        form, _, path = one.partition("=")
        if form not in FORMATS[1:] or not path:
            raise click.BadParameter(f"{one!r} is not FORMAT=FILE; the formats: {', '.join(FORMATS[1:])}")
        reports.append((form, changed_place(ctx, param, path)))
    return tuple(reports)


_OPTIONS = (
    click.option("--category", type=click.Choice(CATEGORIES),
                 help="wire: the protocol only. call: the contract (default). model: text that a model reads "
                 "counts more. security: only text that may turn a model against its user; new text is an error."),
    click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True,
                 help="The format of the report."),
    click.option("--json", "as_json", is_flag=True, help="The same as --format json."),
    click.option("--also", metavar="FORMAT=FILE", multiple=True, callback=_read_reports, shell_complete=files,
                 help="Also write the report in this format to a file, in place of an older one. May be repeated."),
    click.option("--level", type=click.Choice(LEVELS),
                 help="Show changes of this level and above; the exit code is the same. Default: info; for the text of "
                 "breaking, error."),
    click.option("--only", metavar="RULE", multiple=True, callback=_check_rules,
                 help="Report only changes of this rule. May be repeated."),
    click.option("--full", is_flag=True, help="Show long values in full, in text."),
    click_option(Option("ignore_paths", "--ignore-path", "Ignore changes at this path, e.g. "
                    "'$.result.structuredContent.uptime'.", "JSONPATH", multiple=True, check=JSON_PATH)),
)  # fmt: skip
_FAIL_ON = click.option("--fail-on", type=click.Choice([*LEVELS, "never"]),
                        help="Exit with 1 at changes of this level or above. Default: error.")  # fmt: skip
_SLOWER = click.option("--slower-than", type=Number(min=1), metavar="RATIO", callback=check_finite,
                       help="Report calls that take this many times as long.")  # fmt: skip


class AfterDashes(SectionedCommand):
    """A command that gets the words after `--` as `command`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        rest = super().parse_args(ctx, args[:at])
        ctx.params["command"] = tuple(args[at + 1 :])
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- CMD...]"]


class ComparisonOptions(NamedTuple):
    """How changes are judged and shown: options of the command line."""

    category: Category | None
    form: str
    as_json: bool
    level: Level | None
    only: tuple[str, ...]
    full: bool
    ignore_paths: tuple[str, ...]
    also: tuple[tuple[str, str], ...] = ()  # formats, and the files for them
    fail_on: FailOn | None = None
    slower_than: float | None = None

    @property
    def format(self) -> str:
        return "json" if self.as_json else self.form

    def judging(self) -> JudgingOptions:
        """Return how changes are judged, as plain values."""
        from ..diff.project import working_directory
        from ..fleet.many.diffing import JudgingOptions

        return JudgingOptions(
            self.category, self.fail_on, self.ignore_paths, self.only, self.slower_than, working_directory()
        )


def judging_options(function: F) -> F:
    """Options of a command, which gets their values as one argument, `options`."""
    return _collect(function, _OPTIONS)


def diff_options(function: F) -> F:
    """Judging options, and those that choose the exit code."""
    return _collect(function, (*_OPTIONS, _FAIL_ON, _SLOWER))


def _collect(function: F, options: Sequence[Callable[[F], F]]) -> F:
    @functools.wraps(function)
    def collect_values(*arguments: Any, **named: Any) -> Any:
        own = {name: named.pop(name) for name in ComparisonOptions._fields if name in named}
        return function(*arguments, options=ComparisonOptions(**own), **named)

    decorated: F = collect_values  # type: ignore[assignment]  # it takes what the function takes
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def _render(
    several: Sequence[Comparison],
    form: str,
    project: Project,
    options: ComparisonOptions,
    file: str | None,
    verdict: Verdict | None,
    colour: bool = False,
) -> str:
    """Render comparisons in a format. `verdict`: the last line of a text, of a gate."""
    from ..compare.report import render

    if form in ("github", "sarif"):
        several = [one._replace(cassette=from_top(one.cassette), file=from_top(one.file)) for one in several]
        file = from_top(file) if file else file
    if len(several) > 1:
        several = [one._replace(unused=()) for one in several[:-1]] + [
            several[-1]._replace(unused=unused_in_all(several))
        ]
    if options.level and form != "text":
        several = [one._replace(changes=one.at_least(options.level)) for one in several]
    return render(
        several,
        form,
        colour,
        shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 100,
        fail_on=None if project.fail_on == "never" else project.fail_on,
        file=file,
        ignore_file=os.path.relpath(project.ignore_path),
        full=options.full,
        level=options.level or ("error" if verdict else "info"),
        verdict=verdict or (lambda comparison: ""),
    )


def _echo(text: str | bytes) -> None:
    try:
        click.echo(text, nl=False, color=True)
    except BrokenPipeError:
        discard_output()  # the reader has closed it, as with `| head`; the exit code still counts


def unused_in_all(comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """Return the lines of the ignore file that match no comparison."""
    return tuple(line for line in comparisons[0].unused if all(line in one.unused for one in comparisons))


def from_top(path: str) -> str:
    """Return a path relative to the top of its repository, as GitHub wants it; other text is unchanged."""
    place = os.path.dirname(os.path.abspath(path))
    while not os.path.exists(os.path.join(place, ".git")):
        if place == os.path.dirname(place):
            return path
        place = os.path.dirname(place)
    return os.path.relpath(os.path.abspath(path), place) if path and "://" not in path else path


# -- results of comparisons, printed in the format asked for: of diff, breaking and verify, over one cassette or many

Verdict = Callable[["Comparison"], str]


def report(
    found: Found,
    project: Project,
    options: ComparisonOptions,
    *,
    alone: bool,
    names: bool = True,
    file: str | None = None,
    verdict: Verdict | None = None,
    page: Callable[[], bytes | None] = lambda: None,
) -> list[Result]:
    """Print results: for people at once, rows, too, and all else together; and write the files of `--also`.

    `alone`: there is one cassette; `names`: its report names it. `file`: the cassette that annotations point at.
    `verdict`: the last line of a text, of a gate. `page`: the HTML of the one comparison, with both sides.
    """
    done = list[tuple[Result, Row]]()
    with closing(found):  # the reader of stdout may close it early
        for result, row in found:
            shown, row = result if names else _drop_name(result), _at_least(options.level, result, row)
            if options.format == "text":
                _show(shown, alone, project, options, file, verdict)
            elif options.format == "json":
                echo_json(row)
            for note in result.notes:
                say(note)
            done.append((shown, row))
    results = [result for result, _ in done]
    comparisons = [comparison for result in results for comparison in result.comparisons]
    if options.format == "text" and len(comparisons) > 1 and (lines := unused_in_all(comparisons)):
        say(f"unused in {os.path.relpath(project.ignore_path)}, by all of these: {', '.join(lines)}")

    def whole(form: str) -> str | bytes:
        if form == "json":
            return b"".join(json_line(row) for _, row in done)
        if form == "junit":
            view = View(fail_on=None if project.fail_on == "never" else project.fail_on)
            return "".join(f"{line}\n" for line in junit(done, view))
        if form == "html" and (both := page()) is not None:
            return both
        reported = [one for result in results for one in comparisons_of(result)]
        return _render(reported, form, project, options, file, verdict) if reported else ""

    if options.format not in ("text", "json"):
        _echo(whole(options.format))
    for form, path in options.also:
        from .commands.convert import write_out  # with all formats of cassettes

        text = whole(form)
        write_out([text.encode() if isinstance(text, str) else text], path)
    return results


def _at_least(level: Level | None, result: Result, row: Row) -> Row:
    """Drop lesser changes from a row; its counts and status still include them."""
    if level is None:
        return row
    comparisons = [one._replace(changes=one.at_least(level)).as_dict() for one in result.comparisons]
    least = LEVELS.index(level)
    findings = [found._asdict() for found in result.findings if LEVELS.index(found.level) <= least]
    return row | {"findings": findings} | ({"comparisons": comparisons} if comparisons else {})


def _show(
    result: Result, alone: bool, project: Project, options: ComparisonOptions, file: str | None, verdict: Verdict | None
) -> None:
    alone = alone and len(result.comparisons) == 1
    for comparison in result.comparisons:
        one = comparison if alone else comparison._replace(unused=())
        _echo(_render([one], "text", project, options, file, verdict, shows_colours()))


def _drop_name(result: Result) -> Result:
    """Drop the name from the result of the only pair, whose report needs none."""
    if len(result.comparisons) > 1:
        return result
    return result._replace(comparisons=tuple(one._replace(cassette="") for one in result.comparisons))
