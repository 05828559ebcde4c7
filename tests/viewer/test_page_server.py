"""The page's server: refused requests, answers, and saved data."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mcp_tape.cassette.reader import Cassette
from mcp_tape.transports.local import site_in_thread
from mcp_tape.viewer.pack import unpack_columns
from mcp_tape.viewer.page_server import Viewer
from tests.support.reading import Frames, Recording, call, make, message, said
from tests.support.running import WAIT
from tests.support.viewing import index_of

TALK = Frames().client(call(1, "a")).server(said(1, "x")).client(call(2, "b")).server(said(2, "y"))


@contextmanager
def serving(*paths: str) -> Iterator[Viewer]:
    served = Viewer(*paths, report=lambda text: None)
    with site_in_thread(served.site, lambda: nullcontext(served)):
        yield served


@pytest.fixture
def viewer(tmp_path: Path) -> Iterator[Viewer]:
    with serving(str(make(tmp_path / "tape.db", TALK))) as served:
        yield served


def ask(viewer: Viewer, place: str = "", verb: str = "GET", body: bytes = b"", **headers: str) -> tuple[int, bytes]:
    """Status and body. A place that begins with / is an absolute path."""
    connection = HTTPConnection(urlsplit(viewer.url).netloc, timeout=WAIT)
    path = place if place.startswith("/") else f"/{viewer.token}/{place}"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(verb, path, body, named)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def test_it_listens_on_this_machine_alone(viewer: Viewer) -> None:
    address = urlsplit(viewer.url)
    assert address.hostname == "127.0.0.1" and address.port
    assert len(viewer.token) >= 32


def test_strangers_are_refused(viewer: Viewer) -> None:
    here = urlsplit(viewer.url).netloc
    assert ask(viewer)[0] == 200
    assert ask(viewer, Origin=f"http://{here}")[0] == 200
    assert ask(viewer, Host="evil.example")[0] == 421
    assert ask(viewer, Host=f"localhost.evil.example:{here.rpartition(':')[2]}")[0] == 421
    assert ask(viewer, Origin="https://evil.example")[0] == 403
    assert ask(viewer, Origin="null")[0] == 403
    assert ask(viewer, Sec_Fetch_Site="cross-site")[0] == 403
    assert ask(viewer, Sec_Fetch_Site="same-site")[0] == 403
    for path in ("/", "/updates", f"/{viewer.token[:-1]}/", f"/{viewer.token}x/updates", "//", "/%00/"):
        assert ask(viewer, path)[0] == 404, path
    assert ask(viewer, "/x/save", "POST", b"{}")[0] == 404
    assert ask(viewer, "", "DELETE")[0] == 405


@pytest.mark.parametrize("place", ["nothing", "block/9", "block/", "block/../updates", "updates/", "../etc/passwd"])
def test_an_unknown_path_is_404(viewer: Viewer, place: str) -> None:
    assert ask(viewer, place)[0] == 404


@pytest.mark.parametrize("body", [b"", b"[]", b'{"x":[1]}', b'{"1":1}', b"\xff", b'{"1":[[]]}'])
def test_an_invalid_selection_is_not_saved(viewer: Viewer, body: bytes) -> None:
    assert ask(viewer, "save", "POST", body)[0] == 400


def updates(viewer: Viewer, place: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, list[int | None]]]:
    """The answer to a page that asks for updates: its facts, and the update, if any."""
    status, body = ask(viewer, place)
    assert status == 200
    line, _, update = body.partition(b"\n")
    facts = json.loads(line)
    assert facts["updates"] == bool(update)
    return facts, *(unpack_columns(update) if update else ({}, {}))


def test_updates_continue(viewer: Viewer, tmp_path: Path) -> None:
    first, update, _ = updates(viewer, "updates?from=0")
    assert (first["more"], first["updates"]) == (False, 1)
    assert update["blocks"] == [4]
    texts = zlib.decompress(ask(viewer, "block/0")[1]).partition(b"\n")[2]
    assert all(frame.text in texts for frame in TALK)
    place = f"updates?from=1&generation={first['generation']}"
    assert updates(viewer, place)[0]["updates"] == 0
    recording = Recording(tmp_path / "tape.db")
    recording.write(Frames().client(call(1, "late")))
    _, update, columns = updates(viewer, place)
    assert columns["session"] == [2] and "late" in update["words"]
    assert [facts["open"] for facts in update["sessions"]] == [True]
    recording.end()
    _, update, _ = updates(viewer, place.replace("1", "2", 1))
    assert [(facts["id"], facts["open"]) for facts in update["sessions"]] == [(2, False)]


def test_another_recording_in_its_place_begins_anew(viewer: Viewer, tmp_path: Path) -> None:
    before, _, _ = updates(viewer, "updates?from=0")
    make(tmp_path / "new.db", Frames().client(message(id=1, method="ping"))).replace(tmp_path / "tape.db")
    after, update, _ = updates(viewer, f"updates?from=1&generation={before['generation']}")
    assert after["generation"] != before["generation"]
    assert update["blocks"] == [1]


def test_frames_are_saved_as_a_cassette(viewer: Viewer, tmp_path: Path) -> None:
    status, body = ask(viewer, "save", "POST", b'{"1":[3,4]}')
    assert status == 200
    saved = tmp_path / "saved.db"
    saved.write_bytes(body)
    with Cassette(saved) as cassette:
        assert [frame.text for frame in cassette.frames(1)] == [frame.text for frame in TALK[2:]]
        assert [one.name for one in cassette.exchanges(1)] == ["b"]


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Viewer]:
    """A page of two cassettes that both have a session 1."""
    tapes = make(tmp_path / "a.db", TALK), make(tmp_path / "b.db", Frames().client(call(1, "c")), TALK)
    with serving(*map(str, tapes)) as served:
        yield served


def test_several_cassettes_are_one_page(two: Viewer) -> None:
    _, update, columns = updates(two, "updates?from=0")
    assert update["files"] == ["a.db", "b.db"]
    origins = [(facts["id"], facts["file"], facts["number"]) for facts in update["sessions"]]
    assert origins == [(1, "a.db", 1), (2, "b.db", 1), (3, "b.db", 2)]
    assert columns["session"] == [1] * 4 + [2] + [3] * 4


def test_frames_of_several_are_saved_as_one_cassette(two: Viewer, tmp_path: Path) -> None:
    updates(two, "updates?from=0")
    status, body = ask(two, "save", "POST", b'{"1":[1,2],"3":[3,4]}')
    assert status == 200
    saved = tmp_path / "saved.db"
    saved.write_bytes(body)
    with Cassette(saved) as cassette:
        names = {session.id: [one.name for one in cassette.exchanges(session.id)] for session in cassette.sessions()}
    assert names == {1: ["a"], 3: ["b"]}


def test_findings_are_those_of_the_sessions_that_were_read(two: Viewer) -> None:
    updates(two, "updates?from=0")
    status, body = ask(two, "findings")
    assert status == 200
    assert [(one["rule"], one["session"], one["seq"]) for one in json.loads(body)] == [("unanswered", 2, 1)]


def test_two_sessions_are_compared(two: Viewer) -> None:
    updates(two, "updates?from=0")
    status, body = ask(two, "compared?old=1&new=3")
    assert status == 200
    assert index_of(body)[0]["compared"]["pairs"] == [[1, 1, 2, 1], [1, 3, 2, 3]]
    assert [ask(two, f"compared?{query}")[0] for query in ("", "old=1&new=9", "old=x&new=1")] == [400] * 3
