"""Random well-formed conversations, recorded through the tape and replayed by the deck."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.record.tape import Tape
from mcp_tape.wire.ledger import Ledger
from tests.support.decks import Said, back_to_back, make_cassette
from tests.support.fuzzing import examples

STEPS = ["call", "call", "progress", "ask", "answer_ask", "answer", "answer", "log", "tell", "noise", "cancel"]


@st.composite
def conversations(draw: st.DrawFn) -> list[Said]:
    """Calls with and without progress, nested requests, ids that collide, notifications, concurrency."""
    said: list[Said] = []
    calls: dict[int, bool] = {}  # open calls, and whether they asked for progress
    asked: list[int] = []
    next_call, next_ask = draw(st.integers(0, 2)), draw(st.integers(0, 2))

    def say(side: Any, **body: Any) -> None:
        said.append((side, json.dumps({"jsonrpc": "2.0"} | body)))

    for step in draw(st.lists(st.sampled_from(STEPS), max_size=40)):
        if step == "call":
            wants = draw(st.booleans())
            meta = {"_meta": {"progressToken": next_call}} if wants else {}
            arguments = {"n": draw(st.integers(0, 3))}
            say("client", id=next_call, method="tools/call", params={"name": "t", "arguments": arguments} | meta)
            calls[next_call] = wants
            next_call += 1
        elif step == "progress" and any(calls.values()):
            token = draw(st.sampled_from([n for n, wants in calls.items() if wants]))
            say("server", method="notifications/progress", params={"progressToken": token, "progress": len(said)})
        elif step == "ask":
            say("server", id=next_ask, method="roots/list", params={"n": next_ask})
            asked.append(next_ask)
            next_ask += 1
        elif step == "answer_ask" and asked:
            say("client", id=asked.pop(draw(st.integers(0, len(asked) - 1))), result={"roots": []})
        elif step == "answer" and calls:
            done = draw(st.sampled_from(sorted(calls)))
            del calls[done]
            say("server", id=done, result={"at": len(said)})
        elif step == "log":
            say("server", method="notifications/message", params={"data": len(said)})
        elif step == "tell":
            say("client", method="notifications/roots/list_changed", params={"n": len(said)})
        elif step == "noise":
            said.append(("server", f"noise {len(said)}"))
        elif step == "cancel" and calls:
            gone = draw(st.sampled_from(sorted(calls)))
            del calls[gone]
            say("client", method="notifications/cancelled", params={"requestId": gone})
    say("client", id=next_call, method="tools/call", params={"name": "last"})
    say("server", id=next_call, result={"last": True})
    return said


def exchanges(said: list[Said]) -> dict[int | None, list[str]]:
    """The server's messages, by exchange."""
    found: dict[int | None, list[str]] = {}
    ledger_entries: list[Any] = []
    tape = Tape(lambda frame, entries: ledger_entries.append((frame, entries)), None)
    assert isinstance(tape.ledger, Ledger)
    for side, text in said:
        tape.feed(side, "stdio", text.encode() + b"\n", 0)
    for frame, entries in ledger_entries:
        if frame.sender == "server":
            found.setdefault(entries[0].exchange, []).append(frame.text.decode())
    return found


@pytest.mark.slow
@examples(100)
@given(conversations())
def test_the_client_gets_the_same_frames_in_a_valid_order(said: list[Said]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        _, told, player, client = back_to_back(make_cassette(Path(directory) / "tape.db", said))
    frames = [text.decode().rstrip("\n") for text in told if b"-32010" not in text]
    recorded = [text for side, text in said if side == "server"]
    assert client.finished
    assert player.deck.misses == len(told) - len(frames)
    assert player.unplayed() == []
    assert sorted(frames) == sorted(recorded)
    position = {text: at for at, text in enumerate(frames)}
    for exchange, texts in exchanges(said).items():
        if exchange is not None:
            assert [position[text] for text in texts] == sorted(position[text] for text in texts)


@examples(30)
@given(conversations())
def test_two_replays_give_the_same_bytes(said: list[Said]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = make_cassette(Path(directory) / "tape.db", said)
        assert back_to_back(path)[:2] == back_to_back(path)[:2]
