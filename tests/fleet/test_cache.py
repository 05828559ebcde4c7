"""Copies of remote cassettes: one conditional request, complete or not at all, private to the user."""

from __future__ import annotations

import json
import os
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mcp_tape import Cassette
from mcp_tape.errors import CassetteError
from mcp_tape.fleet import cache, stores
from tests.support.bucket import MODIFIED, Answer, Bucket, Request, every_third, fail, tag
from tests.support.disks import mounted
from tests.support.golden import path_of
from tests.support.running import MCP_TAPE, WAIT, on_terminal, python, run, started, until

URL = "s3://team/tapes/demo.db"
DEMO = path_of("demo").read_bytes()


@pytest.fixture
def demo(bucket: Bucket) -> Bucket:
    bucket.objects["team/tapes/demo.db"] = DEMO
    return bucket


def copies(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "cache").rglob("*") if path.suffix in (".db", ".jsonl")]


def read(url: str = URL) -> bytes:
    cache.forget()
    return Path(cache.local(url)).read_bytes()


@pytest.fixture(params=["a bucket", "a web server"])
def url(request: pytest.FixtureRequest, demo: Bucket) -> str:
    """The URL of the demo, in a bucket and on a web server."""
    return URL if request.param == "a bucket" else f"{demo.url}/team/tapes/demo.db"


def test_a_cached_object_costs_one_conditional_request(demo: Bucket, url: str) -> None:
    assert read(url) == read(url) == DEMO
    first, second = demo.requests
    assert "if-none-match" not in first.headers and second.headers["if-none-match"] == tag(DEMO)


@pytest.mark.slow
def test_a_process_asks_once_however_often_it_opens_a_cassette(demo: Bucket) -> None:
    for _ in range(3):
        with Cassette(URL) as cassette:
            assert cassette.path == URL and len(cassette.sessions()) == 1
    assert demo.verbs() == ["GET"]


def test_an_object_larger_than_the_cache_is_refused(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_TAPE_CACHE_SIZE", "10K")
    with pytest.raises(CassetteError, match=r"is more than 10\.0k.*MCP_TAPE_CACHE_SIZE"):
        read(url)
    assert not copies(tmp_path)


@pytest.mark.slow
def test_a_changed_object_is_fetched_again(demo: Bucket) -> None:
    read()
    demo.objects["team/tapes/demo.db"] = path_of("time").read_bytes()
    assert read() == path_of("time").read_bytes()
    assert demo.verbs() == ["GET", "GET"]


def test_a_server_without_etags_is_asked_by_time(demo: Bucket) -> None:
    demo.tags = False
    url = f"{demo.url}/team/tapes/demo.db"
    assert read(url) == read(url) == DEMO
    assert "if-modified-since" in demo.requests[1].headers


def test_a_copy_is_its_user_s_alone_and_as_old_as_the_object(demo: Bucket, tmp_path: Path) -> None:
    read()
    (copy,) = copies(tmp_path)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o400
    assert stat.S_IMODE((tmp_path / "cache" / "remote").stat().st_mode) == 0o700
    assert copy.stat().st_mtime == MODIFIED.timestamp()


def test_nothing_of_a_signature_is_kept(demo: Bucket, tmp_path: Path) -> None:
    read(f"{demo.url}/team/tapes/demo.db?X-Amz-Signature=f00dcafe&token=hunter2")
    kept = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert len(kept) == 2
    for path in kept:
        assert not any(secret in str(path).encode() + path.read_bytes() for secret in (b"f00dcafe", b"hunter2"))


def test_a_directory_in_which_others_can_write_is_not_used(demo: Bucket, tmp_path: Path) -> None:
    (tmp_path / "cache" / "remote").mkdir(parents=True)
    (tmp_path / "cache" / "remote").chmod(0o777)
    with pytest.raises(CassetteError, match="not private to you"):
        read()


def test_a_link_to_elsewhere_is_not_used(demo: Bucket, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "cache" / "remote").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CassetteError, match="not private to you"):
        read()


@pytest.mark.parametrize("note", [b"", b"[]", b'{"file": "../../x", "size": 1}', b'{"file": 3}', b"\xff"])
def test_a_note_that_is_damaged_is_as_none(demo: Bucket, tmp_path: Path, note: bytes) -> None:
    read()
    (path,) = (tmp_path / "cache").rglob("copy.json")
    path.write_bytes(note)
    assert read() == DEMO
    assert "if-none-match" not in demo.requests[1].headers


@pytest.mark.slow
def test_a_copy_that_was_cut_off_is_fetched_again(demo: Bucket, tmp_path: Path) -> None:
    read()
    (copy,) = copies(tmp_path)
    copy.chmod(0o600)
    os.truncate(copy, 100)
    assert read() == DEMO


@pytest.mark.slow
def test_a_process_with_the_name_of_a_signed_url_reads_the_cached_copy(demo: Bucket) -> None:
    url = f"{demo.url}/team/tapes/demo.db?X-Amz-Signature=f00dcafe"
    name = stores.safe_name(url)
    read(url)
    done = run([*MCP_TAPE, "ls", name])
    assert done.returncode == 0 and b"demo-weather" in done.stdout
    assert demo.verbs() == ["GET"]
    unknown = run([*MCP_TAPE, "ls", name[:-12] + "0" * 12])
    assert unknown.returncode == 3 and b"give all of it" in unknown.stderr


# Without the bucket ----------------------------------------------------------------------------------------


def test_offline_plays_the_copy_without_a_request(demo: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    read()
    monkeypatch.setenv("MCP_TAPE_OFFLINE", "1")
    assert read() == DEMO
    assert demo.verbs() == ["GET"]


def test_offline_without_a_copy_says_so(demo: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_TAPE_OFFLINE", "1")
    with pytest.raises(CassetteError, match=f"{URL} is not in the cache .*MCP_TAPE_OFFLINE"):
        read()
    assert demo.requests == []


@pytest.mark.slow
def test_a_copy_is_not_played_behind_the_user_s_back_when_the_bucket_fails(demo: Bucket) -> None:
    read()
    demo.faults.append(fail)
    with pytest.raises(CassetteError, match=r"status 500.*to use the local copy, set MCP_TAPE_OFFLINE=1"):
        read()


# Faults ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_bucket_that_fails_every_third_request_is_read(demo: Bucket, url: str) -> None:
    demo.faults.append(every_third(demo))
    for _ in range(7):
        assert read(url) == DEMO


@pytest.mark.slow
def test_a_connection_that_breaks_off_leaves_nothing_half(demo: Bucket, url: str, tmp_path: Path) -> None:
    def cut(request: Request, answer: Answer) -> None:
        answer.cut = 1000

    demo.faults.append(cut)
    with pytest.raises(CassetteError, match=url):
        read(url)
    assert copies(tmp_path) == []
    demo.faults.clear()
    assert read(url) == DEMO


@pytest.mark.slow
def test_an_object_replaced_during_the_download_is_read_whole(demo: Bucket, url: str) -> None:
    """The first answer breaks off, and by then its rest belongs to another object."""
    other = path_of("everything").read_bytes()

    def replaced(request: Request, answer: Answer) -> None:
        if demo.objects["team/tapes/demo.db"] == DEMO:
            answer.cut = 1000
            demo.objects["team/tapes/demo.db"] = other

    demo.faults.append(replaced)
    assert read(url) == other


def test_a_running_process_keeps_the_version_it_opened(demo: Bucket) -> None:
    with Cassette(URL) as cassette:
        before = cassette.sessions()
    demo.objects["team/tapes/demo.db"] = path_of("everything").read_bytes()
    with Cassette(URL) as cassette:
        assert cassette.sessions() == before


def test_a_cache_that_cannot_be_written_says_where_it_is(demo: Bucket, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(CassetteError, match=r"cannot write to the cache .*set MCP_TAPE_CACHE"):
        read()


@pytest.mark.slow
def test_a_full_disk_says_so_and_leaves_nothing(demo: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    demo.objects["team/large.db"] = DEMO + bytes(2 << 20)
    with mounted(tmp_path / "small") as small_disk:
        monkeypatch.setenv("MCP_TAPE_CACHE", str(small_disk))
        with pytest.raises(CassetteError, match="No space left on device; free some space, or set MCP_TAPE_CACHE"):
            read("s3://team/large.db")
        assert [path for path in small_disk.rglob("*") if path.is_file()] == []
        assert read() == DEMO  # this fits


@pytest.mark.slow
def test_at_the_limit_of_a_file_s_size_it_says_so(demo: Bucket) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))"
    done = run([*python(f"{limit}; from mcp_tape.__main__ import main; main()"), "ls", URL])
    assert done.returncode == 3 and b"cannot write to the cache" in done.stderr and b"too large" in done.stderr


@pytest.mark.slow
def test_many_processes_at_once_fetch_it_once(demo: Bucket) -> None:
    """One process fetches it while the others wait; then they check whether it has changed."""
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: run([*MCP_TAPE, "ls", URL]), range(4)))
    assert {one.returncode for one in done} == {0}
    assert sorted("if-none-match" in request.headers for request in demo.requests) == [False, True, True, True]


@pytest.mark.slow
def test_a_kill_during_the_download_leaves_no_obstacle(demo: Bucket, tmp_path: Path) -> None:
    """The answer stops halfway until the reader is killed."""
    stuck, go_on = threading.Event(), threading.Event()

    def stall(request: Request, answer: Answer) -> None:
        answer.pause = (1000, lambda: (stuck.set(), go_on.wait(WAIT)))

    demo.faults.append(stall)
    with started([*MCP_TAPE, "ls", URL]) as process:
        assert stuck.wait(WAIT)
        until(lambda: list((tmp_path / "cache").rglob("*.part")), "the part that is being written")
        process.kill()
        process.wait(WAIT)
    go_on.set()
    demo.faults.clear()
    assert read() == DEMO
    assert not list((tmp_path / "cache").rglob("*.part"))


PATIENT = "from mcp_tape.console import progress; progress._PATIENCE = progress._EVERY = 0"


@pytest.mark.slow
def test_only_a_terminal_shows_progress(demo: Bucket) -> None:
    command = python(f"{PATIENT}\nfrom mcp_tape.cli import cli; cli(['ls', {URL!r}])")
    output = on_terminal(command)
    assert f"\rfetching {URL}: 100 %".encode() in output and b"\r\x1b[K" in output
    demo.objects["team/tapes/demo.db"] = DEMO + b"\0"
    assert b"fetching" not in run(command).stderr


# Room ------------------------------------------------------------------------------------------------------


def entry_of(tmp_path: Path, url: str) -> Path:
    notes = (tmp_path / "cache").rglob("copy.json")
    return next(note.parent for note in notes if json.loads(note.read_text())["url"] == url)


@pytest.mark.slow
def test_the_least_recently_used_copies_go_when_the_cache_is_too_large(
    demo: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hour = 3600
    for number in range(3):
        demo.objects[f"team/{number}.db"] = DEMO + bytes(number)
        read(f"s3://team/{number}.db")
        os.utime(entry_of(tmp_path, f"s3://team/{number}.db") / "copy.json", (0, time.time() - (9 - number) * hour))
    monkeypatch.setenv("MCP_TAPE_CACHE_SIZE", str(3 * len(DEMO)))
    read()
    left = {json.loads(note.read_text())["url"] for note in (tmp_path / "cache").rglob("copy.json")}
    assert left == {URL, "s3://team/2.db"}


def test_a_copy_in_use_stays_however_large(demo: Bucket, tmp_path: Path) -> None:
    read()
    cache.prune(1)
    assert len(copies(tmp_path)) == 1


@pytest.mark.slow
def test_an_outdated_copy_goes_when_no_process_can_use_it(demo: Bucket, tmp_path: Path) -> None:
    read()
    demo.objects["team/tapes/demo.db"] = DEMO + b"\0"
    read()
    assert len(copies(tmp_path)) == 2
    cache.prune(10**9, since=time.time() + 1)
    assert len(copies(tmp_path)) == 1


def test_a_size_that_is_none_is_refused(demo: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_TAPE_CACHE_SIZE", "much")
    with pytest.raises(CassetteError, match="MCP_TAPE_CACHE_SIZE: 'much' is not a size"):
        read()


# Other forms -----------------------------------------------------------------------------------------------


def test_errors_of_a_copy_name_the_url(demo: Bucket) -> None:
    demo.objects["team/odd.db"] = b"not a cassette"
    with pytest.raises(CassetteError, match=r"s3://team/odd\.db is not a cassette") as caught:
        Cassette("s3://team/odd.db")
    assert "cache" not in str(caught.value)
