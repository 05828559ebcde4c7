"""Disks that are small or full."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import forked

_CLONE_NEWNS = 0x00020000  # see unshare(2)
_MS_REC, _MS_PRIVATE, _MNT_DETACH = 0x4000, 1 << 18, 2  # see mount(2) and umount2(2)


def keep_mounts_private() -> None:
    """Give this process and its children a private view of mounts, if permitted.

    Then no mount outlives them, however they end. Call it before threads that write files start.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) == 0 and libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None) == 0:
        os.environ["MOUNTS_ARE_PRIVATE"] = str(os.getpid())


@contextlib.contextmanager
def mounted(place: Path, size: str = "1m") -> Iterator[Path]:
    """A small file system; the test is skipped if we may not make one."""
    if os.environ.get("MOUNTS_ARE_PRIVATE") != str(os.getpid()):
        pytest.skip("file systems cannot be mounted here")
    place.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mount(b"tmpfs", bytes(place), b"tmpfs", 0, f"size={size}".encode()) == 0
    try:
        with forked.none():  # they would come from a process that does not see it
            yield place
    finally:
        assert libc.umount2(bytes(place), _MNT_DETACH) == 0  # also while a failed process still uses it


def fill(place: Path) -> Path:
    """Fill the free space with a file, and return it."""
    ballast = place / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass
    return ballast
