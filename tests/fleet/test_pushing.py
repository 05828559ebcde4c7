"""Cassettes put into a bucket: once each, under names made from their content."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.fleet import bucket as many
from mcp_tape.fleet import pushing, stores
from tests.cassette.test_writer_pending import abandoned
from tests.support.bucket import Answer, Bucket, Request, deny, every_third, fail
from tests.support.golden import CASSETTES, path_of
from tests.support.running import WAIT
from tests.support.texts import recorded, tape

DEMO = path_of("demo")
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def pushed(*words: object, code: int = 0) -> list[dict[str, Any]]:
    lines = tape("push", *words, "--json", code=code).stdout.splitlines()
    return sorted(map(json.loads, lines), key=lambda row: str(row["file"]))


def name_of(path: Path) -> str:
    return f"{hashlib.sha256(path.read_bytes()).hexdigest()}{path.suffix}"


def copies(tmp_path: Path, number: int) -> list[Path]:
    """Cassettes that differ in a byte or two: in their change counters, which nothing reads."""
    found = []
    for each in range(number):
        data = bytearray(DEMO.read_bytes())
        data[24:28] = data[92:96] = (1000 + each).to_bytes(4, "big")
        found.append(tmp_path / f"copy-{each:03}.db")
        found[-1].write_bytes(data)
    return found


def test_a_cassette_is_put_under_its_date_its_server_and_its_digest(bucket: Bucket) -> None:
    (row,) = pushed(DEMO, "s3://team/tapes/")
    place = f"tapes/date=2026-11-16/server=demo-weather/{name_of(DEMO)}"
    assert row == {
        "file": str(DEMO), "url": f"s3://team/{place}", "status": "pushed", "bytes": DEMO.stat().st_size, "why": None,
    }  # fmt: skip
    assert bucket.objects == {f"team/{place}": DEMO.read_bytes()}
    assert [(request.verb, request.headers["if-none-match"]) for request in bucket.requests] == [("PUT", "*")]


@pytest.mark.slow
def test_leftovers_of_a_killed_recorder_are_put_in_order_and_pushed(bucket: Bucket, tmp_path: Path) -> None:
    path = abandoned(tmp_path / "tape.db")
    assert [row["status"] for row in pushed(path, "s3://team")] == ["pushed"]
    assert list(bucket.objects.values()) == [path.read_bytes()]


def test_a_text_keeps_its_form(bucket: Bucket) -> None:
    text = CASSETTES / "text" / "demo.jsonl"
    assert pushed(text, "s3://team")[0]["url"].endswith(name_of(text))


def test_a_cassette_pushed_twice_exists_once(bucket: Bucket, tmp_path: Path) -> None:
    shutil.copy(DEMO, tmp_path / "other name.db")
    first = pushed(DEMO, "s3://team/tapes")
    tape("show", tmp_path / "other name.db")  # reading changes nothing
    again = pushed(tmp_path / "other name.db", "s3://team/tapes")
    assert (first[0]["status"], again[0]["status"]) == ("pushed", "there")
    assert first[0]["url"] == again[0]["url"] and len(bucket.objects) == 1


@pytest.mark.slow
def test_a_directory_means_all_its_cassettes_and_existing_names_are_listed_at_once(
    bucket: Bucket, tmp_path: Path
) -> None:
    copies(tmp_path, 30)
    (tmp_path / "notes.txt").write_text("no cassette")
    assert [row["status"] for row in pushed(tmp_path, "s3://team")] == ["pushed"] * 30
    assert bucket.verbs() == ["GET"] + ["PUT"] * 30
    bucket.requests.clear()
    assert [row["status"] for row in pushed(tmp_path, "s3://team")] == ["there"] * 30
    assert bucket.verbs() == ["GET"]


@pytest.mark.slow
def test_a_push_that_broke_off_goes_on_where_it_was(bucket: Bucket, tmp_path: Path) -> None:
    copies(tmp_path, 12)
    for number in range(3):
        pushed(tmp_path / f"copy-{number:03}.db", "s3://team")
    bucket.requests.clear()
    assert [row["status"] for row in pushed(tmp_path, "s3://team")] == ["there"] * 3 + ["pushed"] * 9
    assert bucket.verbs().count("PUT") == 9


def test_two_pushers_of_one_file_leave_one_object(bucket: Bucket) -> None:
    """Both ask to create it before either gets an answer."""
    both = threading.Barrier(2)
    bucket.faults.append(lambda request, answer: both.wait(WAIT) and None)
    statuses: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        runs = [
            pool.submit(pushing.push, [str(DEMO)], "s3://team", None, lambda outcome: statuses.append(outcome.status))
            for _ in range(2)
        ]
        assert [run.result(WAIT) for run in runs] == [0, 0]
    assert sorted(statuses) == ["pushed", "there"] and len(bucket.objects) == 1


# Refusals --------------------------------------------------------------------------------------------------


def test_a_cassette_with_a_secret_is_refused_unless_allowed(bucket: Bucket, tmp_path: Path) -> None:
    said = json.dumps({"jsonrpc": "2.0", "method": "hello", "params": [TOKEN]}).encode()
    path = recorded(tmp_path / "tape.db", said + b"\n", b"")
    (row,) = pushed(path, "s3://team", code=1)
    assert row["status"] == "refused" and "looks like a secret" in row["why"] and TOKEN not in json.dumps(row)
    assert bucket.objects == {}
    assert tape("check", path, code=1).stdout.count("looks like a secret")
    assert pushed(path, "s3://team", "--allow-secrets")[0]["status"] == "pushed"


def test_rules_of_the_user_count(bucket: Bucket) -> None:
    (row,) = pushed(DEMO, "s3://team", "--redact-value", "Sunny.*", code=1)
    assert row["status"] == "refused"


def test_a_cassette_that_is_being_recorded_is_refused(bucket: Bucket, tmp_path: Path) -> None:
    shutil.copy(DEMO, tmp_path / "tape.db")
    with closing(sqlite3.connect(tmp_path / "tape.db")) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("SELECT * FROM sessions").fetchone()
        (row,) = pushed(tmp_path / "tape.db", "s3://team", code=1)
    assert row["status"] == "refused" and "is being recorded" in row["why"]


def test_one_that_cannot_be_read_does_not_stop_the_others(bucket: Bucket, tmp_path: Path) -> None:
    odd = tmp_path / "odd.db"
    odd.write_bytes(b"no cassette")
    rows = pushed(odd, tmp_path / "none.db", DEMO, "s3://team", code=3)
    assert sorted(row["status"] for row in rows) == ["failed", "failed", "pushed"]
    result = tape("push", odd, DEMO, "s3://team", code=3)
    assert "failed: " in result.stdout and "2 cassettes: 1 failed, 1 there" in result.stderr


def test_a_recording_of_another_tool_is_refused(bucket: Bucket, tmp_path: Path) -> None:
    tape("convert", DEMO, "--to", "har", tmp_path / "tape.har")
    assert "mcp-tape convert" in pushed(tmp_path / "tape.har", "s3://team", code=1)[0]["why"]


@pytest.mark.parametrize("url", ["https://example.com/tapes", "http://127.0.0.1/tapes"])
def test_only_a_bucket_takes_cassettes(bucket: Bucket, url: str) -> None:
    assert "cannot be pushed to" in tape("push", DEMO, url, code=3).stderr


def test_offline_nothing_is_pushed(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_TAPE_OFFLINE", "1")
    assert "MCP_TAPE_OFFLINE is set" in tape("push", DEMO, "s3://team", code=3).stderr


# Faults ----------------------------------------------------------------------------------------------------


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry without pauses."""
    monkeypatch.setattr(many, "_PAUSES", (0.0, 0.0, None))


@pytest.mark.slow
def test_a_bucket_that_fails_every_third_request_gets_all(bucket: Bucket, tmp_path: Path) -> None:
    """Some of the failed requests were carried out: the objects are found to exist."""
    copies(tmp_path, 12)
    bucket.faults.append(every_third(bucket))
    assert {row["status"] for row in pushed(tmp_path, "s3://team")} <= {"pushed", "there"}
    assert len(bucket.objects) == 12


def test_a_bucket_that_denies_says_so_without_a_secret(bucket: Bucket) -> None:
    bucket.faults.append(deny)
    (row,) = pushed(DEMO, "s3://team", code=4)
    assert row["status"] == "failed" and "denied" in row["why"] and "AKIA" not in json.dumps(row)
    assert bucket.verbs() == ["PUT"]


@pytest.mark.usefixtures("soon")
@pytest.mark.slow
def test_a_bucket_that_fails_for_all_is_not_tried_for_thousands(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "_retries", lambda: {"max_retries": 0})
    copies(tmp_path, 60)
    bucket.faults.append(fail)
    rows = pushed(tmp_path, "s3://team", code=4)
    assert {row["status"] for row in rows} == {"failed"} and len(rows) == 60
    assert sum("not tried" in row["why"] for row in rows) >= 60 - many.AT_ONCE - many._HOPELESS


@pytest.mark.slow
def test_a_slow_bucket_is_asked_for_many_at_once(bucket: Bucket, tmp_path: Path) -> None:
    """It answers none until it has received several requests."""
    several = threading.Barrier(5)

    def slow(request: Request, answer: Answer) -> None:
        if request.verb == "PUT":
            several.wait(WAIT)

    bucket.faults.append(slow)
    assert {row["status"] for row in pushed(*copies(tmp_path, 10), "s3://team")} == {"pushed"}


@pytest.mark.usefixtures("soon")
@pytest.mark.slow
def test_a_bucket_that_never_answers_is_not_waited_for_for_ever(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "PATIENCE", 0.05)
    monkeypatch.setattr(stores, "_retries", lambda: {"max_retries": 0})
    ended = threading.Event()
    bucket.faults.append(lambda request, answer: ended.wait(WAIT) and None)
    (row,) = pushed(DEMO, "s3://team", code=4)
    ended.set()
    assert row["status"] == "failed" and row["why"].endswith("no answer in time")
