"""The summary of a recording or a replay, printed at its end."""

from __future__ import annotations

import os

from ..console import report, say
from ..errors import count

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..record.recorder import RecordingSummary
    from ..record.recording_options import RecordingOptions
    from ..replay.stage import ReplayOptions, ReplayOutcome


def report_summary(summary: RecordingSummary, path: str, quiet: bool, is_sample: bool = False) -> None:
    """Report a recording in one line. If it is incomplete, do so even when quiet."""
    if summary.incomplete:
        report(f"INCOMPLETE: {summary.incomplete}")
    if not quiet or summary.incomplete:
        if is_sample and not summary.frames:
            report("nothing was recorded: no session was in the sample")
            return
        if summary.incomplete and not summary.sessions:
            report(f"nothing was recorded: {path}")
            return
        recorded = f"{count(summary.frames, 'frame')}, {count(summary.exchanges, 'exchange')}"
        more = f"{summary.still_open} still open, {summary.redactions} redacted"
        if summary.cassettes:
            from ..record.rotation import describe_last

            path = describe_last(path, summary.cassettes)
        report(f"{recorded}, {more}: {path} ({_sessions(summary.sessions)})")


def report_stripped_environment(options: RecordingOptions, quiet: bool) -> None:
    """Warn that the client passed on few variables, so that its secrets are unknown."""
    from ..redaction.environment import looks_stripped

    if not quiet and options.redact and not options.known and looks_stripped(os.environ):
        names = ", ".join(sorted(os.environ)) or "no variables"
        report(
            f"the client has passed on {names}: secrets of its other variables were not known, so they are not hidden"
        )
        report("to hide them: --redact-env-from parents, or --env-file FILE")


def _sessions(numbers: list[range]) -> str:
    if not numbers:
        return "no session: no client came"
    first, last = numbers[0].start, numbers[-1].stop - 1
    return f"session {first}" if first == last else f"sessions {first} to {last}"


def report_outcome(played: ReplayOutcome, options: ReplayOptions, file: str, quiet: bool) -> None:
    if played.misses or played.refused or not quiet or (played.inexact and options.fail_on):
        refused = f", {played.refused} refused" if played.refused else ""
        unplayed = f", {played.unplayed} unplayed" if options.strict or options.report else ""
        say(f"{played.played} played, {played.misses} missed{inexact_text(played.inexact)}{refused}{unplayed}: {file}")


def inexact_text(by_rung: Iterable[tuple[str, int]]) -> str:
    """The number of inexact answers, and of each rung; empty if there are none."""
    counts = list(by_rung)
    rungs = ", ".join(f"{count} by {rung}" for rung, count in counts)
    return f", {sum(count for _, count in counts)} inexact ({rungs})" if rungs else ""
