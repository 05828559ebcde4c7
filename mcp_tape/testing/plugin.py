"""The tapes of one pytest run: each test's tape, its end, and the failures that it causes."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..errors import TapeError, TapeWarning, count
from . import failures, idle_marks, tape_settings
from .failures import TapeUse, Trouble
from .shared import Recordings, finish, keep_recordings
from .tape_settings import TapeSettings, refuse
from .terminal_summary import RunSummary, list_requests

if TYPE_CHECKING:
    from .use import UsedCassette

_ENDED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)


class Tapes:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._recordings = Recordings(self._open_tape, is_alone=not hasattr(config, "workeroutput"))
        self._own: dict[str, TapeUse] = {}
        self._made: list[TapeUse] = []
        self._passed: set[str] = set()
        self._failed: set[str] = set()
        self._asking: Callable[[], str] = str  # returns the id of the test that opens a tape
        self._explains: Trouble | None = None  # the failure to report next
        self._names: Counter[str | None] | None = None
        self.summary = RunSummary()

    def settings(self) -> str:
        return tape_settings.describe_settings(self._config)

    # -- for fixtures

    def of_test(self, item: pytest.Item, configured: dict[str, Any]) -> UsedCassette:
        want = tape_settings.resolve_tape(self._config, tape_settings.marks_of(item), configured)
        place = tape_settings.place_of(item, self._config, want.directory)
        path = tape_settings.path_of(item, place, want)
        is_shared = want.name is not None and self._count_users(item, want.name) != 1
        self._asking = partial(tape_settings.id_of, item)
        tape = self._open(path, place, want, item.nodeid, is_shared=is_shared)
        self._own[item.nodeid] = TapeUse(tape, want.unplayed, want.inexact, is_shared=is_shared)
        return tape

    def make(self, name: str, *, directory: str | os.PathLike[str] | None = None, **given: Any) -> UsedCassette:
        """Open a tape for all tests that use the factory, directly or through other fixtures."""
        want = tape_settings.resolve_tape(self._config, [{"name": name, "dir": directory} | given], {})
        place = tape_settings.place_of(None, self._config, want.directory)
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
        self._asking = lambda: test
        tape = self._open(
            tape_settings.path_for_name(place, want.name or "", want.format), place, want, test, is_shared=True
        )
        self._made.append(TapeUse(tape, want.unplayed, want.inexact, is_shared=True, is_made=True))
        return tape

    def end_factory_tapes(self) -> None:
        trouble = failures.find_trouble(self._made, str)  # of the fixtures that have just ended
        self.summary.problems += [trouble.text] if trouble else []
        for use in self._made:
            inexact = use.new_inexact()
            self.summary.add_inexact(use.tape.path, Counter(one.rung for one in inexact))
            if inexact and use.inexact == "error":
                self.summary.problems.append(failures.describe_inexact(use.tape.path, inexact))
            self.summary.add_unplayed(use.tape.path, use.unplayed, use.unmade_calls())
            self.summary.problems += self._unstruck_problems(use, warnings.warn)
            self.summary.problems += finish(use.tape, keep=True)
            self._count_growth(use.tape)
        self._made.clear()

    # -- for tests

    def check_passed(self, item: pytest.Item, when: str) -> None:
        """Fail a test whose calls were not on its tape, or that left recorded calls unmade."""
        if when == "setup":
            idle_marks.check_before(item)
            return  # misses of fixtures are reported with the test's own
        # A failed unittest case does not raise here: it would be reported instead of our failure.
        trouble = self._explains = self._find_trouble(item)
        problems = [trouble.text] if trouble else []
        problems += [text for use, text in self._new_inexact(item) if use.inexact == "error"]
        if when == "teardown":
            problems += self._end(item, keep=not problems and item.nodeid in self._passed)
        own = self._own.get(item.nodeid)
        if not problems and own is not None:
            problems += self._unstruck_problems(own, item.warn)
        if not problems and own is not None and not own.is_shared:
            problems += self._unplayed_problems(own, item)
        if problems:
            refuse("\n".join(problems))
        if when == "call":
            idle_marks.check_own(item)

    def explain_failure(self, item: pytest.Item, when: str) -> None:
        """Keep a possible explanation of a failure; it causes no other."""
        inexact = [text for _, text in self._new_inexact(item)]
        self._explains = self._find_trouble(item) or failures.inexact_reason(inexact)
        if when == "teardown":
            self._end(item, keep=False)

    def note_report(self, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
        test = item.nodeid
        if report.when == "setup":  # perhaps a rerun
            self._passed.discard(test)
            self._failed.discard(test)
        explains, self._explains = self._explains, None
        if report.failed:
            self._failed.add(test)
            if explains is not None and not (call.excinfo and explains.text in str(call.excinfo.value)):
                failures.explain(report, explains)
        elif report.passed and report.when == "call":
            self._passed.add(test)
        if report.when == "call" and report.passed and idle_marks.is_idle(item):
            self.summary.idle.add(test)
        for use in self._made if _has_factory(item) else ():
            self._recordings.add_user(test, use.tape.path)
            if report.failed:
                self.summary.spoiled.add(use.tape.path)

    def _find_trouble(self, item: pytest.Item) -> Trouble | None:
        return failures.find_trouble(self._uses(item), partial(tape_settings.id_of, item))

    def _uses(self, item: pytest.Item) -> list[TapeUse]:
        return [*filter(None, [self._own.get(item.nodeid)]), *self._made]

    def _new_inexact(self, item: pytest.Item) -> list[tuple[TapeUse, str]]:
        """Count the inexact answers since the last call, and warn about them. Return descriptions."""
        found = []
        for use in self._uses(item):
            inexact = use.new_inexact()
            if inexact:
                self.summary.add_inexact(use.tape.path, Counter(one.rung for one in inexact))
                found.append((use, failures.describe_inexact(use.tape.path, inexact)))
                if use.inexact == "warn":
                    item.warn(TapeWarning(found[-1][1]))
        return found

    def _unplayed_problems(self, use: TapeUse, item: pytest.Item) -> list[str]:
        left = use.unmade_calls()
        text = f"{count(len(left), 'recorded request')} not made on {use.tape.path}: {list_requests(left)}"
        if left and use.unplayed == "warn":
            item.warn(TapeWarning(text))
        return [text] if left and use.unplayed == "error" else []

    def _unstruck_problems(self, use: TapeUse, warn: Callable[[Warning], None]) -> list[str]:
        """Warn about unused faults: the test has not tested what it should. Return problems."""
        text = use.tape._unstruck_in_words()
        if text and use.unplayed != "error":
            warn(TapeWarning(text))
        return [text] if text and use.unplayed == "error" else []

    def _end(self, item: pytest.Item, *, keep: bool) -> list[str]:
        """End the use of a test's tape. Return the problems."""
        from ..cassette.file import file_state

        use = self._own.pop(item.nodeid, None)
        if use is None:
            return []
        if use.is_shared:
            if item.nodeid in self._failed:
                self.summary.spoiled.add(use.tape.path)
            self.summary.add_unplayed(use.tape.path, use.unplayed, use.unmade_calls())
            problems = finish(use.tape, keep=keep)
            self._count_growth(use.tape)
            return problems
        before = file_state(use.tape.path)
        problems = finish(use.tape, keep=keep)
        if keep and not problems:
            self._count_growth(use.tape)
            if use.tape.is_recording:
                self._warn_of_nothing(item, use.tape, is_same=file_state(use.tape.path) == before)
        self._recordings.unlock(use.tape.path)
        return problems

    def _count_growth(self, tape: UsedCassette) -> None:
        if tape.mode == "new_episodes" and tape.grew:
            self.summary.add_growth(tape.path, tape.stale)

    def _warn_of_nothing(self, item: pytest.Item, tape: UsedCassette, *, is_same: bool) -> None:
        from ..modes import can_play

        if tape.is_of_nothing:
            item.warn(TapeWarning(f"{tape.path} is a recording of nothing: the test has made no call"))
        elif is_same and not tape._is_as_before and not tape.play_count and can_play(tape.path):
            item.warn(TapeWarning(f"nothing was recorded on {tape.path}: the test has made no call"))

    # -- for the run

    def count_as_used(self, items: Iterable[pytest.Item]) -> None:
        """Count the cassettes of tests as used, even if the tests do not run."""
        for item in items:
            try:
                want = tape_settings.resolve_tape(self._config, tape_settings.marks_of(item), {})
            except pytest.fail.Exception:
                continue  # reported when it runs
            place = tape_settings.place_of(item, self._config, want.directory)
            self.summary.places.add(str(place))
            if "mcp_tape" in getattr(item, "fixturenames", ()):
                self.summary.used.add(str(tape_settings.path_of(item, place, want)))

    def finish(self, session: pytest.Session) -> None:
        """End the run: keep recordings shared by several tests if none of them failed."""
        for use in self._own.values():  # interrupted
            finish(use.tape, keep=False)
            self._recordings.unlock(use.tape.path)
        stopped = bool(session.shouldfail or session.shouldstop or session.exitstatus not in _ENDED)
        self.summary.problems += self._recordings.finish(self._failed, stopped=stopped)
        self.summary.parts += self._recordings.parts
        self.summary.unfit |= self._recordings.unfit
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output["mcp_tape"] = self.summary.for_controller()
            return
        self.summary.problems += keep_recordings(self.summary.parts, self.summary.unfit, stopped=stopped)
        if self.summary.is_error and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    # -- how

    def _open(self, path: Path | str, place: Path, want: TapeSettings, test: str, *, is_shared: bool) -> UsedCassette:
        self.summary.used.add(str(path))
        self.summary.places.add(str(place))
        if want.name is not None:  # each test has recorded its own part
            want = want._replace(keywords={"session": "all"} | dict(want.keywords))
        return self._recordings.open(path, want, test, is_shared=is_shared)

    def _open_tape(self, path: Path | str, want: TapeSettings) -> UsedCassette:
        from .. import use_cassette

        try:
            return use_cassette(path, **want.keywords)
        except (TapeError, ValueError, OSError) as error:
            text = "\n".join(filter(None, (str(error), self._advice(path, want))))
            raise pytest.fail.Exception(text, pytrace=False) from None

    def _advice(self, path: Path | str, want: TapeSettings) -> str | None:
        from ..modes import is_recorded

        if want.mode == "none":
            try:
                known = all(is_recorded(str(path), label) for label in want.labels)
                return None if known else f"To record it: {failures.record_command(self._asking(), 'once')}"
            except TapeError:
                return None
        if want.has_server:
            return None
        return "Give the live server to the marker or to mcp_tape_config: server=[...], url=... or servers={...}"

    def _count_users(self, item: pytest.Item, name: str) -> int:
        """The number of tests of this run whose marks give a cassette this name."""
        if self._names is None:
            self._names = Counter(map(tape_settings.name_of, item.session.items))
        return self._names[name]


def _has_factory(item: pytest.Item) -> bool:
    """Return whether a test uses the factory, also through a dynamically requested fixture."""
    return "mcp_tape_factory" in getattr(getattr(item, "_request", item), "fixturenames", ())
