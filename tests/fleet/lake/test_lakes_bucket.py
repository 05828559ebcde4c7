"""A lake in a bucket, and cassettes from one: the same rows, even if the bucket fails at times."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcp_tape.fleet.cassette_paths import cassettes
from mcp_tape.fleet.lake.run import lake_one
from tests.support.bucket import Bucket, deny, every_third
from tests.support.golden import path_of
from tests.support.lakes import everything, lake, of_two_days, statuses


def fetched(bucket: Bucket, to: Path, prefix: str = "team/lake/") -> Path:
    """The objects of a bucket, as files."""
    for name, body in bucket.objects.items():
        if name.startswith(prefix):
            path = to / name.removeprefix(prefix)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
    return to


@pytest.fixture
def tapes(tmp_path: Path) -> list[str]:
    return [str(of_two_days(tmp_path / "tape.db")), str(path_of("demo"))]


@pytest.fixture
def right(tmp_path: Path, tapes: list[str]) -> object:
    lake(tapes, str(tmp_path / "right"))
    return everything(tmp_path / "right")


@pytest.mark.slow
def test_a_lake_in_a_bucket_has_the_same_rows(bucket: Bucket, tapes: list[str], right: object, tmp_path: Path) -> None:
    assert statuses(lake(tapes, "s3://team/lake/")) == ["added", "added"]
    assert everything(fetched(bucket, tmp_path / "got")) == right
    puts = bucket.verbs().count("PUT")
    assert statuses(lake(tapes, "s3://team/lake")) == ["there", "there"]
    assert bucket.verbs().count("PUT") == puts


@pytest.mark.slow
def test_sessions_come_last(bucket: Bucket, tapes: list[str]) -> None:
    lake_one(tapes[0], "s3://team/lake")
    put = [request.path.split("/")[2] for request in bucket.requests if request.verb == "PUT"]
    assert put == ["lake.json", *["calls"] * 3, *["messages"] * 3, *["sessions"] * 3]


@pytest.mark.slow
def test_files_of_another_run_stay(bucket: Bucket, tapes: list[str], right: object, tmp_path: Path) -> None:
    lake(tapes, "s3://team/lake")
    whole = dict(bucket.objects)
    for name in [name for name in whole if "/sessions/" in name]:
        del bucket.objects[name]  # as after a kill
    assert statuses(lake(tapes, "s3://team/lake")) == ["added", "added"]
    assert bucket.objects.keys() == whole.keys()
    assert everything(fetched(bucket, tmp_path / "got")) == right


@pytest.mark.slow
def test_a_bucket_that_fails_every_third_request_gets_every_row(
    bucket: Bucket, tapes: list[str], right: object, tmp_path: Path
) -> None:
    bucket.faults.append(every_third(bucket))
    assert statuses(lake(tapes, "s3://team/lake")) == ["added", "added"]
    assert everything(fetched(bucket, tmp_path / "got")) == right


@pytest.mark.slow
def test_a_bucket_that_denies_is_an_error_without_credentials(bucket: Bucket, tapes: list[str]) -> None:
    lake_one(tapes[1], "s3://team/lake")
    bucket.faults.append(deny)
    found = lake_one(tapes[0], "s3://team/lake")
    assert (found.status, found.details) == ("failed", {"lake": "unwritten"})
    assert "cannot write the lake s3://team/lake" in found.notes[0] and "denied" in found.notes[0]
    assert not any(value in found.notes[0] for name, value in bucket.environ().items() if "KEY" in name)


@pytest.mark.slow
def test_the_signature_of_a_url_is_printed_nowhere(bucket: Bucket, tmp_path: Path) -> None:
    bucket.objects["team/demo.db"] = path_of("demo").read_bytes()
    found = lake_one(f"{bucket.url}/team/demo.db?X-Amz-Signature=not-to-be-seen", tmp_path / "lake")
    assert found.details == {"lake": "added"} and found.cassette.startswith(f"{bucket.url}/team/demo.db?")
    assert [row["file"] for row in everything(tmp_path / "lake")["sessions"]] == ["demo.db"]
    assert "not-to-be-seen" not in repr((found, everything(tmp_path / "lake")))


def test_a_place_that_is_not_a_bucket_is_refused(tapes: list[str]) -> None:
    found = lake_one(tapes[0], "https://example.invalid/lake")
    assert found.status == "failed" and "cannot be a lake: that takes s3://" in found.notes[0]


@pytest.mark.slow
def test_a_large_file_is_sent_once(
    bucket: Bucket, tapes: list[str], right: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_tape.fleet.lake.lakes._LARGE", 100)
    assert statuses(lake(tapes, "s3://team/lake")) == ["added", "added"]
    assert everything(fetched(bucket, tmp_path / "got")) == right


@pytest.mark.slow
def test_cassettes_in_a_bucket_are_the_same_sources(bucket: Bucket, tapes: list[str], tmp_path: Path) -> None:
    for path in tapes:
        bucket.objects[f"team/tapes/{os.path.basename(path)}"] = Path(path).read_bytes()
    bucket.objects["team/tapes/README.md"] = b"no cassette"
    found = cassettes(["s3://team/tapes/"])
    assert found == ["s3://team/tapes/demo.db", "s3://team/tapes/tape.db"]
    assert statuses(lake(found, str(tmp_path / "lake"))) == ["added", "added"]
    assert statuses(lake(tapes, str(tmp_path / "lake"))) == ["there", "there"]
    assert {row["file"] for row in everything(tmp_path / "lake")["sessions"]} == {"demo.db", "tape.db"}
    gone = lake_one("s3://team/tapes/gone.db", tmp_path / "lake")
    assert gone.status == "unreadable" and "s3://team/tapes/gone.db" in gone.notes[0]
