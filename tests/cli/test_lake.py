"""mcp-tape lake: its output, rows and exit codes, and processes that share the work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.decks import make_cassette
from tests.support.golden import GOLDEN, path_of
from tests.support.lakes import everything, files, lake, leftovers, rows, talk
from tests.support.reading import invoke
from tests.support.running import MCP_TAPE, python, run, started, until
from tests.support.warm import WAIT


@pytest.fixture
def dest(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def test_it_reports_the_added_cassettes(dest: Path, tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "tape.db", talk("one", "a", "b"))
    done = invoke("lake", tape, dest)
    assert done.exit_code == 0 and done.stdout == ""
    first, second = done.stderr.splitlines()
    assert first == f"mcp-tape: {dest}: 1 added"
    assert second.startswith("mcp-tape: new: 1 session, 0 definitions, 3 calls, 6 messages, ")
    assert invoke("lake", tape, dest).stderr == f"mcp-tape: {dest}: 1 there before\n"


def test_directories_and_patterns_are_taken_and_a_bad_cassette_is_a_finding(dest: Path, tmp_path: Path) -> None:
    (tmp_path / "tapes" / "below").mkdir(parents=True)
    make_cassette(tmp_path / "tapes" / "below" / "one.db", talk("one", "a"))
    make_cassette(tmp_path / "two.db", talk("two", "a"))
    (tmp_path / "tapes" / "bad.db").write_bytes(b"no cassette")
    done = invoke("lake", tmp_path / "tapes", tmp_path / "*.db", dest)
    assert done.exit_code == 3
    assert "bad.db is not a cassette" in done.stderr and f"{dest}: 2 added, 1 unreadable" in done.stderr
    assert {row["server"] for row in rows(dest, "calls")} == {"one", "two"}


def test_rows_report_each_outcome(dest: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.db").write_bytes(b"no cassette")
    done = invoke("lake", path_of("demo"), tmp_path / "bad.db", path_of("demo"), dest, "--json", "--shard", "1/1")
    assert done.exit_code == 3 and done.stderr == ""
    one, bad, again = map(json.loads, done.stdout.splitlines())
    assert (one["command"], one["status"], one["lake"], one["shard"], one["of"]) == (
        "lake",
        "passed",
        "added",
        "1/1",
        2,
    )
    assert one["counts"]["calls"] == 5 and len(one["hash"]) == 64
    assert (bad["status"], bad["code"], bad["hash"]) == ("unreadable", 3, None) and "lake" not in bad
    assert (again["lake"], again["hash"], again["counts"]) == ("there", one["hash"], {})


def test_without_content_no_message_text_is_there(dest: Path, tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "tape.db", talk("one", "classified-word"))
    assert invoke("lake", tape, dest, "--no-content").exit_code == 0
    assert "classified-word" not in repr(everything(dest))
    refused = invoke("lake", tape, dest)
    assert refused.exit_code == 1 and "is a lake without content" in refused.stderr


def test_an_unwritable_place_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    done = invoke("lake", path_of("demo"), path_of("time"), tmp_path / "file")
    assert done.exit_code == 1
    assert done.stderr == (
        f"mcp-tape: cannot write the lake {tmp_path / 'file'}: File exists; name a directory that you can write to\n"
    )


@pytest.mark.slow
def test_processes_make_the_same_lake(dest: Path, tmp_path: Path) -> None:
    done = run([*MCP_TAPE, "lake", *map(str, GOLDEN), str(dest), "--jobs", "2", "--json"])
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["cassette"] for row in found] == [str(path) for path in GOLDEN]
    lake(map(str, GOLDEN), str(tmp_path / "alone"))
    assert everything(dest) == everything(tmp_path / "alone")


@pytest.mark.slow
def test_two_runs_at_once_make_the_same_lake(dest: Path, tmp_path: Path) -> None:
    tapes = list(map(str, GOLDEN))
    with (
        started([*MCP_TAPE, "lake", *tapes, str(dest)]) as one,
        started([*MCP_TAPE, "lake", *reversed(tapes), str(dest)]) as other,
    ):
        assert (one.wait(WAIT), other.wait(WAIT)) == (0, 0)
    lake(tapes, str(tmp_path / "alone"))
    assert everything(dest) == everything(tmp_path / "alone") and leftovers(dest) == []


@pytest.mark.slow
def test_a_run_that_is_killed_and_repeated_makes_the_same_lake(dest: Path, tmp_path: Path) -> None:
    tapes = list(map(str, GOLDEN))
    with started([*MCP_TAPE, "lake", *tapes, str(dest)]) as killed:
        until(lambda: len(files(dest, "calls")) > 2, "some of it")
        killed.kill()
        killed.wait(WAIT)
    assert invoke("lake", *tapes, dest).exit_code == 0
    lake(tapes, str(tmp_path / "alone"))
    assert everything(dest) == everything(tmp_path / "alone") and leftovers(dest) == []


@pytest.mark.slow
def test_without_pyarrow_the_error_names_the_extra(dest: Path) -> None:
    missing = "import sys; sys.modules['pyarrow'] = None; from mcp_tape.__main__ import main; sys.exit(main())"
    done = run([*python(missing), "lake", str(path_of("demo")), str(dest)])
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"mcp-tape: a lake needs pyarrow; install it with: pip install 'mcp-tape[lake]'\n"
