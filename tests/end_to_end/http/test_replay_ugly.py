"""Replay over HTTP to very many clients, over another transport, and of untrusted tapes."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
from pathlib import Path

import pytest

from tests.support.decks import alter, make_cassette
from tests.support.http import EVENTS, LAST, Client, Message, Upstream, Wire, answer, ask, begin, chunk
from tests.support.http_running import (
    INITIALIZE,
    INITIALIZED,
    Running,
    call,
    event,
    modern,
    recording,
    replaying,
    result,
)
from tests.support.http_tapes import (
    EVENTFUL,
    NUMBER,
    SAMPLED,
    SAMPLING,
    TOOLS,
    legacy_tape,
    modern_tape,
    tool,
    with_token,
)
from tests.support.running import MCP_TAPE, WAIT, receive, receive_line, run, send, started


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


# Many clients ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_hundred_clients_have_a_session_each(tape: Path) -> None:
    many = 200
    with replaying(tape) as replay, contextlib.ExitStack() as open_:
        clients = [open_.enter_context(Client(replay.url)) for _ in range(many)]
        for client in clients:
            client.ask(INITIALIZE)
        numbers = [client.answer().header("mcp-session-id") or "" for client in clients]
        assert set(numbers) == {NUMBER, *(f"{NUMBER}-{n}" for n in range(2, many + 1))}
        for number, client in zip(numbers, clients, strict=True):
            client.ask(with_token(number, "events", 1), mcp_session_id=number)
        for number, client in zip(numbers, clients, strict=True):
            assert json.dumps(number).encode() in client.answer().body


@pytest.mark.slow
def test_a_thousand_streams_are_open_at_once(modern_one: Path) -> None:
    many, (soft, hard) = 1000, resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    try:
        with replaying(modern_one) as replay, contextlib.ExitStack() as open_:
            clients = [open_.enter_context(Client(replay.url)) for _ in range(many)]
            for number, client in enumerate(clients):
                client.ask(modern(number, "subscriptions/listen", notifications={"toolsListChanged": True}))
            for number, client in enumerate(clients):
                assert client.answer_head().header("content-type") == EVENTS
                while b"list_changed" not in (got := client.chunk()):
                    pass
                assert b'subscriptionId":%d}' % number in got
            assert ask(replay.url, modern("x", name="counted")).status == 200
            assert replay.stop() == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
def test_malformed_and_incomplete_requests_disturb_no_other_client(modern_one: Path) -> None:
    with replaying(modern_one) as replay, contextlib.ExitStack() as open_:
        for _ in range(50):
            open_.enter_context(Client(replay.url)).send(
                b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 9\r\n"
            )
        with Client(replay.url) as client:
            client.send(b"no HTTP\r\n\r\n")
            assert client.answer_head().status == 400
        with Client(replay.url) as client:
            client.ask(modern(1, name="counted"), expect="100-continue")
            assert client.answer_head().status == 100
            assert client.answer().status == 200
            for number in range(10):  # without waiting
                client.ask(modern(number, name="counted"))
            assert [client.answer().document["id"] for _ in range(10)] == list(range(10))


@pytest.mark.slow
def test_a_body_of_fifty_megabytes_is_read_and_answered(modern_one: Path) -> None:
    with replaying(modern_one, "--match-on", "$.params.name") as replay:
        big = modern("big", name="counted", text="x" * (50 << 20))
        assert ask(replay.url, big).document["id"] == "big"


# From HTTP to stdio ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_tape_of_http_plays_on_stdio(tape: Path) -> None:
    with started([*MCP_TAPE, "replay", str(tape)]) as process:
        assert process.stdin and process.stdout

        def said_to(text: bytes) -> None:
            send(process.stdin, text + b"\n")

        said_to(INITIALIZE)
        assert json.loads(receive_line(process.stdout))["id"] == 0
        said_to(INITIALIZED)
        said_to(call(1, "tools/list"))
        assert receive_line(process.stdout) == TOOLS.replace(b"\n", b" ") + b"\n"
        said_to(tool(4, "asks"))
        assert receive_line(process.stdout) == SAMPLING + b"\n"
        said_to(SAMPLED)
        assert receive_line(process.stdout) == result(4, text="asked") + b"\n"
        said_to(with_token(3, "events", 7))
        assert [json.loads(receive_line(process.stdout)).get("id") for _ in EVENTFUL] == [None, None, 3]
        said_to(tool("r", "no_rpc"))
        assert json.loads(receive_line(process.stdout))["error"]["data"].startswith('{"detail"')
        said_to(tool(8, "late"))
        assert receive_line(process.stdout) == result(8, text="resumed") + b"\n"
        process.stdin.close()
        assert receive(process.stdout) == b""
        assert process.wait(WAIT) == 0


@pytest.mark.slow
def test_batches_are_answered_as_they_were(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    first, second = (b"[" + tool(n, "a") + b"," + tool(n + 1, "b") + b"]" for n in (1, 3))

    def script(request: Message, wire: Wire) -> None:
        if request.body == INITIALIZE:
            wire.send(answer(result(0), mcp_session_id="s"))
        elif request.body == first:
            wire.send(answer(b"[" + result(2) + b", " + result(1) + b"]"))
        else:
            wire.send(begin() + chunk(event(result(4))) + chunk(event(result(3))) + LAST)

    with Upstream(script) as upstream, recording(tape, upstream.url) as recorder:
        for body in (INITIALIZE, first, second):
            ask(recorder.url, body, mcp_session_id="s")
    with replaying(tape) as replay:
        own = begun(replay)
        whole = ask(replay.url, b"[" + tool("x", "a") + b"," + tool("y", "b") + b"]", **own)
        assert whole.body == b"[" + result("y") + b", " + result("x") + b"]"
        apart = ask(replay.url, b"[" + tool("x", "a") + b"," + tool("y", "b") + b"]", **own)
        assert apart.body == event(result("y")) + event(result("x"))
        notes = b"[" + INITIALIZED + b"," + INITIALIZED + b"]"
        assert ask(replay.url, notes, **own).status == 202


def test_an_answer_of_a_batch_does_not_wait_for_one_that_never_comes(tmp_path: Path) -> None:
    both = b"[" + tool(1, "a") + b"," + tool(2, "b") + b"]"
    off = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}'
    turns = [("client", INITIALIZE), ("server", result(0)), ("client", both), ("client", off), ("server", result(1))]
    tape = make_cassette(tmp_path / "tape.db", [(side, text.decode()) for side, text in turns])  # type: ignore[misc]
    with replaying(tape) as replay, Client(replay.url) as client:
        client.ask(both, **begun(replay))
        assert client.answer_head().header("content-type") == EVENTS
        assert json.loads(client.chunk().partition(b"data: ")[2])["id"] == 1


# Untrusted tapes -------------------------------------------------------------------------------------------

ODD = {
    "no json": "UPDATE facts SET text = '{' WHERE kind = 'control'",
    "no object": "UPDATE facts SET text = '[1]' WHERE kind = 'control'",
    "bytes": "UPDATE facts SET text = x'ff00' WHERE kind = 'control'",
    "nothing": "UPDATE facts SET text = '{}' WHERE kind = 'control'",
    "null": "UPDATE facts SET text = NULL WHERE kind = 'control'",
    "number": "UPDATE facts SET text = 7 WHERE kind = 'control'",
    "deep": "UPDATE facts SET text = replace(hex(zeroblob(50000)), '00', '[') WHERE kind = 'control'",
    "status": """UPDATE facts SET text = '{"event":"response","status":99999,"headers":{}}' WHERE sender = 'server'
                 AND kind = 'control'""",
    "status text": """UPDATE facts SET text = '{"event":"response","status":"x","headers":{"content-type":[]}}'
                      WHERE sender = 'server' AND kind = 'control'""",
    "type": """UPDATE facts SET text = '{"event":"response","status":400,"headers":{"content-type":"a\\r\\nb: c"}}'
               WHERE sender = 'server' AND kind = 'control'""",
    "session": """UPDATE facts SET text = '{"event":"response","status":200,"headers":{"mcp-session-id":" x "}}'
                  WHERE sender = 'server' AND kind = 'control'""",
    "session list": """UPDATE facts SET text = '{"event":"response","status":200,"headers":{"mcp-session-id":[1]}}'
                       WHERE sender = 'server' AND kind = 'control'""",
    "resumed": """UPDATE facts SET text = '{"event":"request","headers":{"last-event-id":[{}]}}'
                  WHERE sender = 'client' AND kind = 'control'""",
    "head": "UPDATE facts SET head = CAST(head AS TEXT)",
    "long head": "UPDATE facts SET head = x'0a0a' WHERE head IS NOT NULL",
    "eol": "UPDATE facts SET eol = 'xyz' WHERE kind <> 'control'",
    "no channel": "UPDATE facts SET channel = ''",
    "transport": "UPDATE sessions SET transport = 'carrier pigeon'",
}


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("odd", ODD)
def test_a_tape_of_a_stranger_is_played_as_far_as_it_goes(odd: str, tape: Path, tmp_path: Path) -> None:
    copy = tmp_path / "tape.db"
    copy.write_bytes(tape.read_bytes())
    alter(copy, ODD[odd])
    with replaying(copy) as replay:
        greeting = ask(replay.url, INITIALIZE)
        assert greeting.status == 200
        own = {"mcp_session_id": greeting.header("mcp-session-id") or ""}
        for body in (
            call(1, "tools/list"),
            tool(2, "plain"),
            with_token(3, "events", "t"),
            tool(6, "no_rpc"),
            tool(7, "bad"),
        ):
            with Client(replay.url) as client:
                client.ask(body, **own)
                assert client.answer().status < 500, body
        with Client(replay.url) as listener:
            listener.ask(verb="GET", **own)
            assert listener.answer_head().status in (200, 405)
        assert replay.process.poll() is None
        assert replay.stop() in (0, 1)
        assert "Traceback" not in replay.said


def test_a_cassette_without_a_session_is_refused(tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "tape.db", [])
    alter(tape, "DELETE FROM sessions")
    done = run([*MCP_TAPE, "replay", str(tape), "--listen", "127.0.0.1:0"])
    assert (done.returncode, done.stdout) == (3, b"")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run([*MCP_TAPE, "replay", str(tape), "--listen", address])
    assert done.returncode in (3, 4) and b"Traceback" not in done.stderr
