"""Cassettes in a lake: all rows, exactly once, from any number of runs and machines."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pytest

from mcp_tape.cassette.query import timeline as shown
from mcp_tape.cassette.reader import Cassette
from mcp_tape.fleet.lake import run
from mcp_tape.fleet.lake.columns import TABLES
from mcp_tape.fleet.lake.lakes import LakeError
from mcp_tape.fleet.lake.run import lake_one
from mcp_tape.fleet.many.redacting import redact_one
from mcp_tape.fleet.shards import Shard, content_hash, share
from tests.support.decks import OneSession, alter, make_cassette
from tests.support.golden import GOLDEN, path_of
from tests.support.lakes import everything, files, lake, leftovers, of_two_days, rows, statuses, talk


@pytest.fixture
def dest(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.mark.parametrize("tape", GOLDEN, ids=lambda path: path.stem)
def test_every_message_and_call_of_a_cassette_is_a_row(tape: Path, dest: Path) -> None:
    made = lake_one(str(tape), str(dest))
    with Cassette(tape) as cassette:
        sessions = cassette.sessions()
        said = [row for session in sessions for row in shown.session_rows(cassette, session.id)]
        texts = [shown.whole_text(cassette, row) for row in said]
        calls = [one for session in sessions for one in cassette.exchanges(session.id)]
    assert (made.status, made.details) == ("passed", {"lake": "added"})
    size = sum(path.stat().st_size for path in files(dest))
    assert made.counts == {table: len(rows(dest, table)) for table in TABLES} | {"bytes": size}
    assert [row["session"] for row in rows(dest, "sessions")] == [session.id for session in sessions]
    messages = rows(dest, "messages")
    assert [(row["session"], row["seq"], row["part"]) for row in messages] == [
        (row.session, row.seq, row.part or 0) for row in said
    ]
    assert [shown.decode_text(row["text"] if row["data"] is None else row["data"]) for row in messages] == texts
    found = [(row["session"], row["seq"], row["sender"], row["method"], row["name"]) for row in rows(dest, "calls")]
    assert sorted(found, key=str) == sorted((one[:5] for one in calls), key=str)


def test_a_call_has_its_client_its_tool_and_its_outcome(dest: Path) -> None:
    lake_one(str(path_of("demo")), str(dest))
    call = next(row for row in rows(dest, "calls") if row["method"] == "tools/call")
    told = {name: call[name] for name in "server_name server_version sender name status arguments".split()}
    assert told == {
        "server_name": "demo-weather", "server_version": "1.0", "sender": "client", "name": "forecast",
        "status": "ok", "arguments": '{"city":"Bern"}',
    }  # fmt: skip
    assert call["microseconds"] > 0 and call["request_bytes"] > 0 and call["answer_bytes"] > 0
    assert len(call["key"]) == 32 and len(call["trace_id"]) == 32 and "Sunny" in call["result"]
    assert (call["date"], call["server"]) == ("2026-11-16", "demo-weather")
    assert call["at"].isoformat().startswith("2026-11-16T03:14:51")


# Once -------------------------------------------------------------------------------------------------


def test_a_repeated_run_adds_nothing(dest: Path, tmp_path: Path) -> None:
    tape = of_two_days(tmp_path / "tape.db")
    first = lake_one(tape, dest)
    before = {path: path.stat().st_mtime_ns for path in files(dest)}
    assert len(before) == 3 * 3  # three tables in three partitions
    again = lake_one(tape, dest)
    assert (again.details, again.counts, again.hash) == ({"lake": "there"}, {}, first.hash)
    assert {path: path.stat().st_mtime_ns for path in files(dest)} == before
    assert leftovers(dest) == []


def test_a_copy_under_another_name_is_the_same_source(dest: Path, tmp_path: Path) -> None:
    shutil.copy(path_of("demo"), tmp_path / "copy.db")
    assert statuses(lake([str(path_of("demo")), str(tmp_path / "copy.db")], str(dest))) == ["added", "there"]


@pytest.mark.slow
def test_runs_at_once_add_each_source_once(dest: Path, tmp_path: Path) -> None:
    tapes = [str(path) for path in (*GOLDEN, of_two_days(tmp_path / "tape.db"))]
    with ThreadPoolExecutor(4) as pool:  # each begins with a different cassette
        runs = [pool.submit(lake, [*tapes[n:], *tapes[:n]], str(dest)) for n in range(4)]
        results = [result for one in runs for result in one.result()]
    assert set(statuses(results)) <= {"added", "there"}
    alone = dest.with_name("alone")
    assert set(statuses(lake(tapes, str(alone)))) == {"added"}
    assert everything(dest) == everything(alone)
    assert leftovers(dest) == []


def test_a_continued_recording_is_another_source_of_the_same_sessions(dest: Path, tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "tape.db", talk("one", "a"), started_at="2026-11-16T10:00:00Z")
    first = lake_one(str(tape), str(dest))
    make_cassette(tape, talk("one", "b"), started_at="2026-11-17T10:00:00Z")
    second = lake_one(str(tape), str(dest))
    assert (first.counts["sessions"], second.counts["sessions"]) == (1, 2) and first.hash != second.hash
    sessions = rows(dest, "sessions")
    recordings = {row["recording"] for row in sessions}
    assert (len(sessions), len(recordings)) == (3, 2)
    newest = {row["recording"]: row["cassette"] for row in sessions if row["cassette"] == second.hash}
    assert set(newest) == recordings  # one of each is everything


@pytest.mark.slow
def test_the_documented_query_takes_the_copy_that_was_redacted(dest: Path, tmp_path: Path) -> None:
    """In either order of adding, and with a redacted message or a redacted command."""
    page = (Path(__file__).parents[3] / "docs" / "lake.md").read_text("utf-8")
    (newest,) = re.findall(r"newest = '''(.*?)'''", page, re.S)
    for number in range(12):
        target = json.dumps({"command": ["server", f"word{number}" if number % 2 else "plain"]})
        began = f"2026-11-16T10:00:{number:02}Z"
        tape = make_cassette(tmp_path / f"{number}.db", talk("one", f"word{number}"), started_at=began, target=target)
        copy = tmp_path / f"redacted-{number}.db"
        shutil.copy(tape, copy)
        assert redact_one(str(copy), redact_values=[f"word{number}"]).status == "passed"
        for path in (tape, copy) if number % 3 else (copy, tape):
            assert lake_one(str(path), str(dest)).details["lake"] == "added"
    kept = duckdb.sql(newest.replace("lake/", f"{dest}/")).fetchall()
    redacted = {content_hash(str(tmp_path / f"redacted-{number}.db")) for number in range(12)}
    assert {cassette for cassette, _ in kept} == redacted and len(kept) == 12


@pytest.mark.slow
def test_shares_have_every_source_once(dest: Path) -> None:
    shares = [lake(share(map(str, GOLDEN), Shard(n, 3)), str(dest)) for n in (1, 2, 3)]
    assert set(statuses(result for results in shares for result in results)) == {"added"}
    assert statuses(lake(map(str, GOLDEN), str(dest))) == ["there"] * len(GOLDEN)


# Missing or incomplete cassettes ------------------------------------------------------------------------


def test_a_bad_cassette_is_a_result_and_the_others_are_added(dest: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(path_of("git").read_bytes()[:9000])
    (tmp_path / "no.db").write_bytes(b"no cassette")
    tapes = [
        str(path_of("demo")),
        str(damaged),
        str(tmp_path / "no.db"),
        str(tmp_path / "gone.db"),
        str(path_of("time")),
    ]
    results = lake(tapes, str(dest))
    assert statuses(results) == ["added", "unreadable", "unreadable", "unreadable", "added"]
    assert [result.code for result in results] == [0, 3, 3, 3, 0]
    assert "no cassette" in results[3].findings[0].message and "damaged.db" in results[1].findings[0].message
    assert {row["server"] for row in rows(dest, "messages")} == {"demo-weather", "mcp-time"}
    assert leftovers(dest) == []


def test_a_number_that_no_column_holds_is_an_unreadable_cassette(dest: Path, tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "tape.db", talk("one", "a"))
    alter(tape, f"UPDATE facts SET elapsed = {(1 << 63) - 1}")
    found = lake_one(str(tape), str(dest))
    assert found.status == "unreadable" and "one of its rows has an invalid value" in found.findings[0].message
    assert files(dest) == leftovers(dest) == []


@pytest.mark.parametrize("name", [".", "tape.db/more", "a\0b", "x" * 300, "fifo", "\udcff.db"])
def test_a_path_that_leads_to_no_cassette_is_a_result(dest: Path, tmp_path: Path, name: str) -> None:
    make_cassette(tmp_path / "tape.db", talk("one", "a"))
    os.mkfifo(tmp_path / "fifo")
    found = lake_one(os.path.join(tmp_path, name), dest)
    assert (found.status, found.code, len(found.findings)) == ("unreadable", 3, 1)
    assert files(dest) == leftovers(dest) == []


def test_an_empty_cassette_has_no_rows(dest: Path, tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "tape.db", [])
    alter(tape, "DELETE FROM sessions")
    assert statuses([lake_one(tape, dest)]) == ["there"]
    assert files(dest) == []


def test_an_unfinished_recording_is_left_for_a_later_run(dest: Path, tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "tape.db", talk("one", "a"))
    writer = OneSession(
        tape, {"started_at": "2026-01-01T00:00:00Z", "transport": "stdio", "target": {}, "recorder": "t"}
    )
    try:
        found = lake_one(str(tape), str(dest))
        assert (found.code, found.details, found.hash) == (0, {"lake": "busy"}, None)
        assert "is being recorded" in found.notes[0]
    finally:
        writer.finish({"ended_at": "2026-01-01T00:00:01Z"})
        writer.close()
    assert lake_one(tape, dest).counts["sessions"] == 2
    assert statuses([lake_one(tape, dest)]) == ["there"]


def test_leftovers_of_a_killed_recorder_are_added_once(dest: Path, tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "alive.db", talk("one", "a"))
    writer = OneSession(
        tape, {"started_at": "2026-01-01T00:00:00Z", "transport": "stdio", "target": {}, "recorder": "t"}
    )
    left = tmp_path / "tape.db"
    for ending in ("", "-wal"):
        shutil.copy(f"{tape}{ending}", f"{left}{ending}")
    writer.close()
    assert lake_one(left, dest).counts["sessions"] == 2
    assert statuses([lake_one(left, dest)]) == ["there"]


def test_a_cassette_that_is_replaced_while_it_is_read_is_read_again(
    dest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape = make_cassette(tmp_path / "tape.db", talk("one", "a"))
    other = make_cassette(tmp_path / "other.db", talk("one", "b"))
    really = run.blocks

    def blocks(*given: Any) -> Iterator[Any]:
        yield from really(*given)
        if other.exists():
            os.replace(other, tape)

    monkeypatch.setattr(run, "blocks", blocks)
    found = lake_one(str(tape), str(dest))
    assert found.details == {"lake": "added"}
    assert [row["arguments"] for row in rows(dest, "calls")][1:] == ['{"word":"b"}']
    assert {row["cassette"] for row in rows(dest, "messages")} == {found.hash}
    assert leftovers(dest) == []


def test_a_cassette_that_always_changes_is_given_up(
    dest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape = make_cassette(tmp_path / "tape.db", talk("one", "a"))
    really, times = run.blocks, iter(range(1, 100))

    def blocks(*given: Any) -> Iterator[Any]:
        yield from really(*given)
        os.utime(tape, (0, next(times)))

    monkeypatch.setattr(run, "blocks", blocks)
    found = lake_one(str(tape), str(dest))
    assert found.status == "unreadable" and "changes while it is read" in found.findings[0].message
    assert files(dest) == leftovers(dest) == []


def test_a_lake_of_another_kind_is_one_error(dest: Path) -> None:
    lake_one(str(path_of("demo")), str(dest))
    with pytest.raises(LakeError, match=r"is a lake with content .* choose another place"):
        lake([str(path_of("demo"))], str(dest), content=False)
    refused = lake_one(path_of("time"), dest, content=False)
    assert (refused.status, refused.code, refused.details) == ("failed", 1, {"lake": "unwritten"})
