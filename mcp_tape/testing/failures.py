"""Failures of a test's tapes: servers that did not start and calls that missed, as pytest reports them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import count
from .terminal_summary import Call

if TYPE_CHECKING:
    import pytest

    from ..replay.misses import Advice
    from ..wire.frames import Exchange
    from .use import Inexact, Miss, UsedCassette

_MOST = 5  # misses to report in full


class TapeUse:
    """The use of a tape by one test, or by all tests with a tape from the factory."""

    def __init__(
        self, tape: UsedCassette, unplayed: str, inexact: str = "ignore", *, is_shared: bool, is_made: bool = False
    ) -> None:
        """`unplayed` and `inexact` are the level for each: ignore, warn or error."""
        self.tape = tape
        self.unplayed = unplayed
        self.inexact = inexact
        self.is_shared = is_shared
        self.is_made = is_made  # by the factory
        self._reported: dict[tuple[str, str | None], int] = {}  # counts, by kind and server
        self._errors: set[str] = set()
        self._rewound = tape.rewound

    def new_misses(self) -> list[Miss]:
        """Return the misses since the last call."""
        return self._new("misses")

    def new_inexact(self) -> list[Inexact]:
        """Return the inexact answers since the last call."""
        return self._new("inexact")

    def _new(self, what: str) -> list[Any]:
        """Return the events since the last call. Rewinding a tape clears them."""
        if self.tape.rewound != self._rewound:
            self._reported, self._rewound = {}, self.tape.rewound
        new: list[Any] = []
        for tape in self.tapes:
            happened = getattr(tape, what)
            new += happened[self._reported.get((what, tape.label), 0) :]
            self._reported[what, tape.label] = len(happened)
        return new

    @property
    def tapes(self) -> list[UsedCassette]:
        """The tape, or the tapes of its servers."""
        return [*self.tape.servers.values()] or [self.tape]

    def new_errors(self) -> list[str]:
        new = [error for error in self.tape.errors if error not in self._errors]
        self._errors.update(new)
        return new

    def unmade_calls(self) -> list[Call]:
        """Return the recorded requests that were not made, unless they are ignored."""
        calls = self.tape.unplayed if self.unplayed != "ignore" else []
        return [(call.session or 0, call.seq or 0, call_line(call)) for call in calls]


def call_line(call: Exchange) -> str:
    """A call on one line, with its server if there are several."""
    server = call.server and f"{call.server}:"
    return " ".join(" ".join(filter(None, (server, call.method, call.name))).split())


class Trouble(NamedTuple):
    headline: str
    text: str


def record_command(test: str, mode: str) -> str:
    """The command that runs a test and records."""
    return f"pytest {shlex.quote(test)} --mcp-record={mode}" if test else f"pytest --mcp-record={mode}"


def find_trouble(uses: Iterable[TapeUse], test: Callable[[], str]) -> Trouble | None:
    """Return the failures since the last call: servers that did not start, then calls that missed.

    `test` returns the pytest argument for the test that uses the tapes, for advice.
    """
    errors, calls, reports = [], [], []
    for use in uses:
        for tape in use.tapes:
            tape.words = _advice_writer(use, test)
        errors += use.new_errors()
        misses = use.new_misses()
        calls += [miss.title for miss in misses]
        reports += [miss.report for miss in misses]
    missed = [f"{count(len(calls), 'call')} missed: {', '.join(dict.fromkeys(calls))}"] if calls else []
    different = list(dict.fromkeys(reports))
    more = [f"and {len(different) - _MOST} more"] if len(different) > _MOST else []
    lines = [*errors, *missed, *different[:_MOST], *more]
    return Trouble(lines[0], "\n".join(lines)) if lines else None


def describe_inexact(path: str, inexact: list[Inexact]) -> str:
    """List inexact answers, each with its differences."""
    from ..replay.misses import difference_line

    lines = [f"{count(len(inexact), 'answer')} on {path} not exact:"]
    for one in inexact[:_MOST]:
        lines += [f"  {one.title}", *(f"    {difference_line(found)}" for found in one.differences)]
    return "\n".join(lines + ([f"  and {len(inexact) - _MOST} more"] if len(inexact) > _MOST else []))


def inexact_reason(texts: list[str]) -> Trouble | None:
    """Return a possible reason for the failure of a test that got answers to other requests."""
    return Trouble(texts[0].partition("\n")[0].rstrip(":"), "\n".join(texts)) if texts else None


def explain(report: pytest.TestReport, trouble: Trouble) -> None:
    """Add trouble to the report of a failed test: to its output, to JUnit's XML, and to its summary line."""
    failure: Any = report.longrepr
    if isinstance(failure, str):
        report.longrepr = f"{trouble.headline}; {failure}\n{trouble.text}"
    elif hasattr(failure, "addsection"):
        failure.addsection("mcp-tape", trouble.text)
    else:  # another plugin's report, not an exception's
        report.sections.append(("mcp-tape", trouble.text))
    crash = getattr(failure, "reprcrash", None)
    if crash is not None:
        crash.message = f"{trouble.headline}; {crash.message}"


def _advice_writer(use: TapeUse, test: Callable[[], str]) -> Callable[[Advice], str]:
    def write_advice(advice: Advice) -> str:
        from ..replay.misses import as_argument, show_command

        if advice.what == "mode":
            return record_command(test(), advice.value)
        if advice.what == "show":
            return show_command(use.tape.path, advice)
        option = "mcp_tape_factory(..., {})" if use.is_made else "@pytest.mark.mcp_tape({})"
        return option.format(as_argument(advice))

    return write_advice
