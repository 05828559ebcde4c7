"""Commands that make a copy of a cassette do not leave it behind when they are told to end."""

from __future__ import annotations

import signal
import sys

import click

_SIGNALS = ("SIGTERM", "SIGHUP")  # Ctrl-C is an exception already


def tidy_up_when_stopped() -> None:
    """From here to the end of the command, being ended is an exception. Who is deaf to a signal stays so."""
    ctx = click.get_current_context()
    for number in (getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _leave)
            ctx.call_on_close(lambda number=number: signal.signal(number, signal.SIG_DFL))


def _leave(number: int, _: object) -> None:
    sys.exit(128 + number)
