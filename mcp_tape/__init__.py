"""A VCR for the Model Context Protocol.

with mcp_tape.use_cassette("weather.db", command=["uvx", "mcp-server-weather"]) as tape:
    ...  # give tape.command, tape.url or tape.streams() to the client under test
"""

from __future__ import annotations

TYPE_CHECKING = False  # as type checkers know it; typing itself would take longer to load than all the rest
if TYPE_CHECKING:
    from .cassette.query.integrity import Finding
    from .cassette.reader import Cassette, Session
    from .errors import CassetteError, ServerError, TapeError
    from .fleet.lake.run import lake_one
    from .fleet.many.checking import check_one
    from .fleet.many.diffing import diff_one
    from .fleet.many.redacting import redact_one
    from .fleet.many.results import Result
    from .fleet.many.verifying import verify_one
    from .modes import Mode
    from .testing.use import Inexact, Miss, UsedCassette, use_cassette
    from .wire.frames import Exchange, Frame

__version__ = "0.1.0"
__all__ = [
    "Cassette",
    "CassetteError",
    "Exchange",
    "Finding",
    "Frame",
    "Inexact",
    "Miss",
    "Mode",
    "Result",
    "ServerError",
    "Session",
    "TapeError",
    "UsedCassette",
    "__version__",
    "check_one",
    "diff_one",
    "lake_one",
    "redact_one",
    "use_cassette",
    "verify_one",
]

_PLACES = {
    "Cassette": "cassette.reader", "Session": "cassette.reader", "Exchange": "wire.frames", "Frame": "wire.frames",
    "Mode": "modes", "Inexact": "testing.use", "Miss": "testing.use", "UsedCassette": "testing.use",
    "use_cassette": "testing.use", "lake_one": "fleet.lake.run",
    "TapeError": "errors", "CassetteError": "errors", "ServerError": "errors",
    "Finding": "cassette.query.integrity", "Result": "fleet.many.results", "check_one": "fleet.many.checking",
    "diff_one": "fleet.many.diffing", "redact_one": "fleet.many.redacting", "verify_one": "fleet.many.verifying",
}  # fmt: skip

if not TYPE_CHECKING:  # otherwise any name would pass the type check

    def __getattr__(name):
        """Load public names on first use, so that importing mcp_tape is nearly free."""
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f".{_PLACES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
