"""mcp-tape why"""

from __future__ import annotations

import click

from ...cassette.query.inventory import describe_open, is_open
from ...cassette.reader import Cassette
from ...console import say
from ...console.terminal import columns, echo, echo_json, fit, writable_text
from ...contracts.breaches import sessions_of
from ...contracts.reasons import SLOW, Reason, reasons
from ...errors import count, replace_control_characters
from ...values import check_session, parse_duration
from .. import set_least_exit_code
from ..click_options import json_option, option_reader
from ..newest import cassette_or_newest_argument


def _session(text: str) -> str:
    check_session(text)
    return text


@click.command(
    "why",
    epilog="\b\nExamples:\n"
    "  mcp-tape why tape.db\n"
    "  mcp-tape why tape.db --session latest\n"
    "  mcp-tape why tape.db --json",
)
@cassette_or_newest_argument
@click.option("--session", metavar="N|latest|all", default="all", show_default=True, callback=option_reader(_session),
              help="Look at these sessions.")  # fmt: skip
@click.option("--slow", metavar="TIME", callback=option_reader(parse_duration),
              help="Report first answers and open calls that take longer: 500ms, 10s.  [default: 5s]")  # fmt: skip
@json_option
def command(file: str, session: str, slow: int | None, as_json: bool) -> None:
    """Explain a hang or a crash: late or missing answers, and servers that died or never started.

    Each finding names its line on the tape (mcp-tape show FILE SEQ shows it in full) and the evidence: the
    server's exit code and last lines on stderr, other output on stdout, when the client gave up, and which side
    left first. Without a file, choose from the newest cassettes; if there is only one, it is used. The exit
    code is 1 if something was found.
    """
    found = 0
    with Cassette(file) as cassette:
        numbers = sessions_of(cassette, session)
        still_open = [number for number in numbers if is_open(cassette.session(number))]
        for reason in reasons(cassette, numbers, slow or SLOW):
            found += 1
            set_least_exit_code(1)
            _print(file, reason, as_json)
    if not as_json:
        say(
            f"{file}: {count(found, 'finding')}"
            if found
            else f"{file}: all calls were answered{' so far' * bool(still_open)}, and nothing else is odd"
        )
        if still_open:
            say(f"{file}: {describe_open(still_open)}")
    raise SystemExit(1 if found else 0)


def _print(file: str, reason: Reason, as_json: bool) -> None:
    if as_json:
        echo_json({"file": file} | reason._asdict())
        return
    place = f"{reason.session}" + (f" #{reason.seq}" if reason.seq is not None else "")
    echo(writable_text(replace_control_characters(f"session {place}: {reason.what} [{reason.rule}]")), fg="red")
    for line in reason.evidence:
        echo(writable_text(fit(f"    {line}", columns())))
