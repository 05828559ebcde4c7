"""Failures of a test's tapes: servers that did not start and calls that missed, as pytest reports them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import count
from .summary import Call

if TYPE_CHECKING:
    import pytest

    from ..replay.misses import Advice
    from ..wire.frames import Exchange
    from .use import Miss, UsedCassette

_MOST = 5  # misses that are reported in full


class Use:
    """One test's use of a tape, or that of all tests that have one from the factory."""

    def __init__(self, tape: UsedCassette, unplayed: str, *, is_shared: bool, is_made: bool = False) -> None:
        self.tape = tape
        self.unplayed = unplayed
        self.is_shared = is_shared
        self.is_made = is_made  # by the factory
        self._reported = 0  # misses
        self._errors: set[str] = set()
        self._rewound = tape.rewound

    def new_misses(self) -> list[Miss]:
        """Return the misses since the last call. A tape that was rewound has forgotten the others."""
        if self.tape.is_recording and self.tape.mode != "new_episodes":
            return []  # all is live
        if self.tape.rewound != self._rewound:
            self._reported, self._rewound = 0, self.tape.rewound
        misses = self.tape.misses
        new, self._reported = misses[self._reported :], len(misses)
        return new

    def new_errors(self) -> list[str]:
        new = [error for error in self.tape.errors if error not in self._errors]
        self._errors.update(new)
        return new

    def left(self) -> list[Call]:
        """Recorded requests that were not made, unless they are ignored."""
        calls = self.tape.unplayed if self.unplayed != "ignore" else []
        return [(call.session or 0, call.seq or 0, shown(call)) for call in calls]


def shown(call: Exchange) -> str:
    return " ".join(" ".join(filter(None, (call.method, call.name))).split())


class Trouble(NamedTuple):
    headline: str
    text: str


def command(test: str, mode: str) -> str:
    """The command that runs a test and records."""
    return f"pytest {shlex.quote(test)} --mcp-record={mode}" if test else f"pytest --mcp-record={mode}"


def find(uses: Iterable[Use], test: str) -> Trouble | None:
    """Return the failures since the last call: servers that did not start, then calls that missed."""
    errors, calls, reports = [], [], []
    for use in uses:
        use.tape.words = _words(use, test)
        errors += use.new_errors()
        misses = use.new_misses()
        calls += [miss.title for miss in misses]
        reports += [miss.report for miss in misses]
    missed = [f"{count(len(calls), 'call')} missed: {', '.join(dict.fromkeys(calls))}"] if calls else []
    different = list(dict.fromkeys(reports))
    more = [f"and {len(different) - _MOST} more"] if len(different) > _MOST else []
    lines = [*errors, *missed, *different[:_MOST], *more]
    return Trouble(lines[0], "\n".join(lines)) if lines else None


def explain(report: pytest.TestReport, trouble: Trouble) -> None:
    """Add trouble to the report of a failed test: where it is printed, in JUnit's XML, and in the summary's line."""
    failure: Any = report.longrepr
    if isinstance(failure, str):
        report.longrepr = f"{trouble.headline}; {failure}\n{trouble.text}"
    elif hasattr(failure, "addsection"):
        failure.addsection("mcp-tape", trouble.text)
    else:  # no exception's, but that of another plugin
        report.sections.append(("mcp-tape", trouble.text))
    crash = getattr(failure, "reprcrash", None)
    if crash is not None:
        crash.message = f"{trouble.headline}; {crash.message}"


def _words(use: Use, test: str) -> Callable[[Advice], str]:
    def words(advice: Advice) -> str:
        from ..replay.misses import as_argument

        if advice.what == "mode":
            return command(test, advice.value)
        if advice.what == "show":
            return f"mcp-tape show {shlex.quote(use.tape.path)}"
        option = "mcp_tape_factory(..., {})" if use.is_made else "@pytest.mark.mcp_tape({})"
        return option.format(as_argument(advice))

    return words
