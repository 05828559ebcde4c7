"""Random cases: the same few in every run of the suite, or as many as time allows on request.

MCP_TAPE_FUZZ_SECONDS=600 pytest -n 0 -s tests/end_to_end/test_mutants.py    # ten minutes, seeded by the clock
MCP_TAPE_FUZZ_CASE=1234 pytest -n 0 tests/end_to_end/test_mutants.py         # one case, as named by a failure

Hypothesis has profiles: `quick` in the quick loop, `whole` otherwise, and ten times as many examples on request:

pytest -n 0 tests/replay --hypothesis-profile thorough
"""

from __future__ import annotations

import faulthandler
import itertools
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from hypothesis import settings

from tests.support.warm import WAIT


class Case(Random):
    """A source of randomness that knows its seed."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def cases(few: int) -> Iterator[Case]:
    """`few` cases, always the same ones; or those that the environment requests."""
    only, seconds = os.environ.get("MCP_TAPE_FUZZ_CASE"), os.environ.get("MCP_TAPE_FUZZ_SECONDS")
    numbers: Iterator[int] = iter(range(few))
    if only:
        numbers = iter([int(only)])
    elif seconds:
        end, first = time.monotonic() + float(seconds), time.time_ns()
        numbers = itertools.takewhile(lambda _: time.monotonic() < end, itertools.count(first))
    tried = 0
    for number in numbers:
        print(f"case {number}")  # pytest prints it on failure: the last one has failed
        yield Case(number)
        tried += 1
    print(f"{tried} cases")


def set_profiles() -> None:
    """Register how many examples Hypothesis tries. No test has a deadline: a busy machine is not a failure."""
    for profile, number in (("quick", 10), ("whole", 100), ("thorough", 1000)):
        settings.register_profile(profile, max_examples=number, deadline=None)


def examples(number: int, *base: settings, **more: Any) -> settings:
    """Settings for a test that tries `number` examples in the whole suite, where others try 100."""
    return settings(*base, max_examples=max(1, number * settings.default.max_examples // 100), **more)


class HangError(BaseException):
    """No command may catch it."""


@contextmanager
def bounded(what: object) -> Iterator[None]:
    """Fail if it does not end: Python's own loops with a traceback, SQLite's by ending this process."""

    def hangs(*_: object) -> None:
        raise HangError(f"not done within {WAIT} seconds: {what}")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(WAIT)
    faulthandler.dump_traceback_later(2 * WAIT, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
