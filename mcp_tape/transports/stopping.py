"""Being told to stop: a signal ends what is being served, and what comes after it is still done."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

_T = TypeVar("_T")


class _Told(BaseException):
    """Raised wherever the signal finds us; no `except Exception` swallows it."""


def until_told(serve: Callable[[], _T]) -> _T | None:
    """What serving came to; None when a signal ended it. On the main thread only, as signals are."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _Told

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup stays nohup
            signal.signal(number, stop)
    try:
        return serve()
    except _Told:
        return None
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) is stop:
                signal.signal(number, signal.SIG_IGN)  # we are on our way out; once is enough
