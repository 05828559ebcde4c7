"""The recording process itself is killed under load: the next process to open the cassette completes it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.record.test_durability import STORM, Storm, linux_only
from tests.support import forked
from tests.support.derived import rebuild_cassette
from tests.support.running import (
    ECHO,
    MCP_TAPE,
    WAIT,
    alive,
    children,
    in_background,
    python,
    record,
    started,
    until,
    writer_of,
)


def rows(cassette: Path, sql: str) -> list[Any]:
    with contextlib.closing(sqlite3.connect(cassette)) as db:
        return db.execute(sql).fetchall()


def has_frames(cassette: Path) -> bool:
    with contextlib.suppress(sqlite3.OperationalError):  # no tables yet
        return bool(rows(cassette, "SELECT 1 FROM facts LIMIT 1"))
    return False


def killed_in_a_storm(cassette: Path, heard: Path, moment: int) -> None:
    """Record until this many bytes have passed, and kill the writer, then all others."""
    command = record(cassette, [*python(STORM), str(heard)])
    with started(command, start_new_session=True, stderr=subprocess.DEVNULL) as process:
        storm = Storm(process)
        with in_background(storm.talk), in_background(storm.listen):
            until(lambda: len(storm.heard) >= moment and heard.exists(), "the storm")
            until(lambda: has_frames(cassette), "the first frame on the tape")
            family = children(process.pid)
            os.kill(writer_of(process.pid, cassette), signal.SIGKILL)
            os.killpg(process.pid, signal.SIGKILL)
            assert process.wait(WAIT) == -signal.SIGKILL
    until(lambda: not any(map(alive, family)), "all of them to end")


@pytest.mark.slow
@linux_only
@pytest.mark.parametrize("seed", range(5))
def test_two_processes_that_open_it_at_once_find_all_messages(tmp_path: Path, seed: int) -> None:
    cassette = tmp_path / "tape.db"
    killed_in_a_storm(cassette, tmp_path / "heard", random.Random(seed).choice([30_000, 300_000, 1_500_000]))
    command = [*MCP_TAPE, "check", str(cassette), "--json"]
    checks = [forked.start(command, stdout=subprocess.PIPE) for _ in range(2)]
    found = [json.loads(check.communicate(timeout=WAIT)[0])["findings"] for check in checks]
    odd = [one["message"] for findings in found for one in findings if one["what"] != "session"]
    assert odd == []  # its row says that it was never closed, and that is all
    assert rows(cassette, "SELECT count(*) FROM sessions WHERE pending IS NOT NULL") == [(0,)]
    before = rows(cassette, "SELECT * FROM derived ORDER BY id")
    assert len(before) == rows(cassette, "SELECT count(*) FROM facts WHERE kind IS NULL")[0][0] > 0
    rebuild_cassette(str(cassette))
    assert rows(cassette, "SELECT * FROM derived ORDER BY id") == before


@linux_only
@pytest.mark.slow
def test_the_writer_has_the_priority_of_the_relay(tmp_path: Path) -> None:
    """With a lower one it would store nothing for seconds on a busy machine, and a kill of the relay would show
    that."""
    cassette = tmp_path / "tape.db"
    with started(record(cassette, ECHO)) as process:
        writer = writer_of(process.pid, cassette)
        assert os.getpriority(os.PRIO_PROCESS, writer) == os.getpriority(os.PRIO_PROCESS, process.pid)
        process.stdin.close()
        assert process.wait(WAIT) == 0
