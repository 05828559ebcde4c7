"""The options of recording in production."""

from __future__ import annotations

from ...light import NamedTuple

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from ...wire.frames import Frame, LedgerEntry
    from ..tape import OpenSession
    from .sampling import Sample

    class SpanSender(Protocol):
        """Sends a span for each call as it ends."""

        sent: int
        dropped: int

        def see(self, session: OpenSession, frame: Frame, entries: list[LedgerEntry]) -> None: ...

        def leave(self, session: OpenSession, goes_on: bool) -> None: ...

        def finish(self, alive: Callable[[], None]) -> None: ...


HOOK_TIMEOUT = 60.0  # seconds


class Production(NamedTuple):
    sample: Sample | None = None
    bodies: str = "full"
    on_rotate: tuple[str, ...] = ()  # the words of a command
    hook_timeout: float = HOOK_TIMEOUT
    spans: Callable[[Callable[[str], None]], SpanSender] | None = None  # called in the recording process
    quiet: bool = False  # report only failures
