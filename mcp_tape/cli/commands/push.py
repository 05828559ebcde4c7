"""mcp-tape push"""

from __future__ import annotations

from collections import Counter
from functools import partial

import click

from ...console import say
from ...console.progress import Progress
from ...console.terminal import echo, echo_json, writable_text
from ...errors import count, replace_control_characters
from ...fleet.bucket import TransferOutcome
from ...fleet.many.checking import redactor_here
from ...options import REDACT, SECRET_SOURCES, OptionValues
from ...start.server_values import rules_from
from .. import set_least_exit_code
from ..click_options import DestinationCommand, cassettes_argument, json_option, table_options


@click.command(
    "push",
    cls=DestinationCommand,
    epilog="\b\nExamples:\n"
    "  mcp-tape push cassettes/*.db s3://team/tapes\n"
    "  mcp-tape push cassettes/ gs://team/tapes --json\n"
    "  mcp-tape push tape.db az://team/tapes --redact-key pin",
)
@cassettes_argument
@click.argument("url", metavar="URL")
@click.option("--allow-secrets", is_flag=True, help="Also push cassettes in which mcp-tape check finds secrets.")
@table_options(*REDACT, *SECRET_SOURCES)
@json_option
def command(paths: list[str], url: str, allow_secrets: bool, as_json: bool, values: OptionValues) -> None:
    """Put cassettes into a bucket: s3://, gs:// or az://.

    A cassette is named by its date, server and content: date=2026-11-18/server=github/<sha256>.db below URL.
    Cassettes that the bucket has are left alone, so you can repeat and resume a push, and run several at once.
    Credentials are those that the provider's own tools use: environment variables, profiles, the machine's role.

    A cassette with a value that looks like a secret, by the rules of recording, is refused: see mcp-tape check and
    mcp-tape redact. A cassette that is being recorded is refused, too.

    Exit code 1: some were refused. 3: a file is not a cassette. 4: the bucket could not be reached, or denied.
    It needs obstore: pip install 'mcp-tape[remote]'
    """
    from ...fleet.pushing import push  # only where it is used

    with OutcomePrinter(f"pushing to {url}", len(paths), as_json) as tally:
        code = push(paths, url, None if allow_secrets else partial(redactor_here, rules_from(values)), tally)
    tally.end()
    raise SystemExit(code)


class OutcomePrinter:
    """Outcomes, printed one by one and counted."""

    def __init__(self, title: str, total: int, as_json: bool) -> None:
        self._as_json, self._counts = as_json, Counter[str]()
        self._title, self._total = title, total
        self.begin(total)

    def begin(self, total: int) -> None:
        self._progress = Progress(self._title, total)

    def __enter__(self) -> OutcomePrinter:
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.hide()

    def __call__(self, outcome: TransferOutcome) -> None:
        self._counts[outcome.status] += 1
        set_least_exit_code(outcome.code)
        self._progress.hide()
        if self._as_json:
            facts = outcome._asdict()
            del facts["code"]
            echo_json(facts)
        elif outcome.code:
            why = (outcome.why or "").partition("\n")[0]
            named = why if outcome.file in why or (outcome.url or outcome.file) in why else f"{outcome.file}: {why}"
            echo(writable_text(replace_control_characters(f"{outcome.status}: {named}")), fg="red")
        else:
            echo(writable_text(replace_control_characters(f"{outcome.status}: {outcome.file} → {outcome.url}")))
        self._progress(self._counts.total())

    def end(self) -> None:
        if not self._as_json:
            parts = ", ".join(f"{number} {status}" for status, number in sorted(self._counts.items()))
            say(f"{count(self._counts.total(), 'cassette')}" + (f": {parts}" if parts else ""))
