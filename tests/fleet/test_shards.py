"""Shards: every cassette is in one share, the same on every machine."""

from __future__ import annotations

import os
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from mcp_tape.cassette import file
from mcp_tape.cassette.reader import Cassette
from mcp_tape.errors import CassetteError
from mcp_tape.fleet.shards import Shard, content_hash, parse_shard, share
from tests.support.bucket import Bucket
from tests.support.golden import CASSETTES, GOLDEN, TEXTS, path_of

ALL = sorted(map(str, [*GOLDEN, *TEXTS]))


def shares(paths: list[str], of: int) -> list[list[str]]:
    return [list(share(paths, Shard(number, of))) for number in range(1, of + 1)]


@pytest.mark.parametrize("of", [1, 2, 3, 7])
def test_every_cassette_is_in_one_share(of: int) -> None:
    found = shares(ALL, of)
    assert sorted(path for one in found for path in one) == ALL
    assert len([one for one in found if one]) > of // 2  # and they are spread


def test_without_a_shard_all_are_taken_in_their_order() -> None:
    assert list(share(reversed(ALL), None)) == ALL[::-1]


def test_a_share_is_the_same_under_other_names_and_elsewhere(tmp_path: Path) -> None:
    for number, one in enumerate(shares(ALL, 3), 1):
        for at, path in enumerate(one):
            copy = tmp_path / f"{at}{Path(path).suffix}"
            shutil.copyfile(path, copy)
            assert list(share([str(copy)], Shard(number, 3))) == [str(copy)]


def test_the_hash_is_that_of_the_bytes() -> None:
    for path in (path_of("time"), CASSETTES / "text" / "time.jsonl"):
        assert content_hash(str(path)) == sha256(path.read_bytes()).hexdigest()


def test_content_is_in_the_share_that_it_always_was_in() -> None:
    """On every machine: the numbers are fixed here."""
    found = [[Shard(number, 4).has(sha256(text).hexdigest()) for number in range(1, 5)] for text in (b"a", b"b", b"c")]
    assert [one.index(True) + 1 for one in found] == [4, 2, 3]


def left_by_a_recorder(path: Path) -> None:
    """A cassette with messages in its journal only, as after kill -9."""
    made = path.parent / "recorded.db"
    shutil.copyfile(path_of("time"), made)
    db = file.connect(str(made))
    assert file.switch_to_wal(db)
    db.execute("PRAGMA wal_autocheckpoint = 0")
    db.execute("UPDATE sessions SET note = 'in the journal'")
    for ending in ("", "-wal"):
        shutil.copyfile(f"{made}{ending}", f"{path}{ending}")
    db.close()


def test_leftovers_of_a_recorder_count_as_part_of_the_cassette(tmp_path: Path) -> None:
    left = tmp_path / "left.db"
    left_by_a_recorder(left)
    first = content_hash(str(left))
    with Cassette(left) as cassette:
        assert cassette.session().note == "in the journal"
    assert content_hash(str(left)) == first
    assert first != content_hash(str(path_of("time")))


@pytest.mark.slow
def test_a_file_that_is_recorded_all_the_time_has_a_hash(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    shutil.copyfile(path_of("time"), tape)
    db = file.connect(str(tape))
    assert file.switch_to_wal(db)
    assert content_hash(str(tape)) == sha256(tape.read_bytes()).hexdigest()
    db.close()


def test_an_unreadable_cassette_is_in_one_share_too(tmp_path: Path) -> None:
    paths = [str(tmp_path / "missing.db"), str(tmp_path), str(tmp_path / "pipe")]
    os.mkfifo(paths[2])
    for path in paths:
        with pytest.raises(CassetteError):
            content_hash(path)
    assert sorted(path for one in shares(paths, 3) for path in one) == sorted(paths)


@pytest.mark.parametrize("text", ["1/1", "1/4", "4/4", "000010/10"])
def test_a_share_is_read(text: str) -> None:
    shard = parse_shard(text)
    assert 1 <= shard.number <= shard.of
    assert parse_shard(str(shard)) == shard


@pytest.mark.parametrize("text", ["", "1", "/", "1/", "/4", "a/b", "1/4/2", "-1/4", "1/٤", "1/99999999999"])
def test_an_invalid_share_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="e\\.g\\. 1/4"):
        parse_shard(text)


@pytest.mark.parametrize(("text", "hint"), [("0/4", "1/4"), ("5/4", "1/4"), ("1/0", "1/4"), ("9/8", "1/8")])
def test_a_share_that_there_is_not_is_refused(text: str, hint: str) -> None:
    with pytest.raises(ValueError, match=f"the first of . is {hint}"):
        parse_shard(text)


@pytest.mark.slow
def test_in_a_bucket_a_name_that_is_a_hash_says_so_and_else_the_bytes_do(bucket: Bucket) -> None:
    data = path_of("time").read_bytes()
    digest = sha256(data).hexdigest()
    bucket.objects |= {"team/time.db": data, f"team/date=2026-01-01/server=a/{digest}.db": data}
    assert content_hash(f"s3://team/date=2026-01-01/server=a/{digest}.db") == digest and not bucket.requests
    assert content_hash("s3://team/time.db") == digest and bucket.verbs() == ["GET"]
    with pytest.raises(CassetteError):
        content_hash("s3://team/missing.db")
