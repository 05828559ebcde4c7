"""Directories of recordings in the usual layout of analytics engines: `date=2026-11-18/server=github`.

They only narrow a search: the rows hold the session's own values.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone

from ..cassette.reader import Session
from ..formats.timed_calls import start_time

UNNAMED = "unnamed"
_LONGEST = 64
_ODD = re.compile(r"[^a-z0-9._-]+")


def partition(session: Session) -> str:
    """The directories of a session: the day (UTC) on which it began, and its server."""
    day = datetime.fromtimestamp(start_time(session) // 1_000_000, timezone.utc).date()
    return f"date={day.isoformat()}/server={harmless_name(session.server_name or session.label or '')}"


def harmless_name(server: str) -> str:
    """A server's name as part of a path or URL, on every system: small letters, digits, and `.`, `_`, `-`."""
    return _ODD.sub("-", server.lower())[:_LONGEST].strip(".-") or UNNAMED
