"""The summary at the end of a run. An xdist worker sends its own to the controller, which reports for all."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cassette.schema import is_remote
from ..errors import count
from ..options import LEVELS
from .idle_marks import by_scope

if TYPE_CHECKING:
    import pytest

_MOST = 10  # requests to list one by one
_SETS = ("used", "places", "unfit", "idle", "spoiled")  # of a summary, merged with those of workers

Call = tuple[int, int, str]  # session, seq, what


class RunSummary:
    """The summary of this process's tests, and of merged ones."""

    def __init__(self) -> None:
        self.used: set[str] = set()  # the cassettes of tests
        self.places: set[str] = set()  # the directories of cassettes
        self.problems: list[str] = []
        self.parts: list[tuple[str, str]] = []  # recordings of workers that may still be kept
        self.unfit: set[str] = set()  # cassettes not to keep
        self._grown: dict[str, int] = {}  # cassettes that grew, and their number of stale answers
        self._inexact: dict[str, Counter[str]] = {}  # inexact answers, by cassette and rung
        self.idle: set[str] = set()  # tests that passed without a tape
        self._marked: dict[str, set[str]] = {}  # classes and modules with a mark, and their tests
        self._left: dict[str, set[Call]] = {}  # by shared cassette, the requests that no test has made
        self._levels: dict[str, str] = {}
        self.spoiled: set[str] = set()  # used by a failed test, so unplayed requests mean nothing

    def add_unplayed(self, path: str, level: str, left: Iterable[Call]) -> None:
        """Add the requests that one user of a cassette left unplayed. Those that another has played do not count."""
        calls = set(left)
        self._left[path] = self._left.get(path, calls) & calls
        self._levels[path] = max(level, self._levels.get(path, "ignore"), key=LEVELS.index)

    def add_growth(self, path: str, stale: int) -> None:
        """Add a cassette that a live server extended; `stale` later answers came from the cassette."""
        self._grown[path] = self._grown.get(path, 0) + stale

    def add_inexact(self, path: str, rungs: Mapping[str, int]) -> None:
        """Add inexact answers, by the rung that found them."""
        if rungs:
            self._inexact.setdefault(path, Counter()).update(rungs)

    def expect(self, marked: Iterable[pytest.Item]) -> None:
        self._marked |= by_scope(marked)

    @property
    def is_error(self) -> bool:
        """True if the run has failed, even if no test has."""
        unplayed = any(self._levels[path] == "error" for path in self._unplayed_calls())
        return bool(self.problems or unplayed or self._idle_scopes())

    def for_controller(self) -> dict[str, Any]:
        """The summary, in types that xdist can send."""
        left = [(path, self._levels[path], list(calls)) for path, calls in self._left.items()]
        marked = [(scope, list(tests)) for scope, tests in self._marked.items()]
        lists: dict[str, list[Any]] = {"problems": self.problems, "left": left, "parts": self.parts, "marked": marked}
        lists |= {"grown": list(self._grown.items())}
        lists |= {"inexact": [(path, dict(rungs)) for path, rungs in self._inexact.items()]}
        return {name: list(getattr(self, name)) for name in _SETS} | lists

    def merge(self, sent: dict[str, Any]) -> None:
        for name in _SETS:
            getattr(self, name).update(sent[name])
        self.problems += sent["problems"]
        self.parts += [(path, part) for path, part in sent["parts"]]
        for path, stale in sent["grown"]:
            self.add_growth(path, stale)
        for path, rungs in sent["inexact"]:
            self.add_inexact(path, rungs)
        self._marked |= {scope: set(tests) for scope, tests in sent["marked"]}
        for path, level, calls in sent["left"]:
            self.add_unplayed(path, level, [tuple(call) for call in calls])

    def write(self, reporter: Any, root: Path, *, orphans: bool) -> None:
        live = "none of its tests uses mcp_tape, so they talk to live servers"
        left = self._unplayed_calls().items()
        sections = {
            "recordings": self.problems,
            "markers without effect": [f"{scope}: {live}" for scope in self._idle_scopes()],
            "recorded requests that no test has made": [
                f"{self._levels[path]}: {_short(path, root)}: {list_requests(calls)}" for path, calls in left
            ],
            "answers that were not exact": [
                f"{_short(path, root)}: {describe_rungs(rungs)}" for path, rungs in sorted(self._inexact.items())
            ],
            "new episodes": self._new_episodes(root),
            "cassettes that no test of this run uses": self._orphans(root) if orphans else [],
        }
        for title, lines in sections.items():
            if lines:
                reporter.section(f"mcp-tape: {title}")
            for line in lines:
                reporter.line(line)

    def _unplayed_calls(self) -> dict[str, list[Call]]:
        return {path: sorted(calls) for path, calls in self._left.items() if calls and path not in self.spoiled}

    def _idle_scopes(self) -> list[str]:
        """The marked classes and modules all of whose tests passed without a tape."""
        return sorted(scope for scope, tests in self._marked.items() if tests <= self.idle)

    def _new_episodes(self, root: Path) -> list[str]:
        grown = {path: stale for path, stale in self._grown.items() if path not in self.unfit}
        stale = sum(grown.values())
        if not stale:
            return [f"{count(len(grown), 'cassette')} grew"] if grown else []
        older = f"{count(stale, 'answer')} after a live call came from the old tape"
        return [
            f"{count(len(grown), 'cassette')} grew; {older}",
            *(f"{_short(path, root)}: {grown[path]}" for path in sorted(grown) if grown[path]),
            "To record them again, as a live call may have changed other answers: pytest --mcp-record=rewrite",
        ]

    def _orphans(self, root: Path) -> list[str]:
        from ..cassette.text.recognize import is_named_cassette

        files = (str(path) for place in self.places for path in Path(place).rglob("*.*"))
        found = set(filter(is_named_cassette, files))
        orphans = sorted(found - self.used)
        return [*(os.path.relpath(path, root) for path in orphans), f"{len(orphans)} of {len(found)}"]


def list_requests(calls: list[Call]) -> str:
    """List requests, the first ones one by one."""
    shown = [f"#{seq} of session {session} {what}" for session, seq, what in calls[:_MOST]]
    return "; ".join(shown + ([f"and {len(calls) - _MOST} more"] if len(calls) > _MOST else []))


def describe_rungs(rungs: Mapping[str, int]) -> str:
    """Describe how many answers were inexact, and which rungs found them."""
    return f"{sum(rungs.values())} ({', '.join(f'{number} by {rung}' for rung, number in sorted(rungs.items()))})"


def _short(path: str, root: Path) -> str:
    return path if is_remote(path) else os.path.relpath(path, root)
