"""What a run of suites.py says: seconds per test, the bars, and where somebody else is better."""

from __future__ import annotations

from collections.abc import Sequence

from http_contestants import RECORDER
from measure import FREE, Bar, Results, at_most, table
from report import closing

NOTHING, LIVE, LIVE_URL = "a test that does nothing", "live server, started", "live server, at a URL"
STREAMS, URL, COMMAND = "tape.streams()", "tape.url", "tape.command"
TAPES = (STREAMS, URL, COMMAND)
WHOLE, EACH = FIGURES = ("seconds per test", "seconds in a test")


def text(
    results: Results, names: Sequence[str], absent: Sequence[str], bars: Sequence[Bar], title: str, markdown: bool
) -> str:
    """The whole report."""
    strong = "### {}" if markdown else "{}"
    rows = [
        [name, _seconds(results.value(FREE, WHOLE, name)), _spread(results, name),
         _seconds(results.value(FREE, EACH, name)), _share(results, name)]
        for name in names
    ]  # fmt: skip
    parts = [title, table(["", WHOLE, "of the rounds", EACH, f"× {LIVE}"], rows, markdown)]
    return "\n\n".join(parts + closing(results, bars, losses(results, names), absent, strong))


def bars(results: Results) -> list[Bar]:
    """What is promised: whichever way a client connects, a test is quicker than with the server or a peer's fixture."""
    return [
        at_most(f"{tape}, {WHOLE}, below {other}", results.value(FREE, WHOLE, tape),
                results.value(FREE, WHOLE, other), "s", other)
        for tape in TAPES
        for other in (LIVE, RECORDER)
    ]  # fmt: skip


def losses(results: Results, names: Sequence[str]) -> list[str]:
    """Every way to connect to a tape that took longer than somebody else, be it in one round only."""
    found = []
    for tape in TAPES:
        ours = _rounds(results, tape)
        for name in names:
            faster = sum(theirs < own for own, theirs in zip(ours, _rounds(results, name), strict=False))
            if faster and name not in (*TAPES, NOTHING):
                found.append(f"{WHOLE}: {name} was faster than {tape} in {faster} of {len(ours)} rounds")
    return found


def _rounds(results: Results, name: str) -> list[float]:
    return results.samples.get((FREE, WHOLE, name), [])


def _spread(results: Results, name: str) -> str:
    rounds = _rounds(results, name)
    return f"{_seconds(min(rounds))} to {_seconds(max(rounds))}" if rounds else "–"


def _seconds(value: float | None) -> str:
    return "–" if value is None else "failed" if value == float("inf") else f"{value:.4f}"


def _share(results: Results, name: str) -> str:
    share = results.ratio(FREE, (WHOLE, name), (WHOLE, LIVE))
    return "–" if share is None or share == float("inf") else f"{share:.3f}"
