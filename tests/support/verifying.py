"""Helpers for tests of verify: recording a server with plain messages, and playing the recording again."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_tape.cassette.reader import Cassette
from mcp_tape.compare.versions import compare, version_of_sessions
from mcp_tape.transports.stdio import connect
from mcp_tape.verify import play_findings
from mcp_tape.verify.plan import VerifyOptions, VerifyTarget, check, plan_sessions
from mcp_tape.verify.play import verify
from mcp_tape.verify.play_findings import VerifiedSession
from tests.servers.minting import Mint
from tests.servers.moody import Moody
from tests.support import forked, warm
from tests.support.decks import Said, make_cassette
from tests.support.running import MCP_TAPE, WAIT, receive_line, record, run, started

if TYPE_CHECKING:
    from mcp_tape.transports.stdio.connect import Connection

Params = dict[str, Any]
Exchange = tuple[str, Params, Any]  # method, params, and the answer
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}


class Client:
    """A client that counts its requests."""

    def __init__(self, connection: Connection, modern: bool = False) -> None:
        self.connection = connection
        self._modern = modern
        self._number = 0

    def ask(self, method: str, **params: Any) -> Any:
        """The result, or the error."""
        self._number += 1
        sent = params | ({"_meta": MODERN} if self._modern else {})
        body = connect.ask(self.connection, method, sent, self._number, WAIT)
        return body.get("result", body.get("error"))

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.ask("tools/call", name=tool, arguments=arguments)

    def hello(self) -> Client:
        if self._modern:
            self.ask("server/discover")
        else:
            self.ask("initialize", **HELLO)
            connect.notify(self.connection, "notifications/initialized")
        return self


@contextlib.contextmanager
def recording(tape: Path, server: Sequence[str], *options: str, modern: bool = False) -> Iterator[Client]:
    """A client of a server that is being recorded."""
    _, _, *words = record(tape, server, *options)
    command = [*warm.command(MCP_TAPE[0], "-m", forked.loaded_for_stdio()), *words]
    with connect.StdioConnection(command, storing=WAIT) as connection:
        yield Client(connection, modern).hello()


class Here:
    """A server in this process, and the conversation: recordings without a process take no time."""

    ended = None

    def __init__(self, server: Mint | Moody) -> None:
        self._server = server
        self._inbox: list[bytes] = []
        self.made_up: dict[str, str] = {}
        self.conversation: list[Said] = []
        if isinstance(server, Moody):
            server.say = lambda body: self._say({"jsonrpc": "2.0"} | body)  # type: ignore[method-assign]

    def send(self, text: bytes, headers: Mapping[str, str] = {}) -> None:
        self.conversation.append(("client", text.decode()))
        body = json.loads(text)
        if isinstance(self._server, Moody):
            self._server.hear(body)
        elif "id" in body:
            self._say(self._server.answer(body))

    def receive(self, timeout: float) -> bytes | None:
        return self._inbox.pop(0)

    def stderr(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        """Nothing to close."""

    def _say(self, body: dict[str, Any]) -> None:
        text = json.dumps(body)
        self.conversation.append(("server", text))
        self._inbox.append(text.encode())


@contextlib.contextmanager
def writing(tape: Path, server: Mint | Moody, *, modern: bool = False) -> Iterator[Client]:
    """A client of a server in this process; afterwards the conversation is on a cassette."""
    here = Here(server)
    yield Client(here, modern).hello()
    make_cassette(tape, here.conversation)


def module(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", f"tests.servers.{name}", *arguments]


def moody(mood: str = "good") -> list[str]:
    return module("moody", mood)


def moody_tape(tape: Path, *said: str) -> Path:
    """A client that lists the tools, and waits for a message of the server."""
    with writing(tape, Moody("good")) as client:
        client.ask("tools/list")
        for what in said or ("one", "two", "three"):
            client.call("say", what=what)
    return tape


def play(tape: Path, directory: Path, server: Sequence[str] | str, **options: Any) -> VerifiedSession:
    """Play one session against a live server: a command, or a URL."""
    environ = options.pop("environ", {})
    chosen = VerifyOptions(**{"writes": "allow", "timeout": WAIT} | options)
    plans = plan_sessions(str(tape), chosen)
    check(plans, chosen, environ)
    (plan,) = plans
    directory.mkdir(exist_ok=True)
    target = VerifyTarget(url=server) if isinstance(server, str) else VerifyTarget(tuple(server))
    return verify(plan, target, chosen, str(directory), environ=environ)


def exchanges(path: str | Path, *sessions: int) -> list[Exchange]:
    """The requests and answers on a cassette."""
    with Cassette(path) as cassette:
        numbers = sessions or [session.id for session in cassette.sessions()]
        return [
            (one.method, one.params, one.result if one.error is None else one.error)
            for number in numbers
            for one in cassette.exchanges(number)
        ]


def methods(path: str | Path, *sessions: int) -> list[str]:
    return [method for method, _, _ in exchanges(path, *sessions)]


@contextlib.contextmanager
def at_url(*command: str) -> Iterator[str]:
    """The URL of a server that prints it."""
    with started(command) as process:
        assert process.stdout
        yield receive_line(process.stdout).decode().strip()


def command(*words: str, **environ: str) -> tuple[int, str, str]:
    """Run mcp-tape verify; return its exit code and output."""
    done = run([*MCP_TAPE, "verify", *words], env=os.environ | {"CI": ""} | environ)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def words(answer: Any) -> str:
    """The text of a tool's result."""
    return str(answer["content"][0]["text"])


def changes(done: VerifiedSession) -> list[str]:
    """The changes that a play has found, at warn or above, each with its rule and subject."""
    with Cassette(done.path) as old, Cassette(done.new_path) as new:
        before, after = version_of_sessions(old, [done.session]), version_of_sessions(new, done.new_sessions)
        found = compare(before, after, more=play_findings.failure_differences(done))
    return [f"{change.rule} {change.subject}".rstrip() for change in found.at_least("warn")]
