"""Disks that are small, and full."""

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
    """Let this process, and all that it starts from now on, see mounts of their own, where we may: whatever becomes of
    them, no mount stays. To be called before there are threads that write files."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) == 0 and libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None) == 0:
        os.environ["MOUNTS_ARE_PRIVATE"] = str(os.getpid())


@contextlib.contextmanager
def mounted(place: Path, size: str = "1m") -> Iterator[Path]:
    """A small file system, where we may make one; else the test is skipped."""
    if os.environ.get("MOUNTS_ARE_PRIVATE") != str(os.getpid()):
        pytest.skip("file systems cannot be mounted here")
    place.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mount(b"tmpfs", bytes(place), b"tmpfs", 0, f"size={size}".encode()) == 0
    try:
        with forked.none():  # they would come from a process that does not see it
            yield place
    finally:
        assert libc.umount2(bytes(place), _MNT_DETACH) == 0  # also while what failed still uses it


def fill(place: Path) -> Path:
    """The file that takes all the room there is."""
    ballast = place / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass
    return ballast
