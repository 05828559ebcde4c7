"""Replay over HTTP with faults, with timing, in recorded order, and strict."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.decks import alter
from tests.support.http import Client, CutOffError, Message, Upstream, Wire, answer, ask, begin
from tests.support.http_running import (
    HELLO,
    INITIALIZE,
    INITIALIZED,
    Running,
    call,
    modern,
    recording,
    replaying,
    result,
)
from tests.support.http_tapes import NUMBER, legacy_tape, modern_tape, tool, with_token
from tests.support.running import WAIT


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return legacy_tape(tmp_path_factory.mktemp("legacy") / "tape.db")


@pytest.fixture(scope="module")
def modern_one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return modern_tape(tmp_path_factory.mktemp("modern") / "tape.db")


def begun(replay: Running) -> dict[str, str]:
    """The header of a new session."""
    return {"mcp_session_id": ask(replay.url, INITIALIZE).header("mcp-session-id") or ""}


def raw(replay: Running, body: bytes, **headers: str) -> bytes:
    """Every byte of an answer."""
    with Client(replay.url) as client:
        client.ask(body, connection="close", **headers)
        got = b""
        with contextlib.suppress(ConnectionResetError):
            while data := client.sock.recv(1 << 16):
                got += data
        return got


# Calls without a recorded answer ---------------------------------------------------------------------------


@pytest.mark.slow
def test_a_call_that_is_left_silent_has_the_head_of_its_response_if_it_was_recorded(tmp_path: Path) -> None:
    """A client may only need the head, which names its session, and leave before the answer."""

    def only_the_head(request: Message, wire: Wire) -> None:
        wire.send(begin(mcp_session_id="S"))
        wire.how_it_ends()

    tape = tmp_path / "tape.db"
    with Upstream(only_the_head) as server, recording(tape, server.url) as proxy, Client(proxy.url) as client:
        client.ask(INITIALIZE)
        assert client.answer_head().header("mcp-session-id") == "S"
    with replaying(tape, "--unanswered", "silent") as replay, Client(replay.url) as client:
        client.ask(INITIALIZE)
        head = client.answer_head()
        assert (head.status, head.header("content-type")) == (200, "text/event-stream")
        assert head.header("mcp-session-id") == "S"


@pytest.mark.slow
def test_a_call_that_is_left_silent_has_no_head_if_none_was_recorded(tmp_path: Path) -> None:
    def nothing(request: Message, wire: Wire) -> None:
        if request.document["method"] == "initialize":
            wire.send(answer(result(0, **HELLO), mcp_session_id="S"))
        else:
            came.set()
            wire.how_it_ends()

    tape, came = tmp_path / "tape.db", threading.Event()
    with Upstream(nothing) as server, recording(tape, server.url) as proxy, Client(proxy.url) as client:
        assert ask(proxy.url, INITIALIZE).status == 200
        client.ask(call(1), mcp_session_id="S")
        assert came.wait(WAIT)
    with replaying(tape, "--unanswered", "silent", "-q") as replay, Client(replay.url) as client:
        own = begun(replay)
        client.ask(call(1), **own)
        assert ask(replay.url, verb="DELETE", **own).status == 200
        assert client.answer_head().status == 404  # the session ended before anything was sent


# Faults ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["plain", "events"])
@pytest.mark.slow
def test_faults_break_their_target_and_no_other(name: str, tape: Path) -> None:
    faults = ["http:503", "reset", "disconnect", "truncate:20", "delay:1", "error:-32000", "drop"]
    options = [word for n, fault in enumerate(faults, 1) for word in ("--fault", f"tools/call:{name}@{n}={fault}")]
    body = with_token(1, name, 5)
    with replaying(tape, *options, "--repeats", "cycle") as replay, Client(replay.url) as other:
        own = begun(replay)
        other.ask(verb="GET", **own)
        other.answer_head()
        assert ask(replay.url, call(1, "tools/list"), **own).status == 200

        with Client(replay.url) as client:
            client.ask(body, **own)
            if name == "plain":
                assert client.answer_head().status == 503
            else:  # it has begun with 200, and can only be cut off
                assert left(client)
        with Client(replay.url) as client:
            client.ask(body, **own)
            assert client.how_it_ends() == "reset"
        for _ in ("disconnect", "truncate"):
            with Client(replay.url) as client:
                client.ask(body, **own)
                assert left(client)
        assert b'"id":1,"result"' in ask(replay.url, body, **own).body  # late
        assert b"-32000" in ask(replay.url, body, **own).body
        assert replay.process.poll() is None
        assert ask(replay.url, call(1, "tools/list"), **own).status == 200  # others are not affected


def left(client: Client) -> bool:
    """Whether an answer was cut off."""
    try:
        client.answer()
    except (CutOffError, ConnectionResetError):
        return True
    return False


@pytest.mark.parametrize("name", ["plain", "events"])
@pytest.mark.slow
def test_truncate_sends_so_much_and_leaves(name: str, tape: Path) -> None:
    with replaying(tape, "--fault", f"tools/call:{name}=truncate:20") as replay, Client(replay.url) as client:
        client.ask(with_token(1, name, 5), **begun(replay))
        with pytest.raises((CutOffError, ConnectionResetError)):
            client.answer()


def test_exit_ends_the_server_with_its_code(tape: Path) -> None:
    with replaying(tape, "--fault", "tools/call:plain@2=exit:3", "--repeats", "last") as replay:
        own = begun(replay)
        assert ask(replay.url, tool(1, "plain"), **own).status == 200
        with pytest.raises((CutOffError, ConnectionResetError)):
            ask(replay.url, tool(2, "plain"), **own)
        assert replay.process.wait(WAIT) == 3


@pytest.mark.slow
def test_faults_are_the_same_every_time(modern_one: Path) -> None:
    def statuses() -> list[int]:
        options = ("--fault", "tools/call:counted=http:500:50%", "--seed", "7")
        with replaying(modern_one, *options) as replay:
            return [ask(replay.url, modern(n, name="counted")).status for n in range(20)]

    first = statuses()
    assert set(first) == {200, 500}
    assert statuses() == first


# Options -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_same_requests_have_the_same_bytes_for_an_answer(tape: Path) -> None:
    asked = [call(1, "tools/list"), tool(2, "plain"), with_token(3, "events", 9), tool(6, "no_rpc"), tool(7, "bad"),
             tool(8, "late"), tool(9, "never"), call(10, "never/heard"), call(11, "ping"), b"no json"]  # fmt: skip

    def conversation() -> list[bytes]:
        with replaying(tape, code=1) as replay:
            greeting = raw(replay, INITIALIZE)
            return [greeting, *(raw(replay, body, mcp_session_id=NUMBER) for body in (INITIALIZED, *asked))]

    first = conversation()
    assert all(one.startswith(b"HTTP/1.1 ") for one in first)
    assert conversation() == first


class Verbatim(Client):
    """Keeps every byte that it receives."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.got = bytearray()

    def _more(self) -> bool:
        before = len(self._buffer)
        more = super()._more()
        self.got += self._buffer[before:]
        return more


@pytest.mark.slow
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_how_a_request_arrives_does_not_change_its_answer(era: str, tape: Path, modern_one: Path) -> None:
    own = {"mcp_session_id": NUMBER} if era == "legacy" else {}
    tools = [tool(2, "plain"), with_token(3, "events", 9), tool(6, "no_rpc"), tool(7, "bad"), tool(9, "never")]
    asked = [INITIALIZE, INITIALIZED, call(1, "tools/list"), *tools, call(11, "ping"), b"no json", result("x")]
    if era == "modern":
        asked = [modern(n, name="counted") for n in range(3)]
        asked += [modern(4, "no/such"), modern(5, "never/heard"), modern(6, name="never"), INITIALIZED]

    def conversation(ask_in: Callable[[Client, bytes], None]) -> bytes:
        with replaying(tape if era == "legacy" else modern_one, code=1) as replay:
            client = Verbatim(replay.url)
            with client:
                for body in asked:
                    ask_in(client, body)
                    client.answer()
            return bytes(client.got)

    def in_two(client: Client, body: bytes) -> None:
        client.ask(None, content_length=str(len(body)), **session(body))
        client.send(body[:1])
        client.send(body[1:])

    def session(body: bytes) -> dict[str, str]:
        return {} if body == INITIALIZE else own

    usual = conversation(lambda client, body: client.ask(body, **session(body)))
    assert usual.count(b"HTTP/1.1 ") == len(asked)
    assert conversation(lambda client, body: client.ask(body, to="/mcp?x=1", **session(body))) == usual
    assert conversation(in_two) == usual


def test_stdout_has_one_line_and_stderr_the_rest(tape: Path, tmp_path: Path) -> None:
    report = tmp_path / "report"
    with replaying(tape, "--strict", "--report", str(report), code=1) as replay:
        own = begun(replay)
        ask(replay.url, tool(2, "plain"), **own)
        assert ask(replay.url, tool(3, "plain"), **own).document["error"]["code"] == -32010
        assert replay.stop() == 1  # checks that nothing followed the URL
        assert "2 played, 1 missed, 7 unplayed" in replay.said
        assert "unplayed: #" in replay.said and "Traceback" not in replay.said
    told = [json.loads(line) for line in report.read_text().splitlines()]
    assert [one["what"] for one in told] == ["played", "played", "miss", *["unplayed"] * 7]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_end_it_while_streams_are_open(number: int, tape: Path) -> None:
    with replaying(tape) as replay, Client(replay.url) as listener:
        listener.ask(verb="GET", **begun(replay))
        listener.answer_head()
        assert replay.stop(number) == 0


@pytest.mark.slow
def test_a_recorded_refusal_of_the_get_stream_is_one_again(tmp_path: Path) -> None:
    def script(request: Message, wire: Wire) -> None:
        wire.send(answer(result(0), mcp_session_id="s") if request.verb == "POST" else answer(b"no", 405, "text/plain"))

    with Upstream(script) as upstream, recording(tmp_path / "tape.db", upstream.url) as recorder:
        ask(recorder.url, INITIALIZE)
        assert ask(recorder.url, verb="GET", mcp_session_id="s").status == 405
    with replaying(tmp_path / "tape.db") as replay:
        assert ask(replay.url, verb="GET", **begun(replay)).status == 405


def concurrent_tape(path: Path) -> Path:
    """Two concurrent calls; the second is answered first, and the first takes a while."""
    first_asked, second_done = threading.Event(), threading.Event()

    def script(request: Message, wire: Wire) -> None:
        number = request.document["id"]
        if number == 1:
            first_asked.set()
            assert second_done.wait(WAIT)
        wire.send(answer(result(number)))

    with Upstream(script) as upstream, recording(path, upstream.url) as recorder, Client(recorder.url) as client:
        client.ask(modern(1, name="first"))
        assert first_asked.wait(WAIT)
        ask(recorder.url, modern(2, name="second"))
        second_done.set()
        assert client.answer().body == result(1)
    return path


@pytest.mark.slow
def test_the_recorded_order_is_kept(tmp_path: Path) -> None:
    tape = concurrent_tape(tmp_path / "tape.db")
    with replaying(tape, "--order", "recorded") as replay, Client(replay.url) as client:
        client.ask(modern(1, name="first"))
        assert ask(replay.url, modern(2, name="second")).body == result(2)
        assert client.answer().body == result(1)
        assert replay.stop() == 0
        assert "gave way" not in replay.said


@pytest.mark.slow
def test_a_replay_in_time_waits_as_long_as_the_server_did(tmp_path: Path) -> None:
    tape = concurrent_tape(tmp_path / "tape.db")
    # A minute on the tape is too long to wait for, unless the replay is sped up.
    alter(tape, "UPDATE facts SET elapsed = elapsed + 60000000 WHERE text = '" + result(1).decode() + "'")
    with replaying(tape, speed=1) as replay, Client(replay.url) as client:
        client.ask(modern(1, name="first"))
        assert ask(replay.url, modern(2, name="second")).body == result(2)
        client.sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.sock.recv(1)
    with replaying(tape, speed=1000) as replay:
        assert ask(replay.url, modern(1, name="first")).body == result(1)
