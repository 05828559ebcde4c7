"""mcp-tape redact"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from ...cassette import file as database
from ...cassette.change.redact import Hidden, hide, would_hide
from ...cassette.reader import Cassette
from ...console import say
from ...console.progress import Progress, frames_of
from ...console.terminal import echo_json
from ...errors import CassetteError, harmless
from ...fleet.many.checking import here
from ...fleet.many.redacting import STILL, Task, facts, redacted, summary
from ...fleet.many.results import Result
from ...fleet.shards import Shard
from ...options import KNOWN, REDACT
from ...redaction.redactor import Redactor
from ...start.values import rules_from
from ...transports.signals import tidied_up
from ...wire.secret_names import placeholder
from ..click_options import cassettes_argument, format_option, given_as, many_options
from ..many.running import Run, is_asked, report


@click.command(
    "redact",
    epilog="\b\nExamples:\n"
    "  mcp-tape redact tape.db --dry-run\n"
    "  mcp-tape redact tape.db --redact-key pin --redact-value 'C-[0-9]+'\n"
    "  mcp-tape redact tape.db --env-file .env\n"
    "  mcp-tape redact tapes/ --jobs 4\n"
    "  mcp-tape check tape.db",
)
@cassettes_argument
@given_as(*REDACT, *KNOWN)
@click.option("--dry-run", is_flag=True, help="Only say what would be hidden.")
@format_option
@many_options
def command(paths: list[str], dry_run: bool, jobs: int, shard: Shard | None, **given: Any) -> None:
    """Hide secrets on an existing cassette, such as one recorded with --no-redact or fewer rules.

    It uses the rules of recording, the options, and the values in this environment. A value found under a
    secret key is hidden everywhere on the cassette, even before that. Placeholders are those of recording,
    and requests still match. The file is rewritten, so no page of it holds what was hidden; backups, copies
    and git's history still do. While the cassette is being recorded, new messages are hidden by the
    recorder's own rules, so run it again at the end.

    CASSETTE can be a file, a directory or a quoted pattern. One that cannot be read does not stop the others; the
    exit code is then 3. With --jobs or --shard, --json is one row a cassette, for mcp-tape merge-reports.
    """
    click.get_current_context().with_resource(tidied_up())
    form = "json" if given["as_json"] else given["form"]
    task = Task(rules_from(given)._replace(environ={}), dry_run)  # every process has its own
    if is_asked() or form == "junit":
        run = Run("redact", "redacting", jobs, shard, quiet=form == "json")
        results = run.results(partial(redacted, task=task), paths, str, lambda path: [path])
        raise SystemExit(report(results, form, _show))
    code = 0
    for path in paths:
        try:
            _redact(path, task, form == "json")
        except CassetteError as error:
            if len(paths) == 1:
                raise
            say(str(error))
            code = error.exit_code
    raise SystemExit(code)


def _redact(path: str, task: Task, as_json: bool) -> None:
    """Redact one cassette, with progress."""
    with Cassette(path) as cassette:
        total = 2 * frames_of(cassette)
    with Progress(f"redacting {path}", total) as progress:
        rules = here(task.rules)
        done = would_hide(path, rules, progress) if task.dry else _hidden(path, rules, progress)
    if as_json:
        echo_json({"file": path} | facts(done, task.dry))
        return
    _print(done.kinds)
    say(summary(path, done, task.dry))
    if done.recorded:
        say(STILL)


def _show(result: Result) -> None:
    """What was hidden in one of many."""
    _print(result.details.get("hidden", {}))
    for note in result.notes:
        say(note)


def _print(kinds: Mapping[str, int]) -> None:
    for kind, number in sorted(kinds.items()):
        click.echo(f"{number:>7}  {placeholder(harmless(kind))}")


def _hidden(file: str, rules: Redactor, progress: Progress) -> Hidden:
    try:
        return hide(file, rules, progress)
    except (KeyboardInterrupt, SystemExit):
        if database.header_says_wal(file):  # it was in use, and is changed in its place
            progress.hide()
            say(f"stopped: some of it is hidden in {file}, but may still be in the file; run this again to finish it")
        raise
