"""How much memory the process that asks has needed. Imports next to nothing: what asks is what is measured."""

from __future__ import annotations

import resource


def peak() -> int:
    """The most memory that this process ever had, in bytes."""
    try:
        with open("/proc/self/status") as status:
            # What getrusage says on Linux would count what the parent had when it started this process.
            return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM:"))
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # in bytes on macOS
