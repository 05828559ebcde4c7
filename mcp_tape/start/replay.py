"""mcp-tape replay, with the values of its options."""

from __future__ import annotations

from .. import api
from .outcome import echo, say
from .values import check_faults, web_from

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ..replay.stage import Played, Replay


def replay(file: str, given: dict[str, Any]) -> int:
    """Be the recorded server; return the exit code."""
    options = api.replay_options(given)
    check_faults(options, given["listen"])
    web = web_from(given)
    if (given["workers"] or 1) > 1:
        from ..fleet import serving

        how = {"quiet": given["quiet"], "say": say, "started": echo}
        played = serving.replay_web(file, options, web, given["workers"], **how)
    elif given["listen"]:
        played = api.replay_web(file, options, web, say=say, started=echo)
    else:
        played = api.replay(file, options, say=say)
    report_played(played, options, file, given["quiet"])
    return played.code


def report_played(played: Played, options: Replay, file: str, quiet: bool) -> None:
    if played.misses or not quiet or (played.inexact and options.fail_on):
        unplayed = f", {played.unplayed} unplayed" if options.strict or options.report else ""
        say(f"{played.played} played, {played.misses} missed{inexact_text(played.inexact)}{unplayed}: {file}")


def inexact_text(by_rung: Iterable[tuple[str, int]]) -> str:
    """How many answers were not exact, and by which rungs; nothing if there are none."""
    counts = list(by_rung)
    rungs = ", ".join(f"{count} by {rung}" for rung, count in counts)
    return f", {sum(count for _, count in counts)} inexact ({rungs})" if rungs else ""
