"""mcp-tape use, with the values of its options."""

from __future__ import annotations

from .. import modes
from ..api import replay_options
from ..console import announce, report, say
from ..errors import MisuseError, TapeError, count
from .server_values import around_from, check_faults, check_server, complete_values, record_from, rules_from, web_from

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from ..options import OptionValues
    from ..replay.stage import ReplayOptions, ReplayOutcome


def use(file: str, command: tuple[str, ...], values: OptionValues) -> int:
    """Replay, record, or both, depending on the mode; return the exit code."""
    if values.config:
        from .config_run import run_config

        return run_config(file, command, values, values.config)
    mode, quiet = values.mode, values.quiet
    by_web = bool(values.url or values.listen)
    if mode != "none":
        if not command and not values.url:
            hint = "add -- and its command, or --url URL; to only replay: --mode none"
            raise MisuseError(f"mode {mode} can record {file}, and so needs the server: {hint}")
        check_server(command, values)
    values, missing = complete_values(values)
    replaying = replay_options(values)
    check_faults(replaying, by_web)
    server = modes.Url(web_from(values), announce) if by_web else modes.Command(command, around_from(values, missing))
    if not quiet:
        say(f"mode {mode}: {file}")
    recording = record_from(command, values)
    try:
        outcome = modes.use(file, server, mode, replaying, recording, report)
    except TapeError as error:
        _report_error(error, replaying, values)
        raise
    name = replaying.in_place_of or file
    if outcome.played is not None:
        from .end_report import report_outcome

        report_outcome(outcome.played, replaying, name, quiet)
    if outcome.recorded is not None:
        from .end_report import report_stripped_environment, report_summary

        report_summary(outcome.recorded, name, quiet)
        report_stripped_environment(recording, quiet)
        if outcome.replaces and not quiet:
            report("the previous recording was replaced, even if its test failed: only pytest reports that to mcp-tape")
        if outcome.goes_on and not quiet:
            report("this run records: its sessions play in this order from the next run on, or with --mode none")
        if outcome.played is not None and (outcome.played.stale or not quiet):
            report(_describe_growth(name, outcome.played))
    elif outcome.played is None:
        say(f"nothing was recorded: {name}")
    return outcome.code


def _describe_growth(name: str, played: ReplayOutcome) -> str:
    """Describe how a cassette grew, and how many answers may be out of date since."""
    grown = f"{name} grew by {count(played.grew, 'call')}"
    if not played.stale:
        return grown
    answers = "1 answer after a live call is" if played.stale == 1 else f"{played.stale} answers after a live call are"
    return f"{grown}; {answers} from the old tape; to record everything again: --mode rewrite"


def _report_error(error: TapeError, replaying: ReplayOptions, values: OptionValues) -> None:
    """Add an error to the report that a test reads."""
    from ..redaction.diagnostics import DiagnosticRedactor  # loaded only after an error
    from ..replay.report import Reporter

    Reporter(say, replaying.report, replaying.run, DiagnosticRedactor(rules_from(values))).fail(str(error))
