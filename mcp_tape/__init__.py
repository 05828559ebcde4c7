"""A VCR for the Model Context Protocol.

with mcp_tape.use_cassette("weather.db", command=["uvx", "mcp-server-weather"]) as tape:
    ...  # give tape.command, tape.url or tape.streams() to the client under test
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import CassetteError, ServerError, TapeError

if TYPE_CHECKING:
    from .cassette import Cassette, Session
    from .frames import Exchange, Frame
    from .using import Miss, UsedCassette, use_cassette

__version__ = "0.1.0"
__all__ = [
    "Cassette",
    "CassetteError",
    "Exchange",
    "Frame",
    "Miss",
    "ServerError",
    "Session",
    "TapeError",
    "UsedCassette",
    "__version__",
    "use_cassette",
]

_PLACES = {
    "Cassette": "cassette", "Session": "cassette", "Exchange": "frames", "Frame": "frames",
    "Miss": "using", "UsedCassette": "using", "use_cassette": "using",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Public names are loaded when they are used: importing mcp_tape is nearly free."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_PLACES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
