"""A VCR for the Model Context Protocol."""

from __future__ import annotations

__all__ = ["CassetteError", "ServerError", "TapeError", "__version__"]

__version__ = "0.1.0"

from .errors import CassetteError, ServerError, TapeError
