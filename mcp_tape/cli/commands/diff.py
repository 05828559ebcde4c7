"""mcp-tape diff"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ...compare.rule_table import RULES, SECTIONS, Rule
from ...console.terminal import echo, echo_json
from ...fleet.cassette_paths import is_directory
from ...options import REDACT, UPSTREAM, OptionValues
from ...start.server_values import rules_from
from ..click_options import SECONDS, files, many_options, read_place, table_options
from ..compare import AfterDashes, ComparisonOptions, check_finite, diff_options, report
from ..running import CommandRun, worst_exit_code

if TYPE_CHECKING:
    from ...compare.judging import Comparison
    from ...compare.versions import Version
    from ...diff.project import Project
    from ...diff.surveys import LiveTarget
    from ...fleet.shards import Shard

_TIMEOUT = click.option("--timeout", type=SECONDS, default=30.0, show_default=True,
                        metavar="SECONDS", callback=check_finite,
                        help="The time limit for each answer of a live server.")  # fmt: skip


def references(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """A callback of recordings and live servers: the URL of a recording is replaced by its display name."""
    from ...diff.sources import is_live

    if isinstance(value, tuple):
        return tuple(references(ctx, param, one) for one in value)
    return value if value is None or is_live(value) else read_place(value)


def new_side(
    old: str, new: str | None, command: tuple[str, ...], timeout: float, values: OptionValues
) -> str | LiveTarget:
    """NEW: another cassette, or a live server."""
    from ...diff.sources import is_live
    from ...diff.surveys import LiveTarget
    from ...redaction.diagnostics import hide_secrets

    if is_live(old):
        hint = f"mcp-tape diff CASSETTE {hide_secrets(old)}; the URL of a cassette ends in .db or .jsonl"
        raise click.UsageError(f"OLD is a recording, and a URL can only be NEW: {hint}")
    if new and command:
        raise click.UsageError(
            f"compare {old} either with {hide_secrets(new)} or with the command {command[0]}, not both"
        )
    if not new and not command:
        raise click.UsageError(f"compare {old} with what? Add another cassette, a URL, or -- and a server's command")
    if not new:
        return LiveTarget(command, timeout=timeout)
    if is_live(new):
        return LiveTarget(url=new, headers=values.headers, cacert=values.cacert, timeout=timeout)
    return new


def redact_new(new: str | None, values: OptionValues) -> str | None:
    """Redact NEW for display: a URL may hold a password."""
    from ...diff.sources import is_live
    from ...redaction.diagnostics import DiagnosticRedactor

    return DiagnosticRedactor(rules_from(values)).text(new) if new and is_live(new) else new


@click.command(
    "diff",
    cls=AfterDashes,
    epilog="\b\nExamples:\n"
    "  mcp-tape diff old.db new.db\n"
    "  mcp-tape diff tapes.db#1 tapes.db#2 --calls\n"
    "  mcp-tape diff git:main:tapes/time.db tapes/time.db --format markdown\n"
    "  mcp-tape diff time.db -- uvx mcp-server-time\n"
    "  mcp-tape diff tapes-of-v1 tapes-of-v2 --jobs 4\n"
    "  mcp-tape diff remote.db https://example.com/mcp --surface\n"
    "  mcp-tape diff --rules",
)
@click.argument("old", metavar="OLD", required=False, shell_complete=files, callback=references)
@click.argument("new", metavar="[NEW]", required=False, shell_complete=files, callback=references)
@click.option("--surface", is_flag=True, help="Compare only tools, prompts, resources and capabilities.")
@click.option("--calls", is_flag=True, help="Compare only the results of the recorded calls.")
@click.option("--rules", "lists_rules", is_flag=True, help="List the rules of diff, breaking and verify, each "
              "with its level († one higher with --category model), category and meaning.")  # fmt: skip
@diff_options
@table_options(*UPSTREAM, *REDACT)
@_TIMEOUT
@many_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    old: str | None,
    surface: bool,
    calls: bool,
    lists_rules: bool,
    jobs: int,
    shard: Shard | None,
    new: str | None,
    command: tuple[str, ...],
    timeout: float,
    options: ComparisonOptions,
    values: OptionValues,
) -> None:
    """Show what changed between two recordings of a server, and which changes break clients.

    OLD and NEW are cassettes. FILE#N is one session; git:REVISION:FILE is the file at a revision. NEW can also be a
    live server: a URL that does not end in .db or .jsonl, or -- and a command. It is asked only for its lists,
    and is not recorded; to make the recorded calls, use mcp-tape verify.

    OLD and NEW can be directories: cassettes of the same name are compared, and a cassette that is only in OLD is a
    finding. A directory can also be compared with a live server. The exit code is the highest of all. --json prints a
    row for each cassette, with its comparison.
    """
    from ...compare.versions import PARTS
    from ...fleet.many.diffing import DiffTask, compare_pair, files_of, name_of, pairs
    from ...transports.signals import exit_on_signal

    if lists_rules:
        list_rules(options.format == "json")
        return
    if old is None:
        raise click.UsageError("which recordings? Write: mcp-tape diff OLD NEW, or OLD -- and a server's command")
    judging = options.judging()
    project = judging.project()
    parts = [part for part, chosen in zip(PARTS, (surface, calls), strict=True) if chosen] or PARTS
    found = pairs(old, new_side(old, new, command, timeout, values))
    alone = not is_directory(old)
    rules = rules_from(values)._replace(environ={})  # every process has its own
    task = DiffTask(judging, tuple(parts), rules)
    page = PairPage(project, options)
    work = partial(compare_pair, task=task, look=page.render) if alone else partial(compare_pair, task=task)
    run = CommandRun("diff", "comparing", 1 if alone else jobs, shard, options.format == "json")
    with exit_on_signal():
        results = run.results(work, found, name_of, files_of)
        file = redact_new(new, values) if alone else None
        ctx.exit(
            worst_exit_code(
                report(results, project, options, alone=alone, names=not alone, file=file, page=lambda: page.html)
            )
        )


class PairPage:
    """The page of a comparison for `--format html`: the report, and both recordings to browse."""

    def __init__(self, project: Project, options: ComparisonOptions) -> None:
        self._project = project
        self._is_asked = "html" in (options.format, *(form for form, _ in options.also))
        self._level = options.level
        self.html: bytes | None = None

    def render(self, before: Version, after: Version, comparison: Comparison) -> None:
        """Make the page while both sides are open."""
        if not self._is_asked:
            return
        from ...compare.report.wording import View
        from ...viewer.page import render_comparison

        if self._level:
            comparison = comparison._replace(changes=comparison.at_least(self._level))
        view = View(ignore_file=os.path.relpath(self._project.ignore_path))
        self.html = b"".join(render_comparison(comparison, before, after, view))


# -- the rules of diff, breaking and verify, listed: `diff --rules`


def list_rules(as_json: bool) -> None:
    """Print each rule: its level, category and meaning.

    † With --category model, the level is one higher. If a rule has two levels, the meaning explains the second.
    """
    if as_json:
        for rule in RULES.values():
            echo_json(rule._asdict())
        return
    width = max(map(len, RULES)) + 2
    for section, rules in SECTIONS.items():
        echo(f"\n{section}", bold=True)
        for rule in rules:
            echo(f"  {rule.id:<{width}}{levels(rule):<13}{rule.category:<7}{sentence(rule)}")


def levels(rule: Rule) -> str:
    return rule.level + (f"/{rule.otherwise}" if rule.otherwise else "") + ("†" if rule.rises else "")


def sentence(rule: Rule) -> str:
    return f"{rule.says} ({rule.otherwise} {rule.when})" if rule.otherwise else rule.says
