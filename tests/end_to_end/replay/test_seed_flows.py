"""Every step of five protocol documents: recorded, and replayed with other ids, in another order, and over HTTP.

`seeds/flows.txt` has the steps, and explains its format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from mcp_tape.wire.frames import parse
from tests.support.http import ask
from tests.support.http_running import replaying
from tests.support.running import MCP_TAPE, WAIT, python, receive, receive_line, record, send, started

FLOWS = Path(__file__).parents[2] / "seeds" / "flows.txt"
# Plays the server's steps, each after the client's earlier lines.
SERVER = """
import json, os, sys
for mark, text in json.loads(sys.argv[1]):
    if mark == ">":
        sys.stdin.buffer.readline()
    elif mark == "exit":
        os._exit(int(text))
    else:
        os.write(1 if mark == "<" else 2, text.encode() + b"\\n")
sys.stdin.buffer.read()
"""


class Step(NamedTuple):
    mark: str
    text: str


class Flow(NamedTuple):
    name: str
    any_order: bool
    steps: list[Step]


def read_flows() -> Iterator[Flow]:
    for line in FLOWS.read_text("utf-8").splitlines():
        mark, _, text = line.partition(" ")
        if mark == "==":
            name, order, _ = text.partition(", any order")
            flow = Flow(name, bool(order), [])
            yield flow
        elif mark and mark != "#":
            flow.steps.append(Step(mark, text))


ALL = list(read_flows())
IN_ANY_ORDER = [flow for flow in ALL if flow.any_order]


def is_valid(flow: Flow) -> bool:
    """Return whether every line can be sent over HTTP: whether it is a message."""
    return all(parse(text.encode())[0] == "message" for mark, text in flow.steps if mark in "<>")


def exit_code(steps: list[Step], *, within_a_call: bool = False) -> int:
    """The server's exit code; 0 if it did not end within a call, since only such ends are played."""
    if steps[-1].mark != "exit" or (within_a_call and last_line(steps).mark == "<"):
        return 0
    return int(steps[-1].text)


def last_line(steps: list[Step]) -> Step:
    return next(step for step in reversed(steps) if step.mark in "<>")


def names(flow: Flow) -> str:
    return flow.name


def with_other_ids(steps: list[Step]) -> list[Step]:
    """The same steps with ids of another type for the client's requests and tokens."""
    renamed: dict[str, str] = {}

    def rename(match: re.Match[str]) -> str:
        old = match[2]
        if old == "null":
            return match[0]
        new = renamed.setdefault(old, f'"live-{len(renamed)}"' if old[0] != '"' else str(len(renamed) + 1000))
        return match[1] + new

    changed = []
    for step in steps:
        is_of_client = step.mark == ">" and '"result":' not in step.text
        is_of_server = step.mark == "<" and not re.search(r'"id": ?\S+"method":', step.text)
        if is_of_client or (is_of_server and _names_known(step.text, renamed)):
            step = step._replace(text=_NAMES.sub(rename, step.text))
        changed.append(step)
    return changed


_NAMES = re.compile(r'("(?:id|progressToken|requestId)": ?)("[^"]*"|-?\d+|null)')


def _names_known(text: str, renamed: dict[str, str]) -> bool:
    return all(match[2] in renamed for match in _NAMES.finditer(text))


def in_another_order(steps: list[Step]) -> list[Step]:
    """The exchanges after the handshake, in reverse."""
    starts = [n for n, step in enumerate(steps) if step.mark == ">"]
    first = next(n for n in starts[1:] if 'initialized"' not in steps[n].text)
    bounds = [n for n in starts if n >= first] + [len(steps)]
    exchanges = [steps[start:end] for start, end in pairwise(bounds)]
    return steps[:first] + [step for exchange in reversed(exchanges) for step in exchange]


def talk(command: list[str], steps: list[Step]) -> tuple[int, str]:
    """Play the client line by line: nothing may come early, late or twice. Return exit code and stderr."""
    with started(command) as process:
        assert process.stdin and process.stdout and process.stderr
        for mark, text in steps:
            line = text.encode() + b"\n"
            if mark == ">":
                send(process.stdin, line)
            elif mark == "<":
                assert receive_line(process.stdout) == line
        process.stdin.close()
        assert receive(process.stdout) == b""
        stderr = receive(process.stderr).decode()
        return process.wait(WAIT), stderr


def recorded(flow: Flow, tape: Path) -> Path:
    code, stderr = talk(record(tape, [*python(SERVER), json.dumps(flow.steps)], "--no-redact"), flow.steps)
    assert code == exit_code(flow.steps), stderr
    return tape


def replay(tape: Path, steps: list[Step]) -> None:
    code, stderr = talk([*MCP_TAPE, "replay", str(tape), "--strict", "--unanswered", "exit"], steps)
    assert code == exit_code(steps, within_a_call=True), stderr


@pytest.mark.slow(quick=8)
@pytest.mark.parametrize("flow", ALL, ids=names)
def test_a_flow_replays_with_the_same_ids_and_with_others(flow: Flow, tmp_path: Path) -> None:
    tape = recorded(flow, tmp_path / "tape.db")
    replay(tape, flow.steps)
    replay(tape, with_other_ids(flow.steps))


@pytest.mark.slow(quick=4)
@pytest.mark.parametrize("flow", IN_ANY_ORDER, ids=names)
def test_exchanges_replay_in_another_order(flow: Flow, tmp_path: Path) -> None:
    replay(recorded(flow, tmp_path / "tape.db"), in_another_order(flow.steps))


@pytest.mark.slow(quick=4)
@pytest.mark.parametrize("flow", [flow for flow in IN_ANY_ORDER if is_valid(flow)], ids=names)
def test_a_flow_replays_over_http(flow: Flow, tmp_path: Path) -> None:
    steps = with_other_ids(flow.steps)
    with replaying(recorded(flow, tmp_path / "tape.db"), "--strict") as server:
        named: dict[str, str] = {}
        body = b""
        for mark, text in steps:
            if mark == "<":
                assert text.encode() in body
                continue
            answer = ask(server.url, text.encode(), **named)
            named = named or {"mcp-session-id": answer.header("mcp-session-id") or ""}
            body = answer.body
            assert answer.status == (200 if '"id"' in text else 202)
