"""Disks that are small, and full."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.running import run


@contextlib.contextmanager
def mounted(place: Path, size: str = "1m") -> Iterator[Path]:
    """A small file system, where we may make one; else the test is skipped."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    try:
        is_mounted = sys.platform == "linux" and run(mount).returncode == 0
    except FileNotFoundError:
        is_mounted = False
    if not is_mounted:
        pytest.skip("file systems cannot be mounted here")
    try:
        yield place
    finally:
        assert run(["umount", str(place)]).returncode == 0


def fill(place: Path) -> Path:
    """The file that takes all the room there is."""
    ballast = place / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass
    return ballast
