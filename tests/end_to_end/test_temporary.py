"""A run of these tests leaves nothing behind, even when it is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.running import WAIT, python, receive_line, started

HOLD = python(
    "import sys; from tests.support import provision; print(provision.temporary(), flush=True); sys.stdin.read()"
)


@pytest.mark.slow
def test_the_directory_of_a_killed_run_goes_with_the_next_and_that_of_another_run_stays() -> None:
    with started(HOLD) as killed, started(HOLD) as other:
        assert killed.stdout and other.stdout and other.stdin
        left, used = (Path(receive_line(process.stdout).decode().strip()) for process in (killed, other))
        killed.kill()
        killed.wait(WAIT)
        with started(HOLD) as following:
            assert following.stdout and following.stdin
            own = Path(receive_line(following.stdout).decode().strip())
            assert (left.exists(), used.exists(), own.exists()) == (False, True, True)
            following.stdin.close()
            assert following.wait(WAIT) == 0
        other.stdin.close()
        assert other.wait(WAIT) == 0
    assert not used.exists() and not own.exists()
