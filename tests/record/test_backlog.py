"""The backlog: never more than can be stored soon after a kill."""

from __future__ import annotations

import os
from itertools import count

import pytest

from mcp_tape.record.backlog import Backlog
from tests.support.running import until

LINES = b'{"jsonrpc":"2.0","method":"x"}\n' * 2_000


class Clock:
    """Shows the time that it is set to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def accepted(writer: int, at_least: int) -> int:
    """The number of bytes that a pipe takes before it stays full, up to a limit."""
    os.set_blocking(writer, False)
    taken, full = 0, 0

    def is_full() -> bool:
        nonlocal taken, full
        try:
            taken += os.write(writer, LINES)
            full = 0
        except BlockingIOError:
            full += 1
        return full > 30 or taken > at_least

    until(is_full, "a full pipe")
    return taken


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize(("seconds", "lines"), [(10.0, False), (0.001, True)])
def test_a_slow_writer_lets_little_wait_and_a_fast_one_much(seconds: float, lines: bool) -> None:
    reader, writer = os.pipe()
    clock = Clock()
    backlog = Backlog(reader, clock)
    for _ in range(4):  # each time, the previous batch took this long to store
        accepted(writer, len(LINES))
        clock.now += seconds
        backlog.take()
    enough = 5 * len(LINES)
    assert (accepted(writer, enough) > enough) == lines
    os.close(writer)
    while backlog.take():
        pass


def test_records_are_taken_in_order_and_without_loss() -> None:
    reader, writer = os.pipe()
    backlog = Backlog(reader)
    numbers = count()
    sent = b""
    for _ in range(50):
        more = b"".join(b"%d\n" % next(numbers) for _ in range(100))
        os.write(writer, more)
        sent += more
    os.close(writer)
    assert b"".join(iter(lambda: b"".join(backlog.take()), b"")) == sent
    assert backlog.closed
