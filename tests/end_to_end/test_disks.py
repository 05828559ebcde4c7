"""Disks that tests mount: invisible to other processes, and none stays."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support.running import WAIT, python, receive_line, started

MOUNTING = """
import sys
from pathlib import Path
from tests.support.disks import keep_mounts_private, mounted
keep_mounts_private()
with mounted(Path(sys.argv[1])) as disk:
    (disk / "file").touch()
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif("MOUNTS_ARE_PRIVATE" not in os.environ, reason="file systems cannot be mounted here")
@pytest.mark.slow
def test_a_run_that_is_killed_leaves_no_mount_behind(tmp_path: Path) -> None:
    place = tmp_path / "disk"
    root = Path(__file__).parents[2]
    with started([*python(MOUNTING), str(place)], env=os.environ | {"PYTHONPATH": str(root)}, cwd=root) as process:
        assert receive_line(process.stdout) == b"ready\n"
        assert not (place / "file").exists()
        process.kill()
        assert process.wait(WAIT) == -signal.SIGKILL
    place.rmdir()
