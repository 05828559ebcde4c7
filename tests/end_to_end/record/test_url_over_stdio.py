"""record --url --stdio: a stdio server that forwards to a URL, for real clients and strict servers of both eras."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.http_steps import check_heard
from tests.support.live import INITIALIZE, INITIALIZED, META, Live, modern, serving
from tests.support.messages import call, request, result, tell
from tests.support.running import MCP_TAPE, WAIT, frames, receive_line, run, send, sessions, started
from tests.support.sdk import live as talked
from tests.support.sdk_http import live_environment, printed, served

SdkClient = Callable[[str, str], list[str]]
SECRET = "s3cret-t0ken-of-nobody"


def command(url: str, tape: Path, *options: str) -> list[str]:
    return [*MCP_TAPE, "record", "--url", url, "--stdio", "-o", str(tape), *options]


class Talk:
    """A client on pipes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def tell(self, text: str) -> None:
        assert self.process.stdin
        send(self.process.stdin, text.encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout
        heard: dict[str, Any] = json.loads(receive_line(self.process.stdout))
        return heard

    def leave(self) -> int:
        assert self.process.stdin
        self.process.stdin.close()
        return self.process.wait(WAIT)


@contextlib.contextmanager
def talking(url: str, tape: Path, *options: str, **more: Any) -> Iterator[Talk]:
    with started(command(url, tape, *options), **more) as process:
        yield Talk(process)


def begin(talk: Talk) -> None:
    talk.tell(INITIALIZE)
    assert talk.hear()["result"]["value"] == "live"
    talk.tell(INITIALIZED)


@pytest.fixture
def live() -> Iterator[Live]:
    with serving() as server:
        yield server


@pytest.mark.slow
def test_calls_progress_and_requests_of_the_server_pass_and_are_recorded(live: Live, tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    with talking(live.url, tape) as talk:
        begin(talk)
        talk.tell(call(1, "search"))
        assert talk.hear() == json.loads(result(1, ["search", 2]))
        talk.tell(request(2, "tools/call", name="slow", _meta={"progressToken": "p"}))
        assert [talk.hear().get("method"), talk.hear().get("result")] == ["notifications/progress", {"value": "slow"}]
        talk.tell(call(3, "ask"))
        asked = talk.hear()
        assert asked["method"] == "roots/list"
        talk.tell(result(asked["id"], {"roots": []}))
        assert talk.hear()["result"]["value"]["value"] == {"roots": []}
        assert talk.leave() == 0
    assert live.methods()[-1] == "DELETE"  # it ended the session
    (session,) = sessions(tape)
    assert (session.transport, json.loads(session.target), session.exit_code) == ("stdio", {"url": live.url}, 0)
    assert session.incomplete is None
    kept = [frame.text for frame in frames(tape) if frame.kind == "message"]
    assert len(kept) == 12 and call(1, "search").encode() in kept


@pytest.mark.slow
def test_a_modern_client_needs_no_session_and_its_headers_repeat_the_message(live: Live, tmp_path: Path) -> None:
    with talking(live.url, tmp_path / "tape.db") as talk:
        talk.tell(modern(1, "search"))
        assert talk.hear()["result"]["value"] == ["search", 1]
        assert talk.leave() == 0
    assert live.heard[0]["headers"]["mcp-method"] == "tools/call" and live.heard[0]["headers"]["mcp-name"] == "search"
    assert "DELETE" not in live.methods()


@pytest.mark.slow
def test_a_modern_cancel_closes_the_stream(live: Live, tmp_path: Path) -> None:
    with talking(live.url, tmp_path / "tape.db") as talk:
        talk.tell(modern(1, "hang"))
        assert talk.hear()["method"] == "notifications/message"
        talk.tell(tell("notifications/cancelled", requestId=1, _meta=META))
        assert live.left.wait(WAIT)
        talk.tell(modern(2, "search"))
        assert talk.hear()["id"] == 2
        assert talk.leave() == 0
    assert live.methods() == ["hang", "search"]  # without a cancelling message


@pytest.mark.slow
def test_a_legacy_cancel_is_a_message(live: Live, tmp_path: Path) -> None:
    with talking(live.url, tmp_path / "tape.db") as talk:
        begin(talk)
        talk.tell(call(1, "hang"))
        assert talk.hear()["method"] == "notifications/message"
        talk.tell(tell("notifications/cancelled", requestId=1))
        talk.tell(call(2, "search"))
        assert talk.hear()["id"] == 2
        assert talk.leave() == 0
    assert live.methods()[2:5] == ["hang", "notifications/cancelled", "search"]


def test_http_with_sse_of_old_works_too(tmp_path: Path) -> None:
    with serving(old=True) as live, talking(live.url, tmp_path / "tape.db") as talk:
        talk.tell(call(1, "search"))
        assert talk.hear()["result"]["value"] == ["old", 1]
        talk.tell(call(2, "die"))
        assert talk.process.wait(WAIT) == 4
        assert talk.process.stderr
        assert f"cannot reach {live.url}: ".encode() in talk.process.stderr.read()


@pytest.mark.slow
def test_input_that_ends_at_once_still_gets_its_answers(live: Live, tmp_path: Path) -> None:
    text = "".join(modern(number, "search") + "\n" for number in range(4))
    done = run(command(live.url, tmp_path / "tape.db"), text.encode())
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 4


@pytest.mark.slow
def test_a_server_that_is_not_there_gives_errors_and_the_code_of_that(tmp_path: Path) -> None:
    with serving() as live:
        url = live.url
    live.server_close()
    done = run(command(url, tmp_path / "tape.db"), INITIALIZE.encode() + b"\n")
    assert done.returncode == 4
    assert f"cannot reach {url}" in json.loads(done.stdout)["error"]["message"]
    assert f"mcp-tape: cannot reach {url}".encode() in done.stderr


@pytest.mark.slow
def test_a_server_that_breaks_off_answers_with_an_error_and_the_next_call_goes_on(live: Live, tmp_path: Path) -> None:
    with talking(live.url, tmp_path / "tape.db") as talk:
        begin(talk)
        talk.tell(call(1, "die"))
        assert talk.hear()["method"] == "notifications/message"
        assert talk.hear()["error"]
        talk.tell(call(2, "search"))
        assert talk.hear()["result"]
        assert talk.leave() == 4


@pytest.mark.slow
def test_a_signal_ends_it_with_a_complete_recording(live: Live, tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    with talking(live.url, tape) as talk:
        talk.tell(modern(1, "search"))
        talk.hear()
        talk.process.send_signal(signal.SIGTERM)
        assert talk.process.wait(WAIT) == 0
    assert (
        len([frame for frame in frames(tape) if frame.kind == "message"]) == 2 and sessions(tape)[0].incomplete is None
    )


@pytest.mark.parametrize("words", [["--header-env", "X-Api-Key"], ["--header-env", "X-Api-Key=MY_KEY"]])
@pytest.mark.slow
def test_a_header_comes_from_a_variable_and_is_on_no_tape(words: list[str], live: Live, tmp_path: Path) -> None:
    tape, name = tmp_path / "tape.db", words[1].rpartition("=")[2]
    with talking(live.url, tape, *words, env=os.environ | {name: SECRET}) as talk:
        talk.tell(request(1, "tools/call", name="search", arguments={"q": f"is it {SECRET}?"}, _meta=META))
        talk.hear()
        talk.leave()
    assert live.heard[0]["headers"]["x-api-key"] == SECRET
    assert SECRET.encode() not in tape.read_bytes()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--url", "http://h/mcp", "--stdio", "--header-env", "NO_SUCH_VARIABLE"], b"no variable 'NO_SUCH_VARIABLE'"),
        (["--url", "http://h/mcp", "--stdio", "--listen", "127.0.0.1:0"], b"either --stdio or --listen"),
        (["--stdio", "--", "cat"], b"--stdio needs --url"),
        (["--header-env", "PATH", "--", "cat"], b"--header-env needs --url"),
    ],
)
def test_contradictory_options_are_refused(words: list[str], said: bytes) -> None:
    done = run([*MCP_TAPE, "record", *words])
    assert done.returncode == 2 and said in done.stderr


class Listening(BaseHTTPRequestHandler):
    """A server that closes the stream of its own messages after each event."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = result(body["id"], "live").encode() if "id" in body else b""
        self.respond(200 if text else 202, "application/json", text)

    def do_GET(self) -> None:
        last = int(self.headers.get("Last-Event-ID", 0))
        event = f"retry: 1\nid: {last + 1}\ndata: {tell('notifications/message', data=last)}\n\n"
        self.respond(200, "text/event-stream", event.encode())

    def do_DELETE(self) -> None:
        self.respond(200, "text/plain", b"")

    def respond(self, status: int, content: str, body: bytes) -> None:
        self.send_response(status)
        for name, value in (("Content-Type", content), ("Content-Length", str(len(body))), ("Mcp-Session-Id", "s")):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@pytest.mark.slow
def test_the_stream_of_the_servers_own_messages_is_opened_again_where_it_ended(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Listening) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        with talking(f"http://127.0.0.1:{server.server_port}/mcp", tmp_path / "tape.db") as talk:
            begin(talk)
            assert [talk.hear()["params"]["data"] for _ in range(3)] == [0, 1, 2]
            talk.process.send_signal(signal.SIGTERM)
            assert talk.process.wait(WAIT) == 0
        server.shutdown()


# Real SDK clients and servers ---------------------------------------------------------------------------

PAIRS = [(client, server) for server in ("everything-http", "fast") for client in ("mcp2-auto", "mcp1", "ts2-auto")]


@pytest.fixture(scope="module")
def url_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    with contextlib.ExitStack() as running:

        @functools.cache
        def url(name: str) -> str:
            return running.enter_context(served(name, tmp_path_factory.mktemp(name)))

        yield url


@pytest.mark.slow
@pytest.mark.parametrize(("client", "server"), PAIRS)
def test_a_real_client_sees_the_same_on_stdio_as_over_http(
    client: str, server: str, url_of: Callable[[str], str], tmp_path: Path, sdk_client: SdkClient
) -> None:
    program, url, tape = sdk_client(client, server), url_of(server), tmp_path / "tape.db"
    direct = json.loads(printed([*program, url], live_environment(server)))
    bridged = json.loads(talked(program, command(url, tape), tmp_path, **live_environment(server)))
    assert [outline(step) for step in bridged["steps"]] == [outline(step) for step in direct["steps"]]
    assert set(bridged["asked"]) == set(direct["asked"])
    check_heard(bridged)
    assert all(session.incomplete is None for session in sessions(tape))


def outline(value: Any) -> Any:
    """A value without the parts that differ from run to run."""
    if isinstance(value, dict):
        return {key: outline(inner) for key, inner in value.items()}
    return [outline(inner) for inner in value[:1]] if isinstance(value, list) else type(value).__name__


def test_a_stream_of_old_that_cannot_be_opened_is_recorded_with_the_reason(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    done = run(command("http://127.0.0.1:1/sse", tape))  # no server listens there
    assert done.returncode == 4
    events = [json.loads(frame.text) for frame in frames(tape)]
    assert "http://127.0.0.1:1/sse" in next(event["why"] for event in events if event["event"] == "failed")
