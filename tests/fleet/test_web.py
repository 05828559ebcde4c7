"""Cassettes at http:// and https://: redirects within the server, and limits on servers."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mcp_tape.errors import CassetteError
from mcp_tape.fleet import cache, stores
from tests.support.bucket import Answer, Bucket, Fault, Request, fail, served
from tests.support.golden import path_of
from tests.support.running import MCP_TAPE, WAIT, run

DEMO = path_of("demo").read_bytes()
SECRET = "X-Amz-Signature=f00dcafe"


@pytest.fixture
def site(bucket: Bucket) -> Bucket:
    bucket.objects["a.db"] = bucket.objects["moved/a.db"] = DEMO
    return bucket


@pytest.fixture
def other() -> Iterator[Bucket]:
    with served() as bucket:
        bucket.objects["a.db"] = DEMO
        yield bucket


def redirect(location: str, status: int = 302, path: str = "a.db") -> Fault:
    def fault(request: Request, answer: Answer) -> None:
        if request.path == path:
            answer.status, answer.body, answer.headers = status, b"elsewhere", {"Location": location}

    return fault


def by_cache(url: str, tmp_path: Path) -> str:
    with pytest.raises(CassetteError) as caught:
        cache.local(url)
    return str(caught.value)


def by_pull(url: str, tmp_path: Path) -> str:
    done = run([*MCP_TAPE, "pull", url, str(tmp_path / "here")])
    assert done.returncode == 4 and not list((tmp_path / "here").rglob("*.db"))
    return done.stdout.decode() + done.stderr.decode()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("refused", [by_cache, by_pull])
@pytest.mark.slow
def test_a_redirect_to_another_server_is_refused_and_names_only_that(
    refused: Callable[[str, Path], str], status: int, site: Bucket, other: Bucket, tmp_path: Path
) -> None:
    site.faults.append(redirect(f"{other.url}/hidden/a.db?{SECRET}", status))
    said = refused(f"{site.url}/a.db?{SECRET}", tmp_path)
    assert f"redirects to {other.url}, another server" in said
    assert not re.search("f00dcafe|hidden", said)
    assert other.requests == [] and len(site.requests) == 1


@pytest.mark.parametrize("location", ["https://127.0.0.1:{port}/a.db", "http://localhost:{port}/a.db", "http://[bad"])
def test_another_scheme_or_name_is_another_server(location: str, site: Bucket, tmp_path: Path) -> None:
    site.faults.append(redirect(location.format(port=site.url.rpartition(":")[2])))
    assert re.search("another server|no URL", by_cache(f"{site.url}/a.db", tmp_path))
    assert len(site.requests) == 1


@pytest.mark.parametrize("location", ["/moved/a.db", "moved/a.db", "{url}/moved/a.db"])
@pytest.mark.slow
def test_a_redirect_within_the_server_is_followed(location: str, site: Bucket, tmp_path: Path) -> None:
    site.faults.append(redirect(location.format(url=site.url)))
    for _ in range(2):
        cache.forget()
        assert Path(cache.local(f"{site.url}/a.db")).read_bytes() == DEMO
    assert "if-none-match" in site.requests[-1].headers
    assert run([*MCP_TAPE, "pull", f"{site.url}/a.db", str(tmp_path)]).returncode == 0
    assert (tmp_path / "a.db").read_bytes() == DEMO


def test_a_server_that_redirects_for_ever_is_not_asked_for_ever(site: Bucket, tmp_path: Path) -> None:
    site.faults.append(redirect("/a.db"))
    assert "redirects more than" in by_cache(f"{site.url}/a.db", tmp_path)


@pytest.mark.slow
def test_a_server_that_fails_is_asked_again_but_not_for_ever(site: Bucket, tmp_path: Path) -> None:
    site.faults.append(fail)
    assert "status 500" in by_cache(f"{site.url}/a.db", tmp_path)
    assert site.verbs() == ["GET"] * 5


@pytest.mark.slow
def test_the_time_for_all_of_an_object_is_bounded(
    site: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is silent until the reader gives up; a timeout for single reads would not end that."""
    go_on = threading.Event()

    def stall(request: Request, answer: Answer) -> None:
        answer.pause = (1000, lambda: go_on.wait(WAIT))

    site.faults.append(stall)
    monkeypatch.setattr(stores, "LONGEST", 0.5)
    monkeypatch.setattr(stores, "PATIENCE", 10 * WAIT)
    try:
        assert "no answer in time" in by_cache(f"{site.url}/a.db", tmp_path)
    finally:
        go_on.set()
