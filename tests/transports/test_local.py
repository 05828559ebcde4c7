"""Decks of one process for others: it may end without closing them."""

from __future__ import annotations

import os
import tempfile

from tests.support.running import WAIT, python, started

FORGETFUL = """
from mcp_tape.transports.local import Door
door = Door(lambda: None, print)
print(door.command[-1])
"""


def test_a_process_that_forgets_a_door_ends() -> None:
    with (
        tempfile.TemporaryDirectory() as place
    ):  # the process leaves its socket there; `tmp_path` may be too long for it
        with started(python(FORGETFUL), env=os.environ | {"TMPDIR": place}) as process:
            said, _ = process.communicate(timeout=WAIT)
        assert said.decode().startswith(place)
    assert process.returncode == 0
