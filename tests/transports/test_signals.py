"""Signals end a block as an exception would, and the old handlers are restored after it."""

from __future__ import annotations

import os
import signal

import pytest

from mcp_tape.transports.signals import SIGNALS, exit_on_signal


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in SIGNALS]


def test_after_the_block_signals_have_their_old_effect() -> None:
    before = handlers()
    with exit_on_signal():
        assert not set(handlers()) & set(before)
    assert handlers() == before


def test_a_handler_that_was_set_within_a_block_stays() -> None:
    with exit_on_signal():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def interrupt(number: int) -> None:
    """Send a signal, and another on the way out."""
    with exit_on_signal():
        try:
            os.kill(os.getpid(), number)
        finally:
            os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_leaves_a_block_once(number: int) -> None:
    before = handlers()
    with pytest.raises(SystemExit) as ended:
        interrupt(number)
    assert ended.value.code == 128 + number
    assert handlers() == [signal.SIG_IGN] * len(SIGNALS)  # on our way out
    for each, handler in zip(SIGNALS, before, strict=True):
        signal.signal(each, handler)  # type: ignore[arg-type]
