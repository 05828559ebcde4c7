"""Helpers for tests of the reading commands: cassettes made frame by frame, and commands run in this process."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from mcp_tape.cassette.writer import Writer
from mcp_tape.cli import cli
from mcp_tape.wire.frames import Frame, FrameNumbers, parse
from mcp_tape.wire.ledger import Ledger
from tests.support.decks import FACTS, make_empty
from tests.support.json_schemas import validate_output

GOLDEN = sorted((Path(__file__).parents[2] / "cassettes").glob("*.db"))


def message(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0"} | members, ensure_ascii=False).encode()


def call(number: Any, tool: str, **arguments: Any) -> bytes:
    return message(id=number, method="tools/call", params={"name": tool, "arguments": arguments})


def said(number: Any, text: str, **more: Any) -> bytes:
    return message(id=number, result={"content": [{"type": "text", "text": text}]} | more)


class Frames(list[Frame]):
    """The frames of a session, one per millisecond by default."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = FrameNumbers()

    def add(
        self, sender: Any, text: bytes, channel: str = "stdio", kind: Any = "message", at: int | None = None
    ) -> Frames:
        messages = parse(text)[1] if kind in ("message", "batch") else []
        number, at = self._numbers.take(sender, channel, len(messages)), (len(self) + 1) * 1000 if at is None else at
        self.append(Frame(number, at, sender, channel, kind, text, b"\n"))
        return self

    def client(self, text: bytes, **more: Any) -> Frames:
        return self.add("client", text, **more)

    def server(self, text: bytes, **more: Any) -> Frames:
        return self.add("server", text, **more)

    def happened(self, sender: Any, channel: str, **facts: Any) -> Frames:
        return self.add(sender, json.dumps(facts).encode(), channel, "control")

    def stderr(self, text: str) -> Frames:
        return self.add("server", text.encode(), "stderr", "stderr")

    def posts(self, channel: str, text: bytes, answer: bytes | None) -> Frames:
        """An HTTP request with the events around it."""
        self.happened("client", channel, event="request", verb="POST", path="/mcp", headers={})
        self.client(text, channel=channel)
        headers = {"content-type": "application/json"}
        self.happened("server", channel, event="response", status=200 if answer else 202, headers=headers)
        if answer:
            self.server(answer, channel=channel)
        return self.happened("server", channel, event="close")


class Recording:
    """A cassette that is being written."""

    def __init__(self, path: Path, **facts: Any) -> None:
        self._writer = Writer(str(path))
        self._ledger = Ledger()
        self.session = self._writer.begin({"started_at": "2026-01-01T00:00:00Z"} | FACTS | facts)

    def write(self, frames: Iterable[Frame]) -> None:
        self._writer.append([(self.session, frame, self._ledger.derive(frame)) for frame in frames], {})

    def end(self, **facts: Any) -> None:
        if facts.pop("finish", True):
            self._writer.finish(self.session, {"ended_at": "2026-01-01T00:00:09Z", "exit_code": 0} | facts)
        self._writer.close()


def make(path: Path, *sessions: Iterable[Frame], **facts: Any) -> Path:
    """A cassette with these sessions."""
    make_empty(path)
    for frames in sessions:
        recording = Recording(path, **facts)
        recording.write(frames)
        recording.end()
    return path


def invoke(*words: object, is_damaged: bool = False, **more: Any) -> Result:
    """The result of a command, run in this process. Values in a damaged cassette fit no schema."""
    result = CliRunner().invoke(cli, [str(word) for word in words], **more)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    if not is_damaged:
        validate_output([str(word) for word in words], result.exit_code, result.stdout)
    return result


def lines(*words: object) -> list[str]:
    """The output lines of a command that must succeed."""
    result = invoke(*words)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout.removesuffix("\n").split("\n") if result.stdout else []


def objects(*words: object) -> list[Any]:
    return [json.loads(line) for line in lines(*words, "--json")]
