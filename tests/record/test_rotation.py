"""A series of cassettes: when the next begins and how, which are removed, and that no message is lost."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mcp_tape.cassette.change.remove import remove
from mcp_tape.cassette.query.parts import Links, links
from mcp_tape.cassette.reader import Cassette
from mcp_tape.cassette.writer import Writer
from mcp_tape.contracts.reasons import reasons
from mcp_tape.record.rotation import CassetteSeries, mark_handed_on
from mcp_tape.wire.channels import HTTP, STDERR, STDIO
from tests.support.disks import fill, mounted
from tests.support.kills import fork_with, until_it_lives
from tests.support.messages import call, request, result, tell
from tests.support.promises import CASSETTES
from tests.support.rows import EXIT, LEAVE, Said, answered, cassettes, parts, posted, record_into, texts
from tests.support.running import ECHO, MCP_TAPE, WAIT, frames, is_one_file, receive_line, run, send, started, until

fork_with(__name__)
FILLING = "x" * 2000
HELLO = ("initialize", {"protocolVersion": "2025-06-18", "clientInfo": {"name": "c", "version": "1"}})
SERVER = {"protocolVersion": "2025-06-18", "serverInfo": {"name": "s", "version": "1"}}
INTRODUCTION: list[Said] = [
    ("client", STDIO, request("hello", HELLO[0], **HELLO[1])),
    ("server", STDIO, json.dumps({"jsonrpc": "2.0", "id": "hello", "result": SERVER})),
    ("client", STDIO, tell("notifications/initialized")),
]


def calls(first: int, number: int) -> Iterator[Said]:
    """Calls, each answered before the next one."""
    for rpc_id in range(first, first + number):
        yield "client", STDIO, call(rpc_id, text=FILLING)
        yield "server", STDIO, result(rpc_id)


def said_in(said: list[Said]) -> list[str]:
    return [what for _, channel, what in said if isinstance(what, str) and channel != STDERR]


def row_in(directory: Path, size: int = 100_000, kept: int = 100) -> CassetteSeries:
    return CassetteSeries(str(directory / "t.db"), size, kept)


# -- the series


def test_the_first_has_the_name_itself(tmp_path: Path) -> None:
    assert row_in(tmp_path / "none").newest() == str(tmp_path / "none" / "t.db")


@pytest.mark.parametrize(("size", "expected"), [(9, "t.db"), (10, "t-2.db"), (11, "t-2.db")])
def test_the_next_begins_when_the_size_is_reached(tmp_path: Path, size: int, expected: str) -> None:
    (tmp_path / "t.db").write_bytes(bytes(size))
    assert row_in(tmp_path, 10).newest() == str(tmp_path / expected)


def test_the_next_begins_where_the_newest_is_known_to_be_full(tmp_path: Path) -> None:
    (tmp_path / "t.db").touch()
    assert row_in(tmp_path, 10).newest(str(tmp_path / "t.db")) == str(tmp_path / "t-2.db")


def test_the_journal_counts_too_and_others_files_do_not(tmp_path: Path) -> None:
    for name, size in (("t.db", 50), ("t-2.db", 6), ("t-2.db-wal", 6), ("t-x.db", 0), ("t-99.txt", 0), ("tt-7.db", 0)):
        (tmp_path / name).write_bytes(bytes(size))
    assert row_in(tmp_path, 10).newest() == str(tmp_path / "t-3.db")


def test_the_oldest_go_unless_they_are_in_use_or_no_cassettes(tmp_path: Path) -> None:
    for number in ("", "-2", "-3", "-4"):
        shutil.copyfile(CASSETTES / "demo.db", tmp_path / f"t{number}.db")
    (tmp_path / "t.db").write_text("notes")
    row = row_in(tmp_path, 10, 2)
    with closing(Writer(str(tmp_path / "t-2.db"))):
        row.prune(row.newest())
        assert [path.name for path in cassettes(tmp_path)] == ["t.db", "t-2.db", "t-4.db"]
    row.prune(row.newest())
    assert [path.name for path in cassettes(tmp_path)] == ["t.db", "t-4.db"]


def test_the_current_cassette_is_never_removed(tmp_path: Path) -> None:
    shutil.copyfile(CASSETTES / "demo.db", tmp_path / "t.db")
    row = row_in(tmp_path, 10**9, 1)
    row.prune(row.newest())
    assert (tmp_path / "t.db").exists()


# -- a session that goes on in the next


@pytest.mark.slow
def test_a_session_goes_on_in_the_next_and_loses_nothing(tmp_path: Path) -> None:
    said = [*INTRODUCTION, *calls(0, 200), EXIT]
    report = record_into(row_in(tmp_path), said)
    assert texts(tmp_path) == said_in(said)
    row = cassettes(tmp_path)
    assert len(row) > 3 and [f"cassette {path}" for path in row[1:]] == [line for line in report if "cassette" in line]
    assert all(is_one_file(path) and path.stat().st_size < 200_000 for path in row)
    assert report[-1].split(" ")[:5] == ["done", str(len(said) + len(row) - 1), "201", "0", "0"]


@pytest.mark.slow
def test_no_exchange_is_split_and_each_part_is_complete(tmp_path: Path) -> None:
    record_into(row_in(tmp_path), [*INTRODUCTION, *calls(0, 200), LEAVE, EXIT])
    names = [path.name for path in cassettes(tmp_path)]
    for number, path in enumerate(cassettes(tmp_path)):
        with Cassette(path) as cassette:
            (session,) = cassette.sessions()
            assert cassette.counts(session.id)["open"] == 0 and session.incomplete is None
            assert (session.client_name, session.server_name, session.protocol_version) == ("c", "s", "2025-06-18")
            assert session.exit_code == (0 if path.name == names[-1] else None) and session.ended_at
            before, behind = names[number - 1] if number else None, (*names, None)[number + 1]
            assert links(cassette, session.id) == Links(before, behind)
            assert list(reasons(cassette, [session.id])) == []
    wanted = [request(1, HELLO[0], **HELLO[1]), call(2, text=FILLING)]
    last = [json.loads(one)["id"] for one in texts(tmp_path) if "tools/call" in one][-1]
    done = run([*MCP_TAPE, "replay", str(tmp_path / names[-1])], "".join(one + "\n" for one in wanted).encode())
    assert len(done.stdout.splitlines()) == 2 and last, done.stderr


@pytest.mark.slow
def test_a_call_that_hangs_is_split_at_twice_the_size_once(tmp_path: Path) -> None:
    hangs: Said = ("client", STDIO, call("hangs"))
    said = [*INTRODUCTION, hangs, *calls(0, 400), ("server", STDIO, result("hangs")), EXIT]
    record_into(row_in(tmp_path), said)
    assert texts(tmp_path) == said_in(said)
    row = cassettes(tmp_path)
    sizes = [path.stat().st_size for path in row]
    assert sizes[0] >= 200_000 and max(sizes[1:]) < 200_000
    with Cassette(row[0]) as first, Cassette(row[-1]) as last:
        assert first.session(1).incomplete == "1 request had no answer yet when it went on in t-2.db"
        assert [reason.rule for reason in reasons(first, [1])] == ["incomplete"]
        assert last.counts(1)["open"] == 0 and last.session(1).incomplete is None


@pytest.mark.slow
def test_calls_that_always_overlap_are_split_at_three_times_the_size(tmp_path: Path) -> None:
    first: Said = ("client", STDIO, call(0, text=FILLING))
    pairs = ((("client", STDIO, call(n + 1, text=FILLING)), ("server", STDIO, result(n))) for n in range(400))
    said = [*INTRODUCTION, first, *(one for pair in pairs for one in pair), EXIT]
    record_into(row_in(tmp_path), said)
    assert texts(tmp_path) == said_in(said)
    row = cassettes(tmp_path)
    assert len(row) > 1 and all(300_000 <= path.stat().st_size < 400_000 for path in row[:-1])
    with Cassette(row[1]) as cassette:
        answers = [
            frame for frame in cassette.frames(1) if frame.sender == "server" and b'"tools/call"' not in frame.text
        ]
        assert cassette.counts(1)["exchanges"] == sum(b'"result"' in frame.text for frame in answers)


def test_server_requests_are_not_split_any_more_than_client_requests(tmp_path: Path) -> None:
    asks: Said = ("server", STDIO, request("asks", "roots/list"))
    record_into(row_in(tmp_path), [*INTRODUCTION, asks, *calls(0, 100), EXIT])
    (first, *_) = cassettes(tmp_path)
    assert first.stat().st_size >= 200_000
    assert [frame.text.decode() for frame in frames(cassettes(tmp_path)[1])].count(asks[2]) == 1


def test_a_line_that_is_not_whole_goes_on_in_the_next_part(tmp_path: Path) -> None:
    """In pieces: half of a line is on stderr when the cassette is full."""
    halves = [("server", STDERR, "ha"), *calls(0, 60), ("server", STDERR, "lf\n"), EXIT]
    record_into(row_in(tmp_path), [*INTRODUCTION, *halves])
    assert len(cassettes(tmp_path)) > 1
    assert [frame.text for part in parts(tmp_path) for frame in part if frame.kind == "stderr"] == [b"half"]


def test_open_streams_over_http_go_on_and_sessions_without_news_do_not(tmp_path: Path) -> None:
    def post(number: int, body: str, answer: str, session: str) -> Iterator[Said]:
        yield from posted(f"post-{number}", body, session)
        yield from answered(f"post-{number}", 200, answer, session)

    stream = {"content-type": "text/event-stream"}
    said: list[Said] = [
        *post(1, str(INTRODUCTION[0][2]), str(INTRODUCTION[1][2]), "one"),
        *post(2, str(INTRODUCTION[0][2]), str(INTRODUCTION[1][2]), "two"),
        ("client", "get-1", {"event": "request", "verb": "GET", "path": "/mcp", "headers": {"mcp-session-id": "one"}}),
        ("server", "get-1", {"event": "response", "status": 200, "headers": stream | {"mcp-session-id": "one"}}),
        *(one for number in range(3, 90) for one in post(number, call(number, text=FILLING), result(number), "one")),
        ("server", "get-1", f"data: {tell('notifications/x')}\n\n"),
        ("server", "", {"event": "stop"}),
    ]
    record_into(row_in(tmp_path), said, transport=HTTP)
    row = cassettes(tmp_path)
    assert len(row) > 1
    with Cassette(row[0]) as first, Cassette(row[-1]) as last:
        assert len(first.sessions()) == 2 and [session.incomplete for session in first.sessions()] == [None, None]
        (session,) = last.sessions()
        assert session.server_name == "s" and session.incomplete is None
        known = [frame.channel for frame in last.frames(session.id) if frame.kind == "control"]
        assert known[:4] == ["tape", "post-1", "post-1", "post-1"] and "get-1" in known
    assert texts(tmp_path).count(tell("notifications/x")) == 1
    assert sum("tools/call" in text for text in texts(tmp_path)) == 87


def test_a_post_is_not_split_though_it_begins_no_exchange(tmp_path: Path) -> None:
    def said() -> Iterator[Said]:
        yield from (*posted("post-1", str(INTRODUCTION[0][2])), *answered("post-1", 200, str(INTRODUCTION[1][2])))
        yield from posted("post-2", tell("notifications/x", filling="x" * 60_000))
        until(lambda: any("notifications/x" in text for text in texts(tmp_path)), "the cassette to be full")
        yield from (*posted("post-3", tell("notifications/y")), *answered("post-3", 202))
        until(lambda: tell("notifications/y") in texts(tmp_path), "what came meanwhile")
        yield from (*answered("post-2", 202), *posted("post-4", call(4)), *answered("post-4", 200, result(4)))
        yield "server", "", {"event": "stop"}

    record_into(row_in(tmp_path, size=60_000), said(), transport=HTTP)
    with Cassette(cassettes(tmp_path)[0]) as first:
        channels = [frame.channel for frame in first.frames(1)]
    assert len(cassettes(tmp_path)) == 2
    assert (channels.count("post-2"), channels.count("post-3")) == (4, 4)


def test_a_row_that_cannot_go_on_stays_where_it_is(tmp_path: Path) -> None:
    said = [*INTRODUCTION, *calls(0, 200), EXIT]

    def obstructed() -> Iterator[Said]:
        (tmp_path / "t-2.db").mkdir()
        yield from said

    report = record_into(row_in(tmp_path), obstructed())
    assert [line for line in report if "is full, but the next cassette cannot be created" in line] and report[
        -1
    ].endswith(" 0 ")
    (tmp_path / "t-2.db").rmdir()
    assert texts(tmp_path) == said_in(said)


@pytest.mark.slow
def test_a_cassette_that_is_not_gone_on_in_after_all_is_left_as_one_file(tmp_path: Path) -> None:
    """The session is removed from a full cassette, which the recorder finds out when it parts from it."""
    size, said = 60_000, [*INTRODUCTION, *calls(0, 100), EXIT]

    def interrupted() -> Iterator[Said]:
        waits = iter(said)
        yield from (next(waits) for _ in INTRODUCTION)
        for sent in range(len(INTRODUCTION), len(said), 2):
            until(lambda: len(texts(tmp_path)) == sent, "all that was said")  # noqa: B023
            if size_of(tmp_path / "t.db") >= size:
                break
            yield next(waits)
            yield next(waits)
        remove(str(tmp_path / "t.db"), [1], force=True)
        yield from waits

    report = record_into(row_in(tmp_path, size), interrupted())
    assert any(line.startswith("failed") and "session 1 was removed" in line for line in report)
    assert [path.name for path in cassettes(tmp_path)] == ["t.db", "t-2.db"] and texts(tmp_path) == []
    assert all(is_one_file(path) for path in cassettes(tmp_path))


@pytest.mark.slow
def test_a_flood_is_bounded(tmp_path: Path) -> None:
    said = [*INTRODUCTION, *calls(0, 600), EXIT]
    record_into(row_in(tmp_path, kept=3), said)
    row = cassettes(tmp_path)
    assert len(row) == 3 and sorted(os.listdir(tmp_path)) == sorted(path.name for path in row)
    kept = texts(tmp_path)
    assert kept == said_in(said)[-len(kept) :]


@pytest.mark.slow
def test_nothing_is_removed_unless_it_is_asked_for(tmp_path: Path) -> None:
    command = [*MCP_TAPE, "record", "-q", "-o", str(tmp_path / "t.db"), "--rotate", "1k", "--", *ECHO]
    assert run(command, b"1\n").returncode == 0
    for number in range(2, 25):
        shutil.copy(tmp_path / "t.db", tmp_path / f"t-{number}.db")
    assert run(command, b"2\n").returncode == 0
    names = [path.name for path in cassettes(tmp_path)]
    assert names[:25] == ["t.db", *(f"t-{number}.db" for number in range(2, 26))]


def test_a_cassette_not_handed_on_is_not_removed(tmp_path: Path) -> None:
    row = row_in(tmp_path, size=1, kept=2)._replace(is_handed_on=True)
    for number in range(6):
        path = row.newest()
        made = Writer(path)
        made.begin({"started_at": "2026-01-01T00:00:00Z", "transport": "stdio", "target": {}, "recorder": "test"})
        made.close()
        if number % 3:
            mark_handed_on(path)
        row.prune(path)
    assert [path.name for path in cassettes(tmp_path)] == ["t.db", "t-4.db", "t-5.db", "t-6.db"]
    assert sorted(tmp_path.glob("*.waiting")) == [tmp_path / "t-4.db.waiting", tmp_path / "t.db.waiting"]


# -- a full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "small", "2m") as place:
        yield place


@pytest.mark.slow
def test_a_full_disk_is_waited_for_and_nothing_is_lost(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        threading.Event().wait(seconds)

    monkeypatch.setattr("mcp_tape.record.recording_process.sleep", pause)
    said = [*INTRODUCTION, *calls(0, 60), EXIT]

    def filled() -> Iterator[Said]:
        for number, one in enumerate(said):
            if number == 50:
                until(lambda: len(cassettes(small_disk)) > 1, "the first to be full")
                fill(small_disk)
            yield one

    def make_room(line: str) -> None:
        if "waiting for room" in line:
            (small_disk / "ballast").unlink()

    report = record_into(row_in(small_disk, size=60_000), filled(), make_room)
    assert any("waiting for room" in line for line in report) and report[-1].endswith(" 0 ")
    assert texts(small_disk) == said_in(said) and pauses


@pytest.mark.slow
def test_a_full_disk_has_room_again_when_cassettes_are_handed_on(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_tape.record.recording_process._ROOM", WAIT)  # however slow those others are here
    row = row_in(small_disk, size=60_000, kept=1)._replace(is_handed_on=True)
    said = [*INTRODUCTION, *calls(0, 140), EXIT]

    def filled() -> Iterator[Said]:
        for number, one in enumerate(said):
            if number == 250:
                until(lambda: len(cassettes(small_disk)) > 5, "some to be full")
                fill(small_disk)
            yield one

    def take_over(line: str) -> None:
        if "waiting for room" in line:
            for path in cassettes(small_disk):
                mark_handed_on(str(path))

    report = record_into(row, filled(), take_over)
    assert any("waiting for room" in line for line in report)
    assert [line for line in report if line.startswith("failed")] == [] and report[-1].endswith(" 0 ")
    kept = texts(small_disk)
    assert kept and kept == said_in(said)[-len(kept) :]


@pytest.mark.slow
def test_after_a_full_disk_it_goes_on_and_reports_the_gap(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_tape.record.recording_process._ROOM", 0.0)
    monkeypatch.setattr("mcp_tape.record.recording_process._AGAIN", 0.0)
    heard: list[str] = []
    asked = calls(0, 100_000)

    def filled() -> Iterator[Said]:
        yield from INTRODUCTION
        yield from (next(asked) for _ in range(40))
        until(lambda: texts(small_disk), "the first calls")
        fill(small_disk)
        while not any(line.startswith("failed") for line in heard):
            yield next(asked)
            yield next(asked)
        (small_disk / "ballast").unlink()
        while not any("there is room again" in line for line in heard):
            yield next(asked)
            yield next(asked)
        yield from (next(asked) for _ in range(10))
        yield EXIT

    report = record_into(row_in(small_disk, size=10**9), filled(), heard.append)
    assert "disk is full" in next(line for line in report if line.startswith("failed"))
    first, last = cassettes(small_disk)
    with Cassette(first) as before, Cassette(last) as after:
        (cut,), (whole,) = before.sessions(), after.sessions()
        assert "disk is full" in str(cut.incomplete) and whole.incomplete is None and whole.server_name == "s"
        assert links(before, cut.id).continued == last.name and links(after, whole.id).continues == first.name
    kept = texts(small_disk)
    asked_last = next(asked)[2]
    assert isinstance(asked_last, str) and int(json.loads(kept[-1])["id"]) == json.loads(asked_last)["id"] - 1
    frames_of = [frame for part in parts(small_disk) for frame in part]
    assert report[-1].split()[:2] == ["done", str(len(frames_of))]  # without those that are missing


def size_of(path: Path) -> int:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return int(db.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").fetchone()[0])


@pytest.mark.slow
def test_a_disk_that_is_full_just_when_the_next_begins_loses_nothing_unsaid(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_tape.record.recording_process._ROOM", 1.0)
    size, said = 60_000, [*INTRODUCTION, *calls(0, 100), EXIT]

    def filled() -> Iterator[Said]:
        waits = iter(said)
        yield from (next(waits) for _ in INTRODUCTION)
        for sent in range(len(INTRODUCTION), len(said), 2):
            until(lambda: len(texts(small_disk)) == sent, "all that was said")  # noqa: B023
            if size_of(small_disk / "t.db") >= size:
                break
            yield next(waits)
            yield next(waits)
        fill(small_disk)
        yield from waits

    def make_room(line: str) -> None:
        if "the next cassette cannot be created" in line:
            (small_disk / "ballast").unlink(missing_ok=True)  # it may be reported twice

    report = record_into(row_in(small_disk, size), filled(), make_room)
    assert any("the next cassette cannot be created" in line for line in report)
    with Cassette(cassettes(small_disk)[0]) as first:
        (session,) = first.sessions()
    assert texts(small_disk) == said_in(said) or "disk is full" in str(session.incomplete)


# -- kills, and two at once


def record_a_row(path: str) -> None:
    record_into(CassetteSeries(path, 30_000, 100), [*INTRODUCTION, *calls(0, 20), EXIT])


@pytest.mark.slow
def test_a_recorder_that_is_killed_at_any_step_leaves_a_row_that_opens(tmp_path: Path) -> None:
    said = said_in([*INTRODUCTION, *calls(0, 20)])
    directory = tmp_path / "row"
    directory.mkdir()
    most = 0
    for was_killed in until_it_lives(record_a_row, str(directory / "t.db")):
        found = texts(directory)
        assert found == said[: len(found)]
        most = max(most, len(cassettes(directory)))
        assert was_killed or found == said
        shutil.rmtree(directory)
        directory.mkdir()
    assert most > 2


@pytest.mark.slow
def test_sessions_one_after_the_other_lose_no_message(tmp_path: Path) -> None:
    tape = tmp_path / "t.db"
    for number in range(4):
        line = call(number, "search", text="x" * 30_000).encode() + b"\n"
        done = run([*MCP_TAPE, "record", "-q", "-o", str(tape), "--rotate", "60k", "--", *ECHO], line)
        assert done.stdout == line
    assert [path.name for path in cassettes(tmp_path)] == ["t.db", "t-2.db", "t-3.db", "t-4.db"]
    assert all(len([frame for frame in frames(path) if frame.kind == "message"]) == 2 for path in cassettes(tmp_path))


@pytest.mark.slow
def test_two_recorders_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    command = [*MCP_TAPE, "record", "-q", "-o", str(tmp_path / "t.db"), "--rotate", "1k", "--keep", "1", "--", *ECHO]
    with started(command) as first:
        assert first.stdin and first.stdout
        send(first.stdin, b"1\n")
        assert receive_line(first.stdout) == b"1\n"
        done = run(command, b"2\n")
        assert (done.stdout, done.stderr) == (b"2\n", b"")
        send(first.stdin, b"3\n")
        assert receive_line(first.stdout) == b"3\n"
        first.stdin.close()
        assert first.wait(WAIT) == 0 and first.stderr and first.stderr.read() == b""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--keep", "3"], b"--keep needs --rotate"),
        (["--rotate", "1MB", "-o", "tape.jsonl"], b"tape.jsonl is text; record into a .db"),
    ],
)
def test_contradictory_options_are_refused(words: list[str], said: bytes) -> None:
    done = run([*MCP_TAPE, "record", *words, "--", "cat"])
    assert done.returncode == 2 and said in done.stderr
