"""Being told to stop: a signal ends what is being served, and what comes after it is still done."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

_T = TypeVar("_T")
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class _Told(BaseException):
    """Raised wherever the signal finds us; no `except Exception` swallows it."""


def until_told(serve: Callable[[], _T]) -> _T | None:
    """What serving came to; None when a signal ended it. On the main thread only, as signals are."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _Told

    _take(stop)
    try:
        return serve()
    except _Told:
        return None
    finally:
        for number in _SIGNALS:
            if signal.getsignal(number) is stop:
                signal.signal(number, signal.SIG_IGN)  # we are on our way out; once is enough


@contextmanager
def tidied_up() -> Iterator[None]:
    """A signal leaves the block as an error would: what it began is ended, and what it put down is taken away."""

    def leave(number: int, frame: FrameType | None) -> None:
        for every in _SIGNALS:
            signal.signal(every, signal.SIG_IGN)  # once is enough
        sys.exit(128 + number)

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    _take(leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is leave:
                signal.signal(number, handler)


def _take(handler: Callable[[int, FrameType | None], None]) -> None:
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup stays nohup
            signal.signal(number, handler)
