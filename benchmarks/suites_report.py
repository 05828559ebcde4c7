"""What a run of suites.py says: milliseconds per test, the bars, and where somebody else is better."""

from __future__ import annotations

from collections.abc import Sequence

from http_contestants import RECORDER
from measure import FREE, Bar, Results, at_most, show
from report import Report, Section, Table

NOTHING, MEMORY = "a test that does nothing", "SDK's server in memory"
LIVE, LIVE_URL = "live server, started", "live server, at a URL"
STREAMS, ONE, URL, COMMAND = "tape.streams()", "tape.streams(), one cassette", "tape.url", "tape.command"
TAPES = (STREAMS, ONE, URL, COMMAND)
WHOLE, EACH = FIGURES = ("ms per test", "ms in a test")
_ABOVE = 5.0  # milliseconds above a test that does nothing


def report(results: Results, names: Sequence[str], absent: Sequence[str], tests: int) -> Report:
    """The whole report."""
    short = Table(["", EACH, "above nothing", f"× {LIVE}"], [[name, *_each(results, name)] for name in names])
    whole = [
        [name, results.shown(FREE, WHOLE, name), _spread(results, name), _share(results, WHOLE, name),
         *_each(results, name)]
        for name in names
    ]  # fmt: skip
    table = Table(["", WHOLE, "of the rounds", f"× {LIVE}", *short.head[1:]], whole)
    sections, lost = [Section("Suites", table)], losses(results, names)
    return Report(results, short, sections, bars(results), lost, absent, f"{tests} tests")


def _each(results: Results, name: str) -> list[str]:
    return [results.shown(FREE, EACH, name), _above(results, name), _share(results, EACH, name)]


def bars(results: Results) -> list[Bar]:
    """What is promised: little above nothing; and whichever way a client connects, less than with a live server."""
    yardstick = f"above {NOTHING}; {MEMORY}: {_above(results, MEMORY)} ms"
    return [
        *(at_most(f"{tape}, {EACH}", results.added(FREE, EACH, tape, NOTHING), _ABOVE, "ms", yardstick)
          for tape in (STREAMS, ONE)),
        *(at_most(f"{tape}, {WHOLE}, below {other}", results.value(FREE, WHOLE, tape),
                  results.value(FREE, WHOLE, other), "ms", other)
          for tape in TAPES for other in (LIVE, RECORDER)),
    ]  # fmt: skip


def losses(results: Results, names: Sequence[str]) -> list[str]:
    """Every way to connect to a tape that took longer than somebody else, be it in one round only."""
    found = []
    for tape in TAPES:
        ours = _rounds(results, tape)
        for name in names:
            faster = sum(theirs < own for own, theirs in zip(ours, _rounds(results, name), strict=False))
            if faster and name not in (*TAPES, NOTHING):
                found.append(f"{EACH}: {name} was faster than {tape} in {faster} of {len(ours)} rounds")
    return found


def _rounds(results: Results, name: str, figure: str = EACH) -> list[float]:
    return results.samples.get((FREE, figure, name), [])


def _spread(results: Results, name: str) -> str:
    rounds = _rounds(results, name, WHOLE)
    return f"{show(min(rounds), '')} to {show(max(rounds), '')}" if rounds else "–"


def _above(results: Results, name: str) -> str:
    return show(results.added(FREE, EACH, name, NOTHING) if name != NOTHING else None, "")


def _share(results: Results, figure: str, name: str) -> str:
    share = results.ratio(FREE, (figure, name), (figure, LIVE))
    return "–" if share is None or share == float("inf") else f"{share:.3f}"
