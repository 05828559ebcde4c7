"""Who answers from what: a server that parses every message, and recordings of it played by mcp-tape and a peer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from client import Client, FailedError
from contestants import ORJSON_SERVER, RIVAL, TAPE, program

LIVE = "orjson server"
_AT_ONCE = 10_000  # frames in one transaction
_OTHER = 7_000_000  # added to every id: no request is then, byte for byte, a recorded one

_INITIALIZE = (
    b'{"jsonrpc":"2.0","id":%d,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    b'"capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}\n'
)
_INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
_CALL = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%b"}}}\n'


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
    present = [Replayer(LIVE, lambda _: ORJSON_SERVER), _player(TAPE, program(TAPE) or TAPE, _cassette, "-q")]
    rival = program(RIVAL) if peers else None
    if rival:
        present.append(_player(RIVAL, rival, _json_lines))
    return present, [RIVAL] if peers and not rival else []


def _player(name: str, found: str, write: Callable[[str, Talk], None], *options: str) -> Replayer:
    return Replayer(
        name,
        lambda file: [found, "replay", *options, file],
        lambda file: [found, "record", *options, "-o", file, "--", *ORJSON_SERVER],
        write,
    )


class Conversation:
    """A handshake, and calls that each have an argument of their own."""

    def __init__(self, exchanges: int, *, other_ids: bool = False) -> None:
        self._first = _OTHER if other_ids else 0
        self.requests = [_INITIALIZE % self._first]
        for number in range(1, exchanges):
            self.requests.append(_CALL % (self._first + number, _argument(number)))
        self.requests[1:2] = [_INITIALIZED + call for call in self.requests[1:2]]  # as clients send it, unanswered

    def check(self, answers: bytes, start: int) -> None:
        """Refuse answers that are not those of the server, in their order, from this request on."""
        lines = answers.splitlines()
        for number, line in enumerate(lines, start):
            answer = json.loads(line)
            result = answer.get("result", {})
            text = result["content"][0]["text"] if "content" in result else None
            if answer["id"] != self._first + number or "error" in answer or (number and text != _text(number)):
                raise FailedError(f"request {number} was answered with {line[:200].decode(errors='replace')}")


def _argument(number: int) -> bytes:
    return _text(number).encode()


def _text(number: int) -> str:
    return f"hello, tape {number}"


def record(player: Replayer, place: Path, exchanges: int, seconds: float) -> str:
    """Let it record the server, one request after the other; the file."""
    file = str(place / f"{player.name}-{exchanges}")
    if player.record:
        conversation = Conversation(exchanges)
        with Client(player.record(file), seconds) as client:
            conversation.check(client.ask(conversation.requests), 0)
            client.close()
    return file


def write_large(players: Sequence[Replayer], place: Path, exchanges: int, seconds: float) -> dict[str, str]:
    """A long recording for each that plays one, written as its recorder would; the files by name."""
    requests = Conversation(exchanges).requests
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
