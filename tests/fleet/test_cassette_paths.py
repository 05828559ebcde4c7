"""Finding cassettes: files, directories, patterns and URLs."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from mcp_tape.errors import CassetteError
from mcp_tape.fleet.cassette_paths import cassettes, printable_place
from tests.support.bucket import Bucket
from tests.support.golden import CASSETTES, path_of


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("b.db", "a.db", "deep/er/c.db", ".hidden/d.db"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path_of("time"), name)
    shutil.copyfile(CASSETTES / "text" / "time.jsonl", "deep/text.jsonl")
    Path("deep/rows.jsonl").write_text('{"a": 1}\n')
    Path("notes.txt").write_text("nothing")
    shutil.copyfile(path_of("time"), "a.db.new")
    Path("a.db-wal").write_bytes(b"")
    other = sqlite3.connect("deep/other.db")
    other.execute("CREATE TABLE t (a)")
    other.close()
    return tmp_path


def test_a_directory_is_all_cassettes_below_it(place: Path) -> None:
    assert cassettes(["."]) == ["a.db", "b.db", "deep/text.jsonl", "deep/er/c.db"]
    assert cassettes([str(place / "deep")]) == [str(place / "deep" / name) for name in ("text.jsonl", "er/c.db")]


def test_a_file_that_may_be_a_damaged_cassette_is_found_too(place: Path) -> None:
    """A damaged cassette, or an LFS pointer in its place, must not be overlooked."""
    Path("pointer.db").write_text("version https://git-lfs.github.com/spec/v1\n")
    Path("damaged.db").write_bytes(b"\0" * 5000)
    Path("empty.db").write_bytes(b"")
    assert {"pointer.db", "damaged.db", "empty.db"} < set(cassettes(["."]))


def test_a_named_file_is_taken_unchecked(place: Path) -> None:
    named = ["notes.txt", "missing.db", "b.db", "b.db", "a.db#1", "deep/other.db"]
    assert cassettes(named) == named


def test_a_found_file_is_taken_once(place: Path) -> None:
    assert cassettes(["b.db", ".", "deep"]) == ["b.db", "a.db", "deep/text.jsonl", "deep/er/c.db"]


def test_a_pattern_is_replaced_by_its_matches(place: Path) -> None:
    assert cassettes(["?.db"]) == ["a.db", "b.db"]
    assert cassettes(["**/*.db"]) == ["a.db", "b.db", "deep/er/c.db", "deep/other.db"]
    assert cassettes(["d*"]) == ["deep/er/c.db", "deep/text.jsonl"]


def test_a_file_with_a_name_like_a_pattern_is_that_file(place: Path) -> None:
    Path("[ab].db").write_bytes(b"")
    assert cassettes(["[ab].db"]) == ["[ab].db"]


def test_a_url_is_unchanged(place: Path) -> None:
    urls = ["s3://team/tapes/time.db", "https://example.com/*.db"]
    assert cassettes(urls) == urls


def test_a_pattern_that_matches_nothing_is_a_name_as_in_a_shell(place: Path) -> None:
    assert cassettes(["a.db", "*.tape"]) == ["a.db", "*.tape"]


def test_a_directory_without_any_is_an_error(place: Path) -> None:
    Path("empty").mkdir()
    with pytest.raises(CassetteError, match="empty is a directory without cassettes"):
        cassettes(["a.db", "empty"])


# In a bucket ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_url_that_ends_with_a_slash_is_all_cassettes_below_it(bucket: Bucket) -> None:
    for name in ("tapes/b.db", "tapes/deep/a.jsonl", "tapes/README.md", "tapes2/d.db"):
        bucket.objects[f"team/{name}"] = b""
    assert cassettes(["s3://team/tapes/"]) == ["s3://team/tapes/b.db", "s3://team/tapes/deep/a.jsonl"]
    assert cassettes(["s3://team/tapes"]) == ["s3://team/tapes"]
    with pytest.raises(CassetteError, match="no cassette below s3://team/nothing/"):
        cassettes(["s3://team/nothing/"])


def test_a_signature_is_not_shown() -> None:
    assert "hidden" not in printable_place("https://example.com/a.db?X-Amz-Signature=hidden")
    assert printable_place("tapes/a.db?") == "tapes/a.db?"
