"""Session ids, which show every worker the owner of a session, and the memory of ended sessions."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.cassette.lookup import messages as lookup
from mcp_tape.cassette.reader import Cassette
from mcp_tape.replay.stage import ReplayOptions, Stage
from mcp_tape.transports.http.listen import Address, Site
from mcp_tape.transports.http.serve import ReplayServer, SessionIds
from mcp_tape.transports.http.streams import Stream
from mcp_tape.transports.local import site_in_thread
from mcp_tape.wire import frames, match
from tests.support.http import Client
from tests.support.http_facts import Http, cassette
from tests.support.http_in_loop import InLoop
from tests.support.http_running import INITIALIZE
from tests.support.messages import call, progress, request, result, tell
from tests.support.running import WAIT


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
def test_an_invalid_id_belongs_to_no_worker(session: str) -> None:
    assert SessionIds("S", 1, 3).owner(session) is None


def one_call(http: Http) -> None:
    http.post("post-1", INITIALIZE.decode())
    http.answer("post-1", result(0), mcp_session_id="S")
    http.post("post-2", call(1, "a"), mcp_session_id="S")
    http.answer("post-2", result(1))


@pytest.mark.slow
def test_of_a_session_that_ended_only_numbers_are_kept(tmp_path: Path) -> None:
    path = cassette(tmp_path / "tape.db", one_call)
    stages: list[Stage] = []

    @contextlib.contextmanager
    def application() -> Iterator[ReplayServer]:
        with Cassette(path) as tape:
            stages.append(Stage(tape, ReplayOptions(), lambda text: None))
            yield ReplayServer(stages[0], site.stop)

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


@pytest.mark.parametrize("goes_on", [False, True], ids=["silent", "busy"])
def test_a_writer_gets_its_turn_while_clients_are_there(tmp_path: Path, goes_on: bool) -> None:
    path = cassette(tmp_path / "tape.db", one_call)
    asked, is_written = threading.Event(), threading.Event()

    @contextlib.contextmanager
    def application() -> Iterator[ReplayServer]:
        with Cassette(path) as tape:
            yield ReplayServer(Stage(tape, ReplayOptions(repeats="cycle"), lambda text: None), site.stop)

    def ask(origin: str) -> None:
        with Client(f"{origin}/mcp") as client:
            client.ask(INITIALIZE)
            own = {"mcp_session_id": client.answer().header("mcp-session-id") or ""}
            while not (asked.is_set() and is_written.is_set()):
                client.ask(call(7, "a").encode(), **own)
                assert client.answer().document["result"] == {"value": "ok"}
                asked.set()
                if not goes_on:
                    is_written.wait(2 * WAIT)

    site = Site(Address("127.0.0.1", 0), lambda error: None)
    with site_in_thread(site, application) as origin, ThreadPoolExecutor(1) as pool:
        client = pool.submit(ask, origin)
        try:
            assert asked.wait(WAIT)
            with contextlib.closing(sqlite3.connect(path, timeout=WAIT)) as writer:
                writer.execute("BEGIN EXCLUSIVE")  # for which no reader may have the file
                writer.execute("UPDATE sessions SET note = 'written'")
                writer.commit()
        finally:
            is_written.set()
        client.result(WAIT)


def each_kind(http: Http) -> None:
    """Calls with nothing but an answer, and others."""
    http.post("post-1", INITIALIZE.decode())
    http.answer("post-1", result(0), mcp_session_id="S")
    http.post("post-2", call(2, "progress", token="t"), mcp_session_id="S")
    http.respond("post-2")
    http.event("post-2", progress("t", 1))
    http.event("post-2", result(2))
    http.end("server", "post-2")
    http.post("post-3", f"[{call(3, 'batch', n=3)}, {call(4, 'batch', n=4)}]", mcp_session_id="S")
    http.answer("post-3", f"[{result(3)}, {result(4)}]")
    for number in range(5, 40):
        http.post(f"post-{number}", call(number, "plain", n=number), mcp_session_id="S")
        http.answer(f"post-{number}", result(number))


# Requests, and how often each is keyed and looked up.
KINDS = [
    (call(2, "progress", token="x"), 1),
    (call(2, "progress"), 1),  # a repeat: a miss
    (call(2, "nowhere"), 1),
    (f"[{call(6, 'batch', n=4)}, {call(7, 'batch', n=3)}]", 2),
    (request(7, "tools/call", arguments={"n": 39}, name="plain"), 1),
    (call(8, "plain", n=39), 1),  # a repeat: a miss
    (call(31, "plain", n=31), 1),  # the same bytes as recorded
    (tell("notifications/initialized"), 0),
]


def test_a_request_is_parsed_keyed_and_looked_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    keyed: list[str] = []
    looked_up: list[str] = []
    parse, digest, statement = frames.parse, match._digest, lookup._NEXT_REQUEST.partition("?")[0]
    monkeypatch.setattr(frames, "parse", lambda text: (parsed.append(text), parse(text))[1])
    monkeypatch.setattr(match, "_digest", lambda method, what: (keyed.append(method), digest(method, what))[1])

    async def talk() -> list[tuple[int, int, int]]:
        with Cassette(cassette(tmp_path / "tape.db", each_kind)) as tape:
            tape._db.set_trace_callback(lambda sql: looked_up.append(sql) if sql.startswith(statement) else None)
            served, found = InLoop(ReplayServer(Stage(tape, ReplayOptions(), lambda text: None), lambda: None)), []
            await served.post(INITIALIZE, patience=WAIT)
            for text, _ in KINDS:
                for counted in (parsed, keyed, looked_up):
                    counted.clear()
                assert await served.post(text.encode(), patience=WAIT, mcp_session_id="S")
                found.append((parsed.count(text.encode()), len(keyed), len(looked_up)))
            await served.end()
            return found

    assert asyncio.run(talk()) == [(1, times, times) for _, times in KINDS]


def flood(http: Http) -> None:
    http.post("post-1", INITIALIZE.decode())
    http.answer("post-1", result(0), mcp_session_id="S")
    http.post("post-2", call(1, "flood"), mcp_session_id="S")
    http.respond("post-2")
    for number in range(100):
        http.event("post-2", tell("notifications/message", data=f"{number}:{'x' * 50_000}"))
    http.event("post-2", result(1))
    http.end("server", "post-2")


@pytest.mark.slow
def test_messages_that_a_slow_client_does_not_take_stay_on_the_tape(tmp_path: Path) -> None:
    async def talk() -> bytes:
        with Cassette(cassette(tmp_path / "tape.db", flood)) as tape:
            served = InLoop(ReplayServer(Stage(tape, ReplayOptions(), lambda text: None), lambda: None))
            assert await served.post(INITIALIZE, patience=WAIT)
            reader, writer = await served.ask(call(7, "flood").encode(), mcp_session_id="S")
            got = await asyncio.wait_for(reader.read(1), WAIT)
            assert max(len(one.items) for one in gc.get_objects() if type(one) is Stream) > 50
            got += await asyncio.wait_for(reader.read(), WAIT)
            writer.close()
            await served.end()
            return got

    got = asyncio.run(talk())
    assert [got.count(f'"{number}:x'.encode()) for number in range(100)] == [1] * 100
    assert got.rpartition(b"data: ")[2].startswith(result(7).encode())
