"""The recording process in production: its notes on the cassette, and the cassettes that it hands over."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mcp_tape.cassette.reader import Cassette
from mcp_tape.record.production.sampling import draw_sample
from mcp_tape.record.rotation import CassetteSeries
from mcp_tape.redaction.bodies import HASH_KEY_VARIABLE
from tests.support.messages import call, result
from tests.support.production import record
from tests.support.rows import EXIT, Said, cassettes, texts
from tests.support.running import sessions, until

CALLS: list[Said] = [
    said
    for number in range(60)
    for said in (("client", "stdio", call(number, text="x" * 2000)), ("server", "stdio", result(number)))
]


def manner(path: Path) -> str:
    """The recorder's name and options on a cassette."""
    return sessions(path)[-1].recorder.partition(" ")[2].partition(" ")[2]


def test_a_cassette_says_how_it_was_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HASH_KEY_VARIABLE, raising=False)
    path = tmp_path / "t.db"
    record(path, [EXIT], bodies="none")
    assert manner(path) == "--bodies none"
    assert record(path, [EXIT], bodies="hash", sample=draw_sample(0.005, None)) == [
        "--bodies hash without a key: anyone can check a guess against a hash; set MCP_TAPE_HASH_KEY to a secret"
    ]
    assert manner(path) == "--sample 0.5% --bodies hash"
    assert record(path, [EXIT], bodies="hash", quiet=True) == []
    monkeypatch.setenv(HASH_KEY_VARIABLE, "a secret of some length")
    assert record(path, [EXIT], bodies="hash") == []
    assert manner(path).startswith("--bodies hash:") and "secret" not in manner(path)


def test_every_part_says_so(tmp_path: Path) -> None:
    record(
        tmp_path / "t.db", [*CALLS, EXIT], CassetteSeries(str(tmp_path / "t.db"), 20_000, 20), bodies="hash", quiet=True
    )
    assert {manner(path) for path in cassettes(tmp_path)} == {"--bodies hash"}
    assert len(cassettes(tmp_path)) > 1


def test_every_cassette_is_handed_over_when_it_is_finished(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    said = record(
        tmp_path / "t.db",
        [*CALLS, EXIT],
        CassetteSeries(str(tmp_path / "t.db"), 60_000, 20, is_handed_on=True),
        on_rotate=("cp", "{}", str(there)),
    )
    names = [path.name for path in cassettes(tmp_path)]
    assert said == [f"--on-rotate: {len(names)} done, 0 failed"] and len(names) > 2
    assert [path.name for path in cassettes(there)] == names
    assert texts(there) == texts(tmp_path) == [text for _, _, text in CALLS]
    for path in cassettes(there):  # each was a single file, and closed
        with Cassette(path) as cassette:
            assert all(session.ended_at for session in cassette.sessions())


def test_a_cassette_is_handed_over_once_nothing_of_it_is_in_its_journal(tmp_path: Path) -> None:
    """A reader keeps SQLite from moving a part's last frames from its journal into the file."""
    there = tmp_path / "there"
    there.mkdir()
    row = CassetteSeries(str(tmp_path / "t.db"), 60_000, 20, is_handed_on=True)

    def read_meanwhile() -> Iterator[Said]:
        yield from CALLS[:4]
        until(lambda: texts(tmp_path), "the first calls")
        with closing(sqlite3.connect(tmp_path / "t.db", isolation_level=None)) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM facts").fetchone() > (0,)
            yield from CALLS[4:-2]
            until(lambda: (there / "t-2.db").exists(), "the next cassette")
        yield from CALLS[-2:]
        yield EXIT

    said = record(tmp_path / "t.db", read_meanwhile(), row, on_rotate=("cp", "{}", str(there)), quiet=True)
    assert texts(there) == [text for _, _, text in CALLS]
    assert all("still in its journal" in line for line in said)


def test_a_command_that_fails_does_no_harm(tmp_path: Path) -> None:
    row = CassetteSeries(str(tmp_path / "t.db"), 60_000, 20, is_handed_on=True)
    said = record(tmp_path / "t.db", [*CALLS, EXIT], row, on_rotate=("sh", "-c", "echo no; exit 1 # {}"), quiet=True)
    paths = cassettes(tmp_path)
    assert sorted(said) == sorted(f"--on-rotate has failed for {path}: exit code 1: no" for path in paths)
    assert texts(tmp_path) == [text for _, _, text in CALLS]


@pytest.mark.slow
def test_one_that_hangs_does_not_stop_the_recording(tmp_path: Path) -> None:
    row = CassetteSeries(str(tmp_path / "t.db"), 60_000, 20, is_handed_on=True)
    hangs = ("sh", "-c", "sleep 1000 # {}")
    said = record(tmp_path / "t.db", [*CALLS, EXIT], row, on_rotate=hangs, hook_timeout=0.2, quiet=True)
    assert texts(tmp_path) == [text for _, _, text in CALLS]
    assert {one.partition(": ")[0].rpartition("/")[2] for one in said} == {path.name for path in cassettes(tmp_path)}


def test_a_cassette_that_was_handed_over_is_not_written_again(tmp_path: Path) -> None:
    row = CassetteSeries(str(tmp_path / "t.db"), 10**9, 20, is_handed_on=True)
    for _ in range(3):
        record(tmp_path / "t.db", [*CALLS[:2], EXIT], row, on_rotate=("true", "{}"), quiet=True)
    assert [path.name for path in cassettes(tmp_path)] == ["t.db", "t-2.db", "t-3.db"]
    assert [len(sessions(path)) for path in cassettes(tmp_path)] == [1, 1, 1]


def test_a_failure_counts_even_if_our_parent_ignores_sigchld(tmp_path: Path) -> None:
    row = CassetteSeries(str(tmp_path / "t.db"), 10**9, 20, is_handed_on=True)
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        said = record(tmp_path / "t.db", [EXIT], row, on_rotate=("sh", "-c", "exit 3 # {}"), quiet=True)
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert [one.rpartition(": ")[2] for one in said] == ["exit code 3"]
