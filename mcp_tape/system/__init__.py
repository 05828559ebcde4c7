"""The operating system: calls that differ between POSIX and Windows, under the same names.

`from ..system import calls` gives the module for this system, chosen here and nowhere else; so does `processes`, which
a replay does not need. Must not know MCP, cassettes or recordings.

    posix_calls          Linux and macOS: locks, private files, the user's directories, polling, local connections
    posix_processes      the same: servers that end with us, the recording process, signals, ancestors
    windows_calls        Windows: the names of `posix_calls`
    windows_processes    Windows: the names of `posix_processes`
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from . import posix_calls, posix_processes

    calls, processes = posix_calls, posix_processes
else:

    def __getattr__(name):
        """Load the module for this system on first use."""
        if name not in ("calls", "processes"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = f"{__name__}.{'windows' if os.name == 'nt' else 'posix'}_{name}"
        found = globals()[name] = __import__(module, fromlist=["*"])
        return found
