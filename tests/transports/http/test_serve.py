"""The ids of sessions, from which every worker knows whose a session is, and what is kept of those that ended."""

from __future__ import annotations

import contextlib
import gc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.cassette.reader import Cassette
from mcp_tape.replay.stage import Replay, Stage
from mcp_tape.transports.http.listen import Address, Site
from mcp_tape.transports.http.serve import Server, SessionIds
from mcp_tape.transports.local import site_in_thread
from tests.support.http import Client
from tests.support.http_facts import Http, cassette
from tests.support.http_running import INITIALIZE
from tests.support.messages import call, result


def test_one_worker_counts() -> None:
    ids = SessionIds("S")
    assert [ids.take() for _ in range(3)] == ["S", "S-2", "S-3"]


def test_without_a_recorded_id_they_have_a_name() -> None:
    ids = SessionIds(None)
    assert [ids.take() for _ in range(2)] == ["tape-1", "tape-2"]


def test_an_id_that_others_have_given_is_left_out() -> None:
    several = ids, others = SessionIds("S"), SessionIds("S-2")
    assert [one.take(several) for one in (ids, others, ids, others, ids)] == ["S", "S-2", "S-3", "S-2-2", "S-4"]


RECORDED = st.none() | st.text("ab-0123456789", min_size=1) | st.sampled_from(["tape-7", "a-1", "a-1-2", "-"])


@given(RECORDED, st.integers(1, 5), st.integers(0, 2))
def test_an_id_says_whose_session_it_is(recorded: str | None, workers: int, earlier: int) -> None:
    every = [SessionIds(recorded, number, workers, earlier) for number in range(workers)]
    again = SessionIds(recorded, 0, workers, earlier + 1)
    found = {one.take(): worker for _ in range(4) for worker, one in enumerate(every)}
    assert len(found) == 4 * workers
    for session, worker in found.items():
        assert {one.owner(session) for one in (*every, again)} == {worker}
    assert not {again.take() for _ in range(4)} & found.keys()


@pytest.mark.parametrize("session", ["", "S-", "S-0", "S-01", "S--1", "S-1 ", "T-1", "S-" + "9" * 5000, "S-²", "S-٣"])
def test_what_is_no_id_is_nobodys(session: str) -> None:
    assert SessionIds("S", 1, 3).owner(session) is None


def one_call(http: Http) -> None:
    http.post("post-1", INITIALIZE.decode())
    http.answer("post-1", result(0), mcp_session_id="S")
    http.post("post-2", call(1, "a"), mcp_session_id="S")
    http.answer("post-2", result(1))


def test_of_a_session_that_ended_only_numbers_are_kept(tmp_path: Path) -> None:
    path = cassette(tmp_path / "tape.db", one_call)
    stages: list[Stage] = []

    @contextlib.contextmanager
    def application() -> Iterator[Server]:
        with Cassette(path) as tape:
            stages.append(Stage(tape, Replay(), lambda text: None))
            yield Server(stages[0], site.stop)

    def play(client: Client, sessions: int) -> None:
        for _ in range(sessions):
            client.ask(INITIALIZE)
            own = {"mcp_session_id": client.answer().header("mcp-session-id") or ""}
            client.ask(call(7, "a").encode(), **own)
            assert client.answer().status == 200
            client.ask(verb="DELETE", **own)
            assert client.answer().status == 200

    def kept() -> Counter[str]:
        gc.collect()
        return Counter(
            type(one).__name__ for one in gc.get_objects() if str(type(one).__module__).startswith("mcp_tape")
        )

    site = Site(Address("127.0.0.1", 0), lambda error: None)
    with site_in_thread(site, application) as origin, Client(f"{origin}/mcp") as client:
        play(client, 20)
        before = kept()
        play(client, 100)
        assert {name: number for name, number in (kept() - before).items() if number >= 100} == {}
    assert stages[0].finish(None).played == 2 * 120
