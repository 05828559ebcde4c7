"""Cassettes fetched from a bucket: complete or not at all, and only into their directory."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from mcp_tape import Cassette
from mcp_tape.fleet import stores
from tests.support.bucket import Answer, Bucket, Request, every_third
from tests.support.golden import path_of
from tests.support.texts import tape

DEMO, TIME = path_of("demo").read_bytes(), path_of("time").read_bytes()


def name_of(data: bytes) -> str:
    return f"{hashlib.sha256(data).hexdigest()}.db"


PLACES = {
    f"date=2026-11-16/server=demo/{name_of(DEMO)}": DEMO,
    f"date=2026-11-17/server=time/{name_of(TIME)}": TIME,
    f"date=2026-12-01/server=time/{name_of(DEMO)}": DEMO,
}
FIRST, *OTHERS = PLACES


@pytest.fixture
def tapes(bucket: Bucket) -> Bucket:
    bucket.objects |= {f"team/tapes/{name}": data for name, data in PLACES.items()}
    bucket.objects["team/tapes/notes.txt"] = b"no cassette"
    return bucket


def pulled(*words: object, code: int = 0) -> list[dict[str, Any]]:
    lines = tape("pull", *words, "--json", code=code).stdout.splitlines()
    return sorted(map(json.loads, lines), key=lambda row: str(row["file"]))


def files(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_all_below_a_prefix_is_fetched_once(tapes: Bucket, tmp_path: Path) -> None:
    rows = pulled("s3://team/tapes", tmp_path / "here")
    assert files(tmp_path / "here") == PLACES
    assert [row["status"] for row in rows] == ["pulled"] * 3
    assert rows[0] == {
        "file": str(tmp_path / "here" / FIRST), "url": f"s3://team/tapes/{FIRST}", "status": "pulled",
        "bytes": len(DEMO), "why": None,
    }  # fmt: skip
    tapes.requests.clear()
    assert [row["status"] for row in pulled("s3://team/tapes/", tmp_path / "here")] == ["there"] * 3
    assert tapes.verbs() == ["GET"]


@pytest.mark.parametrize(
    ("options", "number"),
    [
        (["--date", "2026-11-16"], 1), (["--date", "2026-11"], 2), (["--server", "time"], 2), (["--server", "tim"], 0),
        (["--date", "2026-12", "--date", "2026-11-16"], 2), (["--date", "2026-12", "--server", "time"], 1),
    ],
    ids=str,
)  # fmt: skip
def test_some_are_chosen_by_date_and_server(tapes: Bucket, tmp_path: Path, options: list[str], number: int) -> None:
    assert len(pulled("s3://team/tapes", tmp_path, *options)) == number


@pytest.mark.slow
def test_one_is_fetched_under_its_own_name(tapes: Bucket, tmp_path: Path) -> None:
    tapes.objects["team/demo.db"] = DEMO
    first, again = (pulled("s3://team/demo.db", tmp_path)[0]["status"] for _ in range(2))
    assert (first, again) == ("pulled", "there")
    (row,) = pulled(f"{tapes.url}/team/demo.db?X-Amz-Signature=f00dcafe", tmp_path / "there")
    assert row["status"] == "pulled" and "f00dcafe" not in json.dumps(row)
    assert files(tmp_path) == {"demo.db": DEMO, "there/demo.db": DEMO}
    with Cassette(tmp_path / "demo.db") as cassette:
        assert cassette.sessions()


@pytest.mark.slow
def test_a_file_that_differs_is_replaced_only_with_force(tapes: Bucket, tmp_path: Path) -> None:
    tapes.objects["team/tape.db"] = DEMO
    pulled("s3://team/tapes", "s3://team/tape.db", tmp_path)
    tapes.objects["team/tape.db"] = TIME
    damaged = tmp_path / FIRST
    damaged.write_bytes(DEMO[:-1] + b"x")
    before = files(tmp_path)
    rows = pulled("s3://team/tapes", "s3://team/tape.db", tmp_path, code=1)
    assert sorted(row["status"] for row in rows) == ["refused", "refused", "there", "there"]
    assert "--force" in rows[-1]["why"] and files(tmp_path) == before
    statuses = [row["status"] for row in pulled("s3://team/tapes", "s3://team/tape.db", tmp_path, "--force")]
    assert sorted(statuses) == ["pulled", "pulled", "there", "there"]
    assert files(tmp_path) == PLACES | {"tape.db": TIME}


@pytest.mark.parametrize("url", ["s3://team/tape.db", "{}/team/tape.db"])
@pytest.mark.parametrize("mine", [b"another recording", DEMO[:-1] + b"x"])
@pytest.mark.slow
def test_another_recording_of_the_same_name_is_left_alone(tapes: Bucket, tmp_path: Path, url: str, mine: bytes) -> None:
    tapes.objects["team/tape.db"] = DEMO
    (tmp_path / "tape.db").write_bytes(mine)
    assert pulled(url.format(tapes.url), tmp_path, code=1)[0]["status"] == "refused"
    assert files(tmp_path) == {"tape.db": mine}
    (tmp_path / "tape.db").write_bytes(DEMO)  # at another time
    assert pulled(url.format(tapes.url), tmp_path)[0]["status"] == "there"


def test_one_that_appears_while_it_is_fetched_is_left_alone(tapes: Bucket, tmp_path: Path) -> None:
    tapes.objects["team/tape.db"] = DEMO

    def appear(request: Request, answer: Answer) -> None:
        if request.verb == "GET":
            (tmp_path / "tape.db").write_bytes(b"mine")

    tapes.faults.append(appear)
    assert pulled("s3://team/tape.db", tmp_path, code=1)[0]["status"] == "refused"
    assert files(tmp_path) == {"tape.db": b"mine"}


def test_an_object_that_does_not_match_its_name_is_not_kept(tapes: Bucket, tmp_path: Path) -> None:
    tapes.objects[f"team/tapes/{FIRST}"] = TIME
    rows = pulled("s3://team/tapes", tmp_path, code=4)
    assert [row["status"] for row in rows] == ["failed", "pulled", "pulled"]
    assert "does not match its name" in rows[0]["why"]
    assert FIRST not in files(tmp_path)


@pytest.mark.parametrize("name", ["a/../x.db", "a//x.db", "a/./x.db", "a/x\n.db", "a/b/../../x.db"])
@pytest.mark.slow
def test_a_name_that_no_file_can_have_leads_nowhere_and_stops_no_other(
    bucket: Bucket, tmp_path: Path, name: str
) -> None:
    bucket.objects |= {f"team/tapes/{name}": DEMO, "team/tapes/y.db": DEMO, "team/tapes/b/z.db": TIME}
    here = tmp_path / "a" / "b"
    rows = pulled("s3://team/tapes", here, code=3)
    (failed,) = (row for row in rows if row["status"] == "failed")
    assert "cannot be listed: the name of an object there" in failed["why"]
    assert files(tmp_path) == {"a/b/y.db": DEMO, "a/b/b/z.db": TIME}
    assert "cannot be listed" in tape("check", "s3://team/tapes/", code=3).stderr


def test_two_that_would_be_one_file_are_refused(tapes: Bucket, tmp_path: Path) -> None:
    tapes.objects |= {"team/a/x.db": DEMO, "team/b/x.db": TIME}
    said = tape("pull", "s3://team/a/x.db", "s3://team/b/x.db", tmp_path, code=3).stderr
    assert "would both be" in said and not files(tmp_path)


def test_nothing_below_a_prefix_is_an_error(bucket: Bucket, tmp_path: Path) -> None:
    assert "no cassette below s3://team/none" in tape("pull", "s3://team/none", tmp_path / "x", code=3).stderr
    assert not (tmp_path / "x").exists()


def test_a_pull_takes_only_urls(bucket: Bucket, tmp_path: Path) -> None:
    assert "tapes is not the URL of a cassette" in tape("pull", "tapes", tmp_path, code=3).stderr


def test_the_directory_is_here(bucket: Bucket) -> None:
    assert "only read" in tape("pull", "s3://team/tapes", "s3://team/other", code=3).stderr


# Faults ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_bucket_that_fails_every_third_request_gives_all(tapes: Bucket, tmp_path: Path) -> None:
    tapes.faults.append(every_third(tapes))
    pulled("s3://team/tapes", tmp_path)
    assert files(tmp_path) == PLACES


def test_one_that_is_denied_does_not_stop_the_others(tapes: Bucket, tmp_path: Path) -> None:

    def denied(request: Request, answer: Answer) -> None:
        if request.path.endswith(FIRST):
            answer.status, answer.body = 403, b""

    tapes.faults.append(denied)
    rows = pulled("s3://team/tapes", tmp_path, code=4)
    assert [row["status"] for row in rows] == ["failed", "pulled", "pulled"] and "denied" in rows[0]["why"]
    assert [*files(tmp_path)] and set(files(tmp_path)) == set(OTHERS)


@pytest.mark.slow
def test_a_connection_that_breaks_off_leaves_nothing_half(
    tapes: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "_retries", lambda: {"max_retries": 0})

    def cut(request: Request, answer: Answer) -> None:
        if request.path.endswith(FIRST):
            answer.cut = 1000

    tapes.faults.append(cut)
    rows = pulled("s3://team/tapes", tmp_path, code=4)
    assert [row["status"] for row in rows] == ["failed", "pulled", "pulled"]
    assert set(files(tmp_path)) == set(OTHERS)
    tapes.faults.clear()
    pulled("s3://team/tapes", tmp_path)
    assert files(tmp_path) == PLACES


def test_a_place_that_cannot_be_written_is_named(tapes: Bucket, tmp_path: Path) -> None:
    (tmp_path / "date=2026-11-16").write_text("a file")
    rows = pulled("s3://team/tapes", tmp_path, code=3)
    assert sorted(row["status"] for row in rows) == ["failed", "pulled", "pulled"]
    assert f"cannot write {tmp_path}" in next(row["why"] for row in rows if row["why"])
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]
