"""What was asked for by the options of recording in production."""

from __future__ import annotations

from ...light import NamedTuple

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from .sampling import Sample

HOOK_TIMEOUT = 60.0  # seconds


class Production(NamedTuple):
    sample: Sample | None = None
    bodies: str = "full"
    on_rotate: tuple[str, ...] = ()  # the words of a command
    hook_timeout: float = HOOK_TIMEOUT
    otlp: str | None = None  # the URL of a collector
    quiet: bool = False  # say only what went wrong
