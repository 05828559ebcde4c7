"""Files that people write: settings and the like. In a stranger's project anything may be in their place."""

from __future__ import annotations

import errno
import os
import stat

_MOST = 16 << 20  # bytes


def read(path: str) -> bytes:
    """Return the whole of a file; OSError for a pipe or a device, which may have no end, and for what is too large."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would keep us waiting for a writer
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", path)
        parts, size = [], 0
        while data := os.read(descriptor, 1 << 20):
            parts.append(data)
            size += len(data)
            if size > _MOST:
                raise OSError(errno.EFBIG, f"it has more than {_MOST >> 20} MiB", path)
        return b"".join(parts)
    finally:
        os.close(descriptor)
