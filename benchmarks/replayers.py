"""Who answers from what: a server that parses every message, and recordings of it played by mcp-tape and a peer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from client import Client, FailedError, UnansweredError
from contestants import ORJSON_SERVER, RIVAL, TAPE, Contestant, contestants, program
from patterns import Asked

LIVE = "orjson server"
_AT_ONCE = 10_000  # frames in one transaction

_INITIALIZE = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    b'"capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}\n'
)
_INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'

Talk = Iterable[tuple[bytes, bytes]]  # requests and their answers


@dataclass(frozen=True, slots=True)
class Replayer:
    """How to play a file, how to record into it, and how to write a long one without waiting for a recorder.

    Who cannot record is the server itself.
    """

    name: str
    replay: Callable[[str], list[str]]
    record: Callable[[str], list[str]] | None = None
    write: Callable[[str, Talk], None] | None = None


def replayers(peers: bool) -> tuple[list[Replayer], list[str]]:
    """Those that are here, and the names of the peers that are not installed."""
    recorders, absent = contestants(peers)
    ways = {TAPE: (_cassette, ["-q"]), RIVAL: (_json_lines, [])}
    present = [Replayer(LIVE, lambda _: ORJSON_SERVER)]
    present += [_player(recorder, *ways[recorder.name]) for recorder in recorders if recorder.name in ways]
    return present, [name for name in absent if name in ways]


def _player(recorder: Contestant, write: Callable[[str, Talk], None], options: list[str]) -> Replayer:
    found = program(recorder.name) or recorder.name
    return Replayer(
        recorder.name,
        lambda file: [found, "replay", *options, file],
        lambda file: recorder.command(file, ORJSON_SERVER),
        write,
    )


class Conversation:
    """A handshake, and the requests after it."""

    def __init__(self, asked: Sequence[Asked]) -> None:
        self.requests = [_INITIALIZE, *map(_line, asked)]
        self.requests[1:2] = [_INITIALIZED + line for line in self.requests[1:2]]  # as clients send it, unanswered
        self._expected = [Asked(0, None), *asked]

    def check(self, answers: bytes, start: int) -> None:
        """Refuse answers that are not those of the server, in their order, from this request on."""
        for expected, line in zip(self._expected[start:], answers.splitlines(), strict=False):
            answer = json.loads(line)
            said = line[:200].decode(errors="replace")
            if answer["id"] != expected.id:
                raise FailedError(f"request {expected.id} was answered with {said}")
            if "error" in answer:
                raise UnansweredError(said)
            if expected.text is not None and answer["result"]["content"][0]["text"] != expected.text:
                raise FailedError(f"request {expected.id} was answered with {said}")


def _line(asked: Asked) -> bytes:
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": asked.id, "method": asked.method}
    if asked.text is not None:
        meta = {} if asked.token is None else {"_meta": {"progressToken": asked.token}}
        message["params"] = {"name": "echo", "arguments": {"text": asked.text}} | meta
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def record(player: Replayer, file: Path, asked: Sequence[Asked], seconds: float) -> str:
    """Let it record the server, one request after the other; the file."""
    if player.record:
        conversation = Conversation(asked)
        with Client(player.record(str(file)), seconds) as client:
            conversation.check(client.ask(conversation.requests), 0)
            client.close()
    return str(file)


def write_large(players: Sequence[Replayer], place: Path, asked: Sequence[Asked], seconds: float) -> dict[str, str]:
    """A long recording for each that plays one, written as its recorder would; the files by name."""
    requests = Conversation(asked).requests
    with Client(ORJSON_SERVER, seconds) as server:
        answers = server.ask_at_once(requests).splitlines(keepends=True)
        server.close()
    files = {}
    for player in players:
        if player.write:
            files[player.name] = str(place / f"{player.name}-large")
            player.write(files[player.name], zip(requests, answers, strict=True))
    return files


def _cassette(file: str, talk: Talk) -> None:
    from mcp_tape.cassette.writer import Writer
    from mcp_tape.record.tape import Tape

    writer = Writer(file)
    session = writer.begin(
        {"started_at": "2026-01-01T00:00:00Z", "transport": "stdio", "target": {}, "recorder": "bench"}
    )
    batch: list[Any] = []
    tape = Tape(lambda frame, entries: batch.append((session, frame, entries)), None)
    for number, (request, answer) in enumerate(talk):
        for line in request.splitlines(keepends=True):
            tape.feed("client", "stdio", line, 2 * number)
        tape.feed("server", "stdio", answer, 2 * number + 1)
        if len(batch) > _AT_ONCE:
            writer.append(batch, {session: tape.ledger.facts})
            batch.clear()
    writer.append(batch, {session: tape.ledger.facts})
    writer.finish(session, {"ended_at": "2026-01-01T00:00:01Z", "exit_code": 0})
    writer.close()


def _json_lines(file: str, talk: Talk) -> None:
    with open(file, "w", encoding="utf-8") as lines:
        for request, answer in talk:
            said = [("client->server", line) for line in request.splitlines()] + [("server->client", answer)]
            for direction, line in said:
                lines.write(json.dumps({"ts": 0.0, "dir": direction, "msg": json.loads(line)}) + "\n")
