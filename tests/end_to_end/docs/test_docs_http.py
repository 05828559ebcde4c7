"""The documentation on HTTP is correct: its programs run, and its statuses, events and exit codes are real."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mcp_tape.wire import protocol
from tests.support.docs import DOCS, RECORD, example, make_desk, pytest_run, shell, under, weather_server
from tests.support.running import MCP_TAPE, WAIT, frames, receive_line, run, sessions, started

INITIALIZE = '{"jsonrpc":"2.0","id":1,"method":"initialize"}'
LIST = '{"jsonrpc":"2.0","id":2,"method":"tools/list"}'
META = '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}'
INITIALIZED = '{"jsonrpc":"2.0","method":"notifications/initialized"}'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with weather_server(tmp_path_factory.mktemp("server")) as url:
        yield url


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, server: str) -> Path:
    return make_desk(tmp_path_factory.mktemp("docs"), server)


@contextlib.contextmanager
def told(*arguments: str, code: int = 0) -> Iterator[str]:
    """The URL that an mcp-tape prints; on exit it is stopped, and must end with this code."""
    with started([*MCP_TAPE, *arguments]) as process:
        assert process.stdout
        yield receive_line(process.stdout).decode().strip()
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT) == code


def status(url: str, verb: str, body: str = "", **headers: str) -> int:
    """The status of the response to a request; does not wait for a stream."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=WAIT)
    with contextlib.closing(connection):
        connection.request(verb, parts.path, body.encode(), {k.replace("_", "-"): v for k, v in headers.items()})
        return connection.getresponse().status


def nobody() -> str:
    """A URL without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}/mcp"


@pytest.mark.slow
def test_the_javascript_client_is_recorded(server: str, tmp_path: Path, node: Callable[[], Path]) -> None:
    (tmp_path / "node_modules").symlink_to(node())
    example("docs/http.md", "ask.mjs", tmp_path)
    done = shell(RECORD.format(client="node ask.mjs"), tmp_path, server)
    assert (done.returncode, done.stdout) == (0, b"Sunny in Bern.\n"), done.stderr
    (session,) = sessions(tmp_path / "remote.db")
    assert session.transport == "http"


@pytest.mark.slow
def test_the_test_of_a_token_that_expires_passes(desk: Path, tmp_path: Path) -> None:
    shutil.copy(desk / "remote.db", tmp_path)
    example("docs/login.md", "test_expiry.py", tmp_path)
    done = pytest_run(tmp_path)
    assert b"1 passed" in done.stdout, done.stdout.decode()


UNNAMED = ("no session id", "GET without a session id")  # unless the recorded server gave no session id


@pytest.mark.slow
def test_the_statuses_of_a_replay_are_as_documented(desk: Path) -> None:
    with told("replay", str(desk / "tape.db"), "-q", "--listen", "127.0.0.1:0", code=1) as url:
        session = {"Mcp_Session_Id": "tape-1"}
        found = {
            "one that is on the tape": [status(url, "POST", INITIALIZE), status(url, "POST", LIST, **session)],
            "a miss": [
                status(url, "POST", '{"jsonrpc":"2.0","id":3,"method":"x/y"}', **session),
                status(url, "POST", f'{{"jsonrpc":"2.0","id":4,"method":"x/y","params":{{{META}}}}}'),
            ],
            "notifications and answers": [status(url, "POST", INITIALIZED, **session)],
            "an unknown session id": [status(url, "POST", LIST, Mcp_Session_Id="none")],
            "a body that is not a message": [status(url, "POST", "hello", **session)],
            "GET with a `Last-Event-ID`": [status(url, "GET", Last_Event_Id="1", **session)],
            "DELETE of a session": [status(url, "DELETE", **session)],
            "a body of more than": [status(url, "POST", " " * 64_000_001)],
            "any other path": [status(url.replace("/mcp", "/api"), "POST", INITIALIZE)],
            "a [host]": [
                status(url, "POST", INITIALIZE, Host="attacker.example"),
                status(url, "POST", INITIALIZE, Origin="http://attacker.example"),
            ],
        }
        assert status(url, "POST", LIST, **session) == 404  # the session was deleted
        status(url, "POST", INITIALIZE)
        unnamed = [status(url, "POST", LIST), status(url, "GET")]
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", under("replay-rules.md", "HTTP statuses"), flags=re.M))
    del rows["request"]
    # A stdio tape, which has no session id.
    refused = [rows.pop(next(what for what in rows if what.startswith(start))) for start in UNNAMED]
    assert refused == ["400", "405"] and unnamed == [200, 200]
    assert len(found) == len(rows)
    for start, statuses in found.items():
        (documented,) = [said for what, said in rows.items() if what.startswith(start)]
        codes = [int(code) for code in re.findall(r"(?<!-)\b\d{3}\b", documented)]
        assert statuses == (codes or [200, 200]), start  # as recorded; stdio has no status


def test_the_statuses_that_are_no_answer_are_listed() -> None:
    said = under("replay-rules.md", "HTTP statuses").rpartition("|\n")[2]
    codes = {int(code) for code in re.findall(r"\b[34]\d\d\b|\b503\b", said)}
    assert codes - {400, 403, 404} == protocol.RETRY_STATUSES  # these, for some reasons alone


def test_the_headers_that_are_kept_are_listed() -> None:
    said = under("redaction-rules.md", "HTTP headers").partition("\n\nFor headers")[0]
    assert set(re.findall(r"`([a-z][a-z-]*)`", said)) - {"mcp-"} == protocol._KEPT_HEADERS


@pytest.mark.slow
def test_every_event_of_a_recording_is_documented(desk: Path) -> None:
    rows = re.findall(r"^\| `([a-z]+)` \| ([^|]*)\|", under("cassette-format.md", "Control frames"), flags=re.M)
    documented = {event: set(re.findall(r"`(\w+)`", members)) for event, members in rows}
    for tape, events in (("tape.db", {"close", "exit"}), ("remote.db", {"request", "response", "close"})):
        facts = [json.loads(frame.text) for frame in frames(desk / tape) if frame.kind == "control"]
        assert {fact["event"] for fact in facts} == events
        assert all(set(fact) == {"event"} | documented[fact["event"]] for fact in facts)


@pytest.mark.slow
def test_the_exit_codes_are_as_documented(desk: Path, tmp_path: Path, server: str) -> None:
    tape, new = str(desk / "tape.db"), str(tmp_path / "new.db")
    with told("record", "--url", server, "-o", new):
        pass
    with told("record", "--url", nobody(), "-o", new, code=4) as url:
        assert status(url, "POST", INITIALIZE) == 502
    with told("replay", tape, "--listen", "0") as url:
        assert status(url, "POST", INITIALIZE) == 200
        taken = str(urlsplit(url).port)
        codes = [
            run([*MCP_TAPE, *command]).returncode
            for command in (
                ["replay", tape, "--listen", "0.0.0.0:0"],
                ["record", "--url", server, "-o", str(DOCS / "index.md")],
                ["replay", str(tmp_path / "none.db"), "--listen", "0"],
                ["replay", tape, "--listen", taken],
                ["record", "--url", server, "-o", new, "--listen", taken],
            )
        ]
    with told("replay", tape, "--listen", "0", "--strict", code=1):
        pass
    assert codes == [2, 3, 3, 4, 4]
