"""Client programs of the SDKs: their output with a live server and with a replay, and the facts in it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mcp_tape.wire.frames import Frame, Message, parse
from tests.support import provision
from tests.support.running import run

Document = Step = dict[str, Any]


def call(name: str, **arguments: Any) -> Step:
    return {"do": "call", "name": name, "arguments": arguments}


PROGRESSING = call("trigger-long-running-operation", duration=0.1, steps=4) | {"progress": True}
TOGETHER = {"do": "together", "steps": [PROGRESSING] * 20}


class Replayed(NamedTuple):
    output: bytes
    stderr: str
    facts: list[dict[str, Any]]  # the replay's report


def live(program: Sequence[str], command: Sequence[str], place: Path, **client: str) -> bytes:
    """The output of a client with a command, where servers are found.

    It is slow on purpose, so that nothing is lost.
    """
    provision.git_repository(place)
    done = run([*program, *command], cwd=place, env=provision.environment() | client | {"CLIENT_PATIENT": "yes"})
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout


def alone(program: Sequence[str], arguments: Sequence[str], place: Path, **client: str) -> Replayed:
    """The output of a client with only an mcp-tape: no server, no repository, no PATH."""
    codes, report, nowhere = place / "codes", place / "report", provision.nowhere(place / "nowhere")
    command = [*program, *provision.alone(codes), arguments[0], "--report", str(report), *arguments[1:]]
    done = run(command, cwd=place / "nowhere", env=nowhere | client)
    stderr = done.stderr.decode(errors="replace")
    facts = [json.loads(line) for line in report.read_text().splitlines()]
    assert done.returncode == 0 and "miss" not in {fact["what"] for fact in facts}, stderr
    assert set(codes.read_text().split()) == {"0"}
    assert not provision.processes_in(nowhere)
    return Replayed(done.stdout, stderr, facts)


def steps(document: Document) -> Iterator[Step]:
    for step in document["steps"]:
        yield from step.get("steps", [step])


def outcomes(document: Document) -> list[Any]:
    """The outcome of each call, in terms that all SDKs share."""
    called = [step for step in steps(document) if step["do"] == "call"]
    return [step["result"]["content"] if "result" in step else step["error"]["code"] for step in called]


def heard(document: Document) -> list[int]:
    """The number of progress callbacks before the result of each call."""
    return [len(step.get("progressed", [])) for step in steps(document) if step.get("progress")]


def protocol(document: Document) -> str:
    connected = document["connected"]
    return str(connected.get("protocol", connected.get("protocolVersion")))


METHODS = {
    "call": "tools/call",
    "read": "resources/read",
    "resources": "resources/list",
    "templates": "resources/templates/list",
    "prompts": "prompts/list",
    "prompt": "prompts/get",
    "complete": "completion/complete",
    "log-level": "logging/setLevel",
}
# Output of a server differs between runs only in times.
CLOCK = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|\d{1,2}:\d\d:\d\d\s[AP]M|\w+day\b")
BLOB = re.compile(r'"blob": "[^"]*"')  # server-everything puts the time in there too


def methods(recorded: Sequence[Frame], sender: str) -> Counter[str]:
    """The number of times that one side sent each method."""
    return Counter(m.method for side, m in messages(recorded) if m.method and side == sender)


def messages(recorded: Sequence[Frame]) -> Iterator[tuple[str, Message]]:
    for frame in recorded:
        if frame.kind in ("message", "batch"):
            yield from ((frame.sender, message) for message in parse(frame.text)[1])
