"""Server messages for a call that was answered already: they stay with that call, in both eras."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.decks import Said, make_cassette
from tests.support.http import LAST, Client, Message, Upstream, Wire, answer, ask, begin, chunk
from tests.support.http_facts import Http, cassette
from tests.support.http_running import INITIALIZE, INITIALIZED, call, event, modern, recording, replaying
from tests.support.messages import progress, result, tell
from tests.support.running import WAIT, until

HANDSHAKE = INITIALIZE.decode(), result(0, {}), INITIALIZED.decode()
ABOUT_CALL = tell("notifications/message", level="info", data="behind the answer")
Tape = Callable[[Path], Path]


def asking(number: int, tool: str, token: str, *, is_modern: bool) -> bytes:
    """A call that asks for progress."""
    body = json.loads((modern if is_modern else call)(number, name=tool, arguments={}))
    body["params"].setdefault("_meta", {})["progressToken"] = token
    return json.dumps(body).encode()


class Caller:
    """A client that has made two calls at once, `a` as 7 and `b` as 8."""

    def __init__(self, url: str, stack: contextlib.ExitStack, *, is_modern: bool, listens: bool = False) -> None:
        self._own = {"mcp_protocol_version": "2026-07-28"}
        if not is_modern:
            number = ask(url, INITIALIZE).header("mcp-session-id")
            self._own = {"mcp_session_id": number} if number else {}
            ask(url, INITIALIZED, **self._own)
        self.listener = stack.enter_context(Client(url)) if listens else None
        if self.listener is not None:
            self.listener.ask(verb="GET", **self._own)
            self.listener.answer_head()
        self.calls = [stack.enter_context(Client(url)) for _ in "ab"]
        for number, (client, tool) in enumerate(zip(self.calls, "ab", strict=True), 7):
            client.ask(asking(number, tool, f"live-{tool}", is_modern=is_modern), **self._own)

    def came(self) -> list[list[str]]:
        """The messages on the stream of each call, until its end."""
        return [heard(client.answer().body) for client in self.calls]


def heard(data: bytes) -> list[str]:
    """Messages in short form."""
    return [worded(json.loads(line)) for line in re.findall(r"^data: (\{.*)$", data.decode(), re.M)]


def worded(body: dict[str, Any]) -> str:
    params = body.get("params", {})
    return f"{params['progressToken']} {params['progress']}" if "progress" in params else params.get("data") or "answer"


# Tapes ---------------------------------------------------------------------------------------------------


def recorded(tape: Path, *, is_modern: bool) -> Path:
    """Two calls at once, each with a message after its answer on its own stream, through the recording proxy."""
    both_are_answered = threading.Barrier(2)

    def script(request: Message, wire: Wire) -> None:
        body = request.document
        if body["method"] != "tools/call":
            wire.send(answer(result(0, {}).encode(), mcp_session_id="S") if "id" in body else answer(status=202))
            return
        token = body["params"]["_meta"]["progressToken"]
        pieces = [progress(token, 1), result(body["id"]), progress(token, 2), ABOUT_CALL, progress(token, 3)]
        wire.send(begin())
        for piece in pieces:
            wire.send(chunk(event(piece.encode())))
            if piece == pieces[1]:
                both_are_answered.wait(WAIT)
        wire.send(LAST)

    with (
        Upstream(script) as upstream,
        recording(tape, upstream.url) as recorder,
        contextlib.ExitStack() as stack,
    ):
        came = Caller(recorder.url, stack, is_modern=is_modern).came()
    assert came == [of("a", *ALL), of("b", *ALL)]
    return tape


def on_one_stream(tape: Path, *, is_modern: bool) -> Path:
    """The same over stdio, where all messages come on one stream."""
    greeting: list[Said] = list(zip(("client", "server", "client"), HANDSHAKE, strict=True))  # type: ignore[arg-type]
    asked = [asking(number, tool, tool, is_modern=is_modern).decode() for number, tool in ((1, "a"), (2, "b"))]
    said = [progress("a", 1), progress("b", 1), result(2), result(1), *(progress(t, n) for n in (2, 3) for t in "ab")]
    talk: list[Said] = [("client", text) for text in asked]
    return make_cassette(tape, [*([] if is_modern else greeting), *talk, *(("server", text) for text in said)])


def on_the_get_stream(tape: Path) -> Path:
    """The same over HTTP, with all messages after an answer on the stream of a GET."""

    def talk(http: Http) -> None:
        own = {"mcp_session_id": "S"}
        http.post("post-1", HANDSHAKE[0])
        http.answer("post-1", HANDSHAKE[1], **own)
        http.post("post-2", HANDSHAKE[2], **own)
        http.answer("post-2", "", 202)
        http.open("get-1", **own)
        http.respond("get-1")
        for number, tool in ((3, "a"), (4, "b")):
            http.post(f"post-{number}", asking(number, tool, tool, is_modern=False).decode(), **own)
            http.respond(f"post-{number}")
            http.event(f"post-{number}", progress(tool, 1))
        for number in (4, 3):
            http.event(f"post-{number}", result(number))
            http.end("server", f"post-{number}")
        for step in (2, 3):
            for tool in "ab":
                http.event("get-1", progress(tool, step))

    return cassette(tape, talk)


# Their replays ---------------------------------------------------------------------------------------------


def of(tool: str, *said: str) -> list[str]:
    return [text.replace("live", f"live-{tool}") for text in said]


EARLY = "live 1", "answer"
LATE = "live 2", "live 3"
ALL = *EARLY, LATE[0], "behind the answer", LATE[1]
TAPES: dict[str, Tape] = {
    "HTTP, modern": lambda tape: recorded(tape, is_modern=True),
    "HTTP, legacy": lambda tape: recorded(tape, is_modern=False),
    "stdio, modern": lambda tape: on_one_stream(tape, is_modern=True),
    "stdio, legacy": lambda tape: on_one_stream(tape, is_modern=False),
    "GET stream": on_the_get_stream,
}


@pytest.fixture(scope="module")
def tape_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    place, made = tmp_path_factory.mktemp("late"), {}

    def tape(name: str) -> Path:
        return made[name] if name in made else made.setdefault(name, TAPES[name](place / f"{len(made)}.db"))

    return tape


@pytest.mark.parametrize("speed", ["0", "1"])
@pytest.mark.parametrize(
    ("name", "is_modern"),
    [*((name, True) for name in TAPES), *((name, False) for name in TAPES if name != "GET stream")],
)
def test_without_a_stream_for_all_else_it_comes_on_that_of_its_call(
    name: str, is_modern: bool, speed: str, tape_of: Callable[[str], Path]
) -> None:
    expected = ALL if name.startswith("HTTP") else (*EARLY, *LATE)
    with replaying(tape_of(name), speed=speed) as replay, contextlib.ExitStack() as stack:
        assert Caller(replay.url, stack, is_modern=is_modern).came() == [of("a", *expected), of("b", *expected)]


@pytest.mark.parametrize("speed", ["0", "1"])
@pytest.mark.parametrize("name", TAPES)
def test_a_client_that_listens_gets_it_where_the_server_sent_it(
    name: str, speed: str, tape_of: Callable[[str], Path]
) -> None:
    """Messages recorded on one stream come on the GET's stream: some clients read only up to the answer."""
    has_own = name.startswith("HTTP")
    with replaying(tape_of(name), speed=speed) as replay, contextlib.ExitStack() as stack:
        caller = Caller(replay.url, stack, is_modern=False, listens=True)
        assert caller.came() == [of(tool, *(ALL if has_own else EARLY)) for tool in "ab"]
        late: set[str] = set()
        while not has_own and late != {*of("a", *LATE), *of("b", *LATE)}:
            assert caller.listener is not None
            late.update(heard(caller.listener.chunk()))


def test_messages_without_a_stream_in_the_modern_era_are_reported(tmp_path: Path) -> None:
    talk: list[Said] = [("client", asking(1, "a", "a", is_modern=True).decode()), ("server", result(1))]
    tape = make_cassette(tmp_path / "tape.db", [*talk, ("server", tell("notifications/tools/list_changed"))])
    with replaying(tape) as replay:
        assert ask(replay.url, asking(7, "a", "x", is_modern=True)).document["id"] == 7
        until(lambda: "notifications/tools/list_changed belongs to no call" in replay.said, "the note")
