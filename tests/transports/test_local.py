"""Decks of one process for others: it may end without closing them."""

from __future__ import annotations

import os
import shutil

from tests.support.running import WAIT, python, started

FORGETFUL = """
from mcp_tape.transports.local import Door
door = Door(lambda: None, print)
print(door.command[-1])
"""


def test_a_process_that_forgets_a_door_ends() -> None:
    with started(python(FORGETFUL)) as process:
        said, _ = process.communicate(timeout=WAIT)
    shutil.rmtree(os.path.dirname(said.decode().strip()))
    assert process.returncode == 0
