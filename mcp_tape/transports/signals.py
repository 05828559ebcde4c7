"""Signals that ask us to stop, and signals that we pass on to the program behind us.

The first kind ends serving; the code after it still runs.
"""

from __future__ import annotations

import sys

from ..light import signal as signal

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import FrameType
    from typing import TypeVar

    _T = TypeVar("_T")

# The last one is of Windows: Ctrl-Break.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK") if hasattr(signal, name))
# Not passed on: signals that can't be caught, that stop our whole process group, or that report our own faults, limits
# and children.
_OURS = (
    "KILL STOP TSTP TTIN TTOU CHLD PIPE SEGV BUS FPE ILL TRAP SYS EMT XCPU XFSZ".split()  # see signal(7)
)
OTHERS = frozenset(signal.valid_signals()) - {*SIGNALS, *(getattr(signal, f"SIG{name}", 0) for name in _OURS)}


class _StopSignal(BaseException):
    """Raised wherever the signal arrives; not caught by `except Exception`."""


def run_until_stopped(serve: Callable[[], _T], heard: Callable[[int], object] = int) -> _T | None:
    """Return the result of serving; None if a signal ended it. `heard` is called with that signal.

    For the main thread, where Python handles signals.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise _StopSignal(number)

    _set_handlers(stop)
    try:
        return serve()
    except _StopSignal as stopped:
        heard(int(stopped.args[0]))
        return None
    finally:
        for number in SIGNALS:
            if signal.getsignal(number) is stop:
                signal.signal(number, signal.SIG_IGN)  # we are stopping already


def exit_on_signal() -> AbstractContextManager[None]:
    """Let a signal leave the block as an exception, so that its clean-up runs."""
    from contextlib import contextmanager

    return contextmanager(_exit_on_signal)()


def _exit_on_signal() -> Iterator[None]:
    def leave(number: int, frame: FrameType | None) -> None:
        for every in SIGNALS:
            signal.signal(every, signal.SIG_IGN)  # we are stopping already
        sys.exit(128 + number)

    before = {number: signal.getsignal(number) for number in SIGNALS}
    _set_handlers(leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is leave:
                signal.signal(number, handler)


def call_at_signal(loop: asyncio.AbstractEventLoop, number: int, stop: Callable[[], None]) -> None:
    """Call a function at a signal, unless it is ignored: nohup stays nohup."""
    if signal.getsignal(number) is signal.SIG_IGN:
        return
    try:
        loop.add_signal_handler(number, stop)
    except NotImplementedError:  # the loops of Windows
        signal.signal(number, lambda *_: stop())


def _set_handlers(handler: Callable[[int, FrameType | None], None]) -> None:
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup stays nohup
            signal.signal(number, handler)
