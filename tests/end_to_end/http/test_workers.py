"""One cassette for many clients: several processes at one address, each session with one of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.support.http import ACCEPT, EVENTS, JSON, LAST, Client, Wire, ask, chunk
from tests.support.http_running import (
    INITIALIZE,
    INITIALIZED,
    Running,
    call,
    event,
    listening,
    modern,
    replaying,
    result,
)
from tests.support.http_tapes import (
    CHANGED,
    NUMBER,
    SAMPLED,
    SAMPLING,
    legacy_tape,
    modern_tape,
    progress,
    tool,
    with_token,
)
from tests.support.running import MCP_TAPE, WAIT, alive, children, run, until

WORKERS = 3
LIST = call("l", "tools/list")
OFTEN = 12  # connections, enough to reach each worker almost certainly


@pytest.fixture(scope="module")
def tapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("tapes")
    legacy_tape(place / "legacy.db")
    modern_tape(place / "modern.db")
    return place


@pytest.fixture(scope="module")
def replay(tapes: Path) -> Iterator[Running]:
    """A replay for sessions; tests that share it end theirs."""
    with replaying(tapes / "legacy.db", "--workers", str(WORKERS)) as running:
        yield running


def begun(url: str) -> dict[str, str]:
    """A new session; returns the header that names it."""
    own = {"mcp_session_id": ask(url, INITIALIZE).header("mcp-session-id") or ""}
    assert ask(url, INITIALIZED, **own).status == 202
    return own


@pytest.fixture
def sessions(replay: Running) -> Iterator[list[dict[str, str]]]:
    """A session with each worker."""
    found: dict[int, dict[str, str]] = {}
    every = []
    while len(found) < WORKERS:
        every.append(begun(replay.url))
        found.setdefault(owner(every[-1]), every[-1])
    yield [found[worker] for worker in range(WORKERS)]
    for own in every:
        ask(replay.url, verb="DELETE", **own)


def owner(session: dict[str, str]) -> int:
    """The worker of a session, by its id."""
    number = session["mcp_session_id"].removeprefix(NUMBER).removeprefix("-")
    return (int(number or 1) - 1) % WORKERS


# Sessions stay with their worker -------------------------------------------------------------------------


@pytest.mark.slow
def test_a_session_is_there_on_every_connection(replay: Running, sessions: list[dict[str, str]]) -> None:
    for own in sessions:
        assert {ask(replay.url, LIST, **own).status for _ in range(OFTEN)} == {200}
        assert ask(replay.url, tool(1, "plain"), **own).body == result(1, text="plain")


@pytest.mark.slow
def test_one_connection_may_speak_for_sessions_of_all_workers(replay: Running, sessions: list[dict[str, str]]) -> None:
    with Client(replay.url) as client:
        for _ in range(3):
            for own in sessions:
                client.ask(LIST, **own)
                assert client.answer().status == 200


@pytest.mark.slow
def test_requests_that_come_all_at_once_are_answered_in_their_order(
    replay: Running, sessions: list[dict[str, str]]
) -> None:
    order = [*sessions, *reversed(sessions), *sessions]
    with Client(replay.url) as client:
        for number, own in enumerate(order):
            client.ask(call(number, "tools/list"), **own)
        assert [client.answer().document["id"] for _ in order] == list(range(len(order)))


@pytest.mark.parametrize("body", ["large", "chunked", "in pieces"])
@pytest.mark.slow
def test_a_request_is_passed_on_however_it_comes(body: str, replay: Running, sessions: list[dict[str, str]]) -> None:
    text = call("x", "tools/list", _meta={"filling": "x" * (1_000_000 if body == "large" else 10)})
    for own in sessions:
        with Client(replay.url) as client:
            if body == "large":
                client.ask(text, **own)
            elif body == "chunked":
                client.ask(None, transfer_encoding="chunked", content_type="application/json", **own)
                client.send(chunk(text[:20]))
                client.send(chunk(text[20:]) + LAST)
            else:
                for piece in pieces(posted(replay.url, text, own), 40):
                    client.send(piece)
            assert client.answer().document["id"] == "x"


def posted(url: str, body: bytes, own: dict[str, str]) -> bytes:
    head = f"POST /mcp HTTP/1.1\r\nhost: {urlsplit(url).netloc}\r\ncontent-length: {len(body)}\r\n"
    return f"{head}mcp-session-id: {own['mcp_session_id']}\r\n\r\n".encode() + body


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def test_a_client_that_waits_for_leave_to_send_its_body_gets_it(
    replay: Running, sessions: list[dict[str, str]]
) -> None:
    for own in sessions:
        with Client(replay.url) as client:
            head, _, body = posted(replay.url, LIST, own).partition(b"\r\n\r\n")
            client.send(head + b"\r\nexpect: 100-continue\r\n\r\n")
            assert client.answer_head().status == 100
            client.send(body)
            assert client.answer().document["id"] == "l"


def test_the_stream_of_a_session_gets_messages_for_posts_on_other_connections(
    replay: Running, sessions: list[dict[str, str]]
) -> None:
    with contextlib.ExitStack() as open_:
        listeners = [open_.enter_context(Client(replay.url)) for _ in sessions]
        for listener, own in zip(listeners, sessions, strict=True):
            listener.ask(verb="GET", **own)
            assert listener.answer_head().header("content-type") == EVENTS
        for listener, own in zip(listeners, sessions, strict=True):
            assert ask(replay.url, tool(5, "changes"), **own).body == result(5, text="changed")
            assert listener.read(len(event(CHANGED, b"id: 1\n"))) == event(CHANGED, b"id: 1\n")


def test_a_question_of_the_server_is_answered_on_another_connection(
    replay: Running, sessions: list[dict[str, str]]
) -> None:
    for own in sessions:
        with Client(replay.url) as client:
            client.ask(tool(4, "asks"), **own)
            client.answer_head()
            assert client.read(len(event(SAMPLING))) == event(SAMPLING)
            assert ask(replay.url, SAMPLED, **own).status == 202
            assert client.chunk() == event(result(4, text="asked"))


def test_a_client_resumes_a_stream_behind_any_event(replay: Running, sessions: list[dict[str, str]]) -> None:
    for own in sessions:
        done = ask(replay.url, with_token(3, "events", "t"), **own)
        assert done.body.count(b"data: ") == 3
        for seen, rest in (("e1", ["e2", "e3"]), ("e2", ["e3"]), ("e3", [])):
            resumed = ask(replay.url, verb="GET", last_event_id=seen, **own)
            assert (resumed.status, re.findall(r"id: (e\d)", resumed.body.decode())) == (200, rest)
        assert ask(replay.url, verb="GET", last_event_id="never", **own).status == 400


def test_a_session_that_was_ended_is_nowhere_any_more(replay: Running) -> None:
    own = begun(replay.url)
    with Client(replay.url) as listener:
        listener.ask(verb="GET", **own)
        listener.answer_head()
        assert ask(replay.url, verb="DELETE", **own).status == 200
        while listener.chunk():
            pass  # a clean end
    for verb, body in (("POST", LIST), ("GET", None), ("DELETE", None)):
        answers = [ask(replay.url, body, verb=verb, **own) for _ in range(OFTEN)]
        assert {(one.status, one.document["error"]["code"]) for one in answers} == {(404, -32001)}


@pytest.mark.parametrize(
    "number", ["never", f"{NUMBER}-0", f"{NUMBER}-02", f"{NUMBER}-{'9' * 30}", f"{NUMBER}--1", "²"]
)
def test_ids_that_no_worker_has_given_are_nobodys(number: str, replay: Running) -> None:
    with Client(replay.url) as client:
        client.send(posted(replay.url, LIST, {"mcp_session_id": number}).replace("²".encode(), "²".encode("latin-1")))
        assert client.answer().status == 404


def test_the_old_transport_stays_with_its_stream(replay: Running) -> None:
    with contextlib.ExitStack() as open_:
        for _ in range(WORKERS * 2):
            stream = open_.enter_context(Client(replay.origin + "/sse"))
            stream.ask(verb="GET")
            stream.answer_head()
            endpoint = stream.chunk().decode().split("data: ")[1].strip()
            assert ask(replay.url, INITIALIZE, to=endpoint).status == 202
            assert json.loads(stream.chunk().split(b"data: ")[1])["id"] == 0
            for rpc_id in range(OFTEN // WORKERS):
                assert ask(replay.url, call(rpc_id, "tools/list"), to=endpoint).status == 202
                assert json.loads(stream.chunk().split(b"data: ", 1)[1].replace(b"\ndata: ", b""))["id"] == rpc_id


def test_sessions_begin_with_every_worker_and_have_ids_of_their_own(
    replay: Running, sessions: list[dict[str, str]]
) -> None:
    assert [owner(own) for own in sessions] == list(range(WORKERS))
    more = [begun(replay.url) for _ in range(OFTEN)]
    ids = [own["mcp_session_id"] for own in (*sessions, *more)]
    assert len(set(ids)) == len(ids)
    for own in more:
        assert ask(replay.url, verb="DELETE", **own).status == 200


@pytest.mark.slow
def test_two_hundred_clients_at_once_have_the_whole_tape_each(tapes: Path) -> None:
    with replaying(tapes / "legacy.db", "--workers", str(WORKERS)) as replay:
        asyncio.run(asyncio.wait_for(all_of_them(replay.url, 200), WAIT))
        assert replay.stop() == 0
        assert f"mcp-tape: {200 * 4} played, 0 missed: " in replay.said


async def all_of_them(url: str, clients: int) -> None:
    """Clients that share connections, as those of one program or behind one proxy do."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
    headers = {"accept": ACCEPT, "content-type": JSON}
    async with httpx2.AsyncClient(headers=headers, limits=limits, timeout=WAIT, trust_env=False) as client:
        await asyncio.gather(*(whole_session(client, url) for _ in range(clients)))


async def whole_session(client: httpx2.AsyncClient, url: str) -> None:
    begun = await client.post(url, content=INITIALIZE)
    own = {"mcp-session-id": begun.headers["mcp-session-id"]}
    assert (await client.post(url, content=INITIALIZED, headers=own)).status_code == 202
    async with client.stream("GET", url, headers=own) as listening:
        changed, plain, events = await asyncio.gather(
            client.post(url, content=tool(5, "changes"), headers=own),
            client.post(url, content=tool(1, "plain"), headers=own),
            client.post(url, content=with_token(3, "events", 7), headers=own),
        )
        assert (changed.content, plain.content) == (result(5, text="changed"), result(1, text="plain"))
        assert progress(7, 1) in events.content and result(3, text="with events") in events.content
        got = b""
        async for data in listening.aiter_raw():
            got += data
            if CHANGED in got:
                break
    assert (await client.delete(url, headers=own)).status_code == 200


# Clients without a session -------------------------------------------------------------------------------


def test_clients_of_the_modern_era_are_answered_by_any_worker(tapes: Path) -> None:
    with replaying(tapes / "modern.db", "--workers", "2") as replay:
        answers = [ask(replay.url, modern(f"c{n}", name="counted")).document for n in range(OFTEN)]
        assert [one["id"] for one in answers] == [f"c{n}" for n in range(OFTEN)]
        assert {one["result"]["text"] for one in answers} == {"answer 1", "answer 2"}
        assert replay.stop() == 0
        assert f"{OFTEN} played, 0 missed: " in replay.said
        counted = [int(played) for played in re.findall(r"worker \d: (\d+) played", replay.said)]
        assert (sum(counted), len(counted)) == (OFTEN, 2)


# All of them together ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_misses_and_the_report_are_those_of_all_workers(tapes: Path, tmp_path: Path) -> None:
    report = tmp_path / "report"
    options = ("--workers", "2", "--strict", "--report", str(report))
    with replaying(tapes / "modern.db", *options, code=1) as replay:
        for number in range(OFTEN):
            ask(replay.url, modern(number, name="counted"))
            ask(replay.url, modern(number, name="never"))
        assert replay.stop() == 1
        assert f"{OFTEN} played, {OFTEN} missed, 3 unplayed: " in replay.said
        assert replay.said.count("unplayed: #") == 3
    rows = [json.loads(line) for line in report.read_text().splitlines()]
    assert [row["id"] for row in rows if row["what"] == "played"] == list(range(OFTEN))
    assert [row["id"] for row in rows if row["what"] == "miss"] == list(range(OFTEN))
    assert [row["name"] or row["method"] for row in rows if row["what"] == "unplayed"] == [
        "events",
        "no/such",
        "subscriptions/listen",
    ]
    assert len({row["pid"] for row in rows if row["what"] != "unplayed"}) == 2


@pytest.mark.slow
def test_requests_of_one_worker_count_as_played_for_all(tapes: Path) -> None:
    with replaying(tapes / "modern.db", "--workers", "3", "--strict", code=0) as replay:
        for body in (modern(1, name="counted"), modern(2, name="counted"), modern(3, "no/such")):
            for _ in range(OFTEN * 2):
                ask(replay.url, body)
        ask(replay.url, modern(4, name="events"))
        with Client(replay.url) as client:
            client.ask(modern("l", "subscriptions/listen", notifications={"toolsListChanged": True}))
            client.answer_head()
        assert replay.stop() == 0, replay.said
        assert ", 0 missed, 0 unplayed: " in replay.said


def test_a_fault_that_ends_the_server_ends_all_workers(tapes: Path) -> None:
    fault = ("--fault", "tools/call:plain=exit:3")
    with replaying(tapes / "legacy.db", "--workers", "2", *fault, code=3) as replay:
        own = begun(replay.url)
        with contextlib.suppress(Exception):
            ask(replay.url, tool(1, "plain"), **own)
        assert replay.process.wait(WAIT) == 3


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--repeats", "error"], "--repeats error"),
        (["--order", "recorded"], "--order recorded"),
        (["--fault", "tools/call=drop", "--fault", "tools/call:x@2=drop"], "--fault tools/call:x@2=drop"),
    ],
)
@pytest.mark.slow
def test_options_that_count_all_calls_are_refused_if_clients_share_a_tape(
    options: list[str], named: str, tapes: Path
) -> None:
    command = [*MCP_TAPE, "replay", "--listen", "0", "--workers", "2", *options]
    refused = run([*command, str(tapes / "modern.db")])
    assert (refused.returncode, refused.stdout) == (2, b"")
    assert f"{named} needs a single worker" in refused.stderr.decode()
    with listening(*command[len(MCP_TAPE) :], str(tapes / "legacy.db")) as replay:
        assert ask(replay.url, LIST, **begun(replay.url)).status == 200  # each session has its own


@pytest.mark.slow
def test_a_shared_tape_per_worker_is_noted_once(tapes: Path) -> None:
    note = "each of 2 workers has its own tape for clients of the newest protocol"
    for tape, options, times in (("modern.db", [], 1), ("modern.db", ["-q"], 0), ("legacy.db", [], 0)):
        with replaying(tapes / tape, "--workers", "2", *options) as replay:
            assert replay.stop() == 0
            assert replay.said.count(note) == times


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--workers", "2"], 2, "--workers needs --listen"),
        (["--workers", "0", "--listen", "0"], 2, "'0' is not a number of at least 1"),
        (["--workers", "129", "--listen", "0"], 2, "--workers 129 is too many: at most 128"),
        (["--workers", "2", "--listen", "0", "--session", "99"], 3, "does not hold session 99"),
    ],
)
def test_an_unplayable_cassette_is_reported_once(words: Sequence[str], code: int, says: str, tapes: Path) -> None:
    done = run([*MCP_TAPE, "replay", str(tapes / "legacy.db"), *words])
    assert (done.returncode, done.stdout, done.stderr.decode().count(says)) == (code, b"", 1)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_address_where_workers_listen_is_taken(workers: str, replay: Running, tapes: Path) -> None:
    address = urlsplit(replay.url).netloc
    done = run([*MCP_TAPE, "replay", str(tapes / "modern.db"), "--listen", address, "--workers", workers])
    assert (done.returncode, done.stdout) == (4, b"")
    assert f"cannot listen on {address}: Address already in use" in done.stderr.decode()


def test_a_cassette_in_text_is_read_once_and_named_as_given(tapes: Path, tmp_path: Path) -> None:
    text = tmp_path / "modern.jsonl"
    assert run([*MCP_TAPE, "convert", str(tapes / "modern.db"), str(text)]).returncode == 0
    with replaying(text, "--workers", "2", code=1) as replay:
        for _ in range(OFTEN):
            assert ask(replay.url, modern(1, name="counted")).status == 200
        assert ask(replay.url, modern(2, name="never")).document["error"]["code"] == -32010
        assert replay.stop() == 1
        assert f"1 missed: {text}" in replay.said
        assert f"{text}" in replay.said.partition("worker 1")[0]  # the miss, too


# Signals and deaths --------------------------------------------------------------------------------------


def workers_of(replay: Running) -> list[int]:
    return sorted(children(replay.process.pid))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.slow
def test_a_signal_to_the_first_process_ends_them_all(number: int, tapes: Path) -> None:
    with replaying(tapes / "legacy.db", "--workers", "2") as replay:
        workers = workers_of(replay)
        own = begun(replay.url)
        with Client(replay.url) as listener:
            listener.ask(verb="GET", **own)
            listener.answer_head()
            assert (len(workers), replay.stop(number)) == (2, 0)
        assert not any(map(alive, workers))
        assert "mcp-tape: 1 played, 0 missed: " in replay.said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_workers_leave_signals_to_the_first_process(number: int, tapes: Path) -> None:
    with replaying(tapes / "legacy.db", "--workers", "2") as replay:
        workers = workers_of(replay)
        for worker in workers:
            os.kill(worker, number)
        assert all(ask(replay.url, LIST, **begun(replay.url)).status == 200 for _ in range(OFTEN))
        assert workers_of(replay) == workers


@pytest.mark.slow
def test_a_worker_that_is_killed_is_replaced_and_its_sessions_are_gone(tapes: Path) -> None:
    with replaying(tapes / "legacy.db", "--workers", str(WORKERS), code=1) as replay:
        killed, *spared = workers_of(replay)
        sessions = [begun(replay.url) for _ in range(OFTEN)]
        os.kill(killed, signal.SIGKILL)
        until(lambda: "was killed by SIGKILL: its sessions are lost" in replay.said, "the death to be noticed")
        after = [begun(replay.url) for _ in range(OFTEN)]
        assert {ask(replay.url, LIST, **own).status for own in after} == {200}
        assert not {own["mcp_session_id"] for own in sessions} & {own["mcp_session_id"] for own in after}
        dead = int(re.findall(r"worker (\d) was killed", replay.said)[0]) - 1
        for own in sessions:
            assert ask(replay.url, LIST, **own).status == (404 if owner(own) == dead else 200)
        assert set(spared) < set(workers_of(replay)) and killed not in workers_of(replay)
        assert replay.stop() == 1


@pytest.mark.slow
def test_clients_of_a_killed_worker_are_cut_off_and_may_come_back(tapes: Path) -> None:
    with replaying(tapes / "legacy.db", "--workers", "2", code=1) as replay, contextlib.ExitStack() as open_:
        streams: list[Wire] = []
        for _ in range(OFTEN):
            stream = open_.enter_context(Client(replay.url))
            stream.ask(verb="GET", **begun(replay.url))
            stream.answer_head()
            streams.append(stream)
        for worker in workers_of(replay):
            os.kill(worker, signal.SIGKILL)
        assert {stream.how_it_ends() for stream in streams} <= {"closed", "reset"}
        assert ask(replay.url, LIST, **begun(replay.url)).status == 200


def test_no_worker_outlives_the_first_process(tapes: Path) -> None:
    with replaying(tapes / "legacy.db", "--workers", "3") as replay:
        workers = workers_of(replay)
        begun(replay.url)
        replay.process.kill()
        replay.process.wait(WAIT)
        until(lambda: not any(map(alive, workers)), "the workers to end")
        assert len(workers) == 3
        with socket.socket() as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind(("127.0.0.1", urlsplit(replay.url).port))
