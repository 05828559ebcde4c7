"""Random conversations, replayed to a client with another order, other ids and other tokens."""

from __future__ import annotations

import contextlib
import http.client
import json
import queue
import threading
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mcp_tape.replay.sends import MISS
from mcp_tape.wire import protocol
from tests.support import fuzzing
from tests.support.decks import Player, Said, make_cassette
from tests.support.http_running import Running, replaying
from tests.support.running import MCP_TAPE, WAIT, started
from tests.support.talking import Live
from tests.support.talks import Body, Talk

HELLO = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
INITIALIZE = {"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": HELLO}
GREETING = {"jsonrpc": "2.0", "id": "hello", "result": HELLO | {"serverInfo": {"name": "s", "version": "1"}}}
PONG = {"jsonrpc": "2.0", "id": "last", "result": {}}
PING = {"jsonrpc": "2.0", "id": "last", "method": "ping"}
HANDSHAKE: list[Said] = [("client", json.dumps(INITIALIZE)), ("server", json.dumps(GREETING))]


def flat(texts: list[str]) -> list[Body]:
    """The messages of some frames: a batch may be sent together or in parts."""
    frames = [json.loads(text) for text in texts]
    return [body for frame in frames for body in (frame if isinstance(frame, list) else [frame])]


def comparable(body: Body) -> Body:
    """Remove what may differ: ids of server requests, and the reason for a missing answer."""
    mine = dict(body)
    if protocol.member(body.get("error"), "code") == MISS:
        mine["error"] = {"code": MISS}
    if "method" in body:
        mine.pop("id", None)
        mine["params"] = {name: value for name, value in body.get("params", {}).items() if name != "requestId"}
    return mine


@pytest.mark.slow
def test_each_step_of_a_client_brings_the_messages_that_wait_for_it(tmp_path: Path) -> None:
    for case in fuzzing.cases(40):
        talk = Talk(case)
        path = make_cassette(tmp_path / f"{case.number}.db", talk.said)
        for report_played in (True, False):
            live, player = Live(talk, case), Player(path, report_played=report_played)
            assert player.start() == []
            for frame, expected in live.steps():
                got = flat(player.say(json.dumps(frame)))
                for body in got:
                    live.heard(body)
                assert [comparable(body) for body in got] == [comparable(body) for body in expected]
        path.unlink()


class Wired:
    """A client whose messages arrive from several places, in any order."""

    def __init__(self) -> None:
        self.arrived: queue.Queue[Body] = queue.Queue()

    def arrive(self, text: str) -> None:
        for body in flat([text]):
            self.arrived.put(body)

    def send(self, frame: Any) -> None:
        raise NotImplementedError

    def play(self, live: Live) -> None:
        """Make all steps. The messages due for one must arrive before the next, and no others at all."""
        for frame, expected in chain(live.steps(), [(PING, [PONG])]):
            self.send(frame)
            got = [self.arrived.get(timeout=WAIT) for _ in expected]
            for body in got:
                live.heard(body)
            assert sorted(map(_text, got)) == sorted(map(_text, expected))
        assert self.arrived.empty()


def _text(body: Body) -> str:
    return json.dumps(comparable(body), sort_keys=True)


class OnPipes(Wired):
    """A client that starts a replay."""

    def __init__(self, process: Any) -> None:
        super().__init__()
        self._process = process
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            for line in self._process.stdout:
                self.arrive(line.decode())

    def send(self, frame: Any) -> None:
        self._process.stdin.write(json.dumps(frame).encode() + b"\n")


class OnWeb(Wired):
    """A client of a listening replay: each message is a POST, and a GET has the rest."""

    def __init__(self, running: Running, path: str) -> None:
        super().__init__()
        self._netloc, self._path = urlsplit(running.url).netloc, path
        self._headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        self._connections: list[http.client.HTTPConnection] = []
        self._threads: list[threading.Thread] = []
        self.opened: queue.Queue[str] = queue.Queue()  # the URL for POSTs, with HTTP+SSE

    def request(self, verb: str, frame: Any = None) -> http.client.HTTPConnection:
        """A connection with a request in progress: later ones do not overtake it."""
        connection = http.client.HTTPConnection(self._netloc, timeout=WAIT)
        self._connections.append(connection)
        body = None if frame is None else json.dumps(frame)
        connection.request(verb, self._path, body, self._headers)
        return connection

    def greet(self) -> None:
        """Streamable HTTP: the handshake, and a stream for messages without a call."""
        with self.request("POST", INITIALIZE).getresponse() as answer:
            answer.read()
            self._headers["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
        self._in_background(self.request("GET"))

    def connect(self) -> None:
        """HTTP+SSE: one stream for everything, which names the URL for POSTs."""
        self._in_background(self.request("GET"))
        self._path = self.opened.get(timeout=WAIT)
        self.send(INITIALIZE)
        self.arrived.get(timeout=WAIT)

    def send(self, frame: Any) -> None:
        """A frame without a request is accepted at once; an answer may take its time."""
        connection = self.request("POST", frame)
        parts = frame if isinstance(frame, list) else [frame]
        if any("method" in part and "id" in part for part in parts) and "Mcp-Session-Id" in self._headers:
            self._in_background(connection)
        else:
            self._read(connection)

    def _in_background(self, connection: http.client.HTTPConnection) -> None:
        self._threads.append(threading.Thread(target=self._read, args=[connection], daemon=True))
        self._threads[-1].start()

    def _read(self, connection: http.client.HTTPConnection) -> None:
        gone = OSError, ValueError, AttributeError, http.client.HTTPException  # the server is gone
        with contextlib.suppress(*gone), connection.getresponse() as response:
            if "event-stream" in response.headers.get("Content-Type", ""):
                for data in _events(response):
                    self.arrive(data) if data.lstrip()[:1] in ("{", "[") else self.opened.put(data)
            elif body := response.read():
                self.arrive(body.decode())

    def close(self) -> None:
        """Once the server is gone, all waiting threads have ended."""
        for thread in self._threads:
            thread.join(WAIT)
        for connection in self._connections:
            connection.close()


def _events(response: http.client.HTTPResponse) -> Iterator[str]:
    data: list[str] = []
    while line := response.readline().decode():
        if line.startswith("data:"):
            data.append(line[5:].strip())
        elif not line.strip() and data:
            yield "\n".join(data)
            data = []


@contextlib.contextmanager
def on_pipes(path: Path) -> Iterator[Wired]:
    with started([*MCP_TAPE, "replay", "-q", str(path)]) as process:
        yield OnPipes(process)


@contextlib.contextmanager
def on_web(path: Path, place: str) -> Iterator[Wired]:
    with replaying(path, "-q") as running:
        client = OnWeb(running, place)
        try:
            (client.greet if place == "/mcp" else client.connect)()
            yield client
        finally:
            running.process.kill()  # its exit code would report misses, which do not matter here
            running.process.wait(WAIT)
            client.close()


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize("where", ["pipes", "/mcp", "/sse"])
def test_a_conversation_is_the_same_on_every_transport(tmp_path: Path, where: str) -> None:
    for case in fuzzing.cases(3):
        talk = Talk(case, modern=False)
        path = make_cassette(tmp_path / f"{case.number}.db", HANDSHAKE + talk.said)
        with on_pipes(path) if where == "pipes" else on_web(path, where) as client:
            client.play(Live(talk, case))
        path.unlink()
