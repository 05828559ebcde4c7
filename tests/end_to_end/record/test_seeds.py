"""Messages and conversations from five published protocol documents, through the real recorder.

`seeds/messages.jsonl` has each message on one line, as its document prints it, with its kind according to a person;
printed text that is not JSON is noise. `seeds/conversations.jsonl` puts the messages in a plausible order, each
request before its response.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.wire.frames import parse
from tests.support.running import WAIT, frames, python, record, run, sessions, started

SEEDS = Path(__file__).parents[2] / "seeds"


def load(name: str) -> list[Any]:
    return [json.loads(line) for line in (SEEDS / name).read_text("utf-8").split("\n") if line]


MESSAGES = load("messages.jsonl")
CONVERSATIONS = load("conversations.jsonl")

# Sends all of its lines and reads to the end.
TALKER = """
import sys
sys.stdout.buffer.write(open(sys.argv[1], "rb").read())
sys.stdout.flush()
sys.stdin.buffer.read()
"""

# Plays the server's part of a conversation: sends each line after the client's previous ones.
ACTOR = """
import json, sys
for step in json.load(open(sys.argv[1])):
    if step["sender"] == "server":
        sys.stdout.buffer.write(step["text"].encode() + b"\\n")
        sys.stdout.flush()
    else:
        sys.stdin.buffer.readline()
"""


def said_by(side: str) -> list[dict[str, Any]]:
    return [message for message in MESSAGES if message["sender"] == side]


def as_lines(messages: list[dict[str, Any]]) -> bytes:
    return b"".join(message["text"].encode() + b"\n" for message in messages)


def rows(tape: Path, sql: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(tape)) as db:
        return db.execute(sql).fetchall()


def record_all(tape: Path, *options: str) -> bytes:
    """Both sides send everything; returns the recorder's output."""
    script = tape.with_suffix(".lines")
    script.write_bytes(as_lines(said_by("server")))
    done = run(record(tape, [*python(TALKER), str(script)], *options), as_lines(said_by("client")))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_documents_hold_messages_of_every_kind() -> None:
    assert {m["kind"] for m in MESSAGES} == {"request", "response", "notification", "noise"}
    assert len({m["source"] for m in MESSAGES}) == 5


@pytest.mark.parametrize("seed", MESSAGES, ids=lambda seed: f"{seed['source']}: {seed['text'][:60]}")
def test_a_seed_has_the_messages_that_a_person_sees_in_it(seed: dict[str, Any]) -> None:
    kind, messages = parse(seed["text"].encode())
    if seed["kind"] == "noise":
        assert (kind, messages) == ("noise", [])
    else:
        (message,) = messages
        assert (message.kind, message.method, message.rpc_id) == (seed["kind"], seed["method"], seed["id"])


def test_every_seed_passes_the_tee_and_is_on_the_tape_verbatim(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    assert record_all(tape, "--no-redact") == as_lines(said_by("server"))
    recorded = frames(tape)
    for side in ("client", "server"):
        kept = [f for f in recorded if f.sender == side and f.channel == "stdio" and f.kind != "control"]
        assert [f.text.decode() for f in kept] == [m["text"] for m in said_by(side)]
        assert [f.kind == "noise" for f in kept] == [m["kind"] == "noise" for m in said_by(side)]


def test_every_seed_is_classified_in_the_cassette(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    record_all(tape, "--no-redact")
    for side in ("client", "server"):
        sql = f"SELECT kind, method, rpc_id FROM messages WHERE sender = '{side}' AND kind <> 'noise' ORDER BY seq"
        found = rows(tape, sql)
        assert found == [(m["kind"], m["method"], m["id"]) for m in said_by(side) if m["kind"] != "noise"]


@pytest.mark.slow
def test_default_redaction_touches_only_the_seed_with_a_token(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    assert record_all(tape) == as_lines(said_by("server"))
    kept = [f.text.decode() for f in frames(tape) if f.channel == "stdio" and f.kind != "control"]
    changed = {m["text"] for m in MESSAGES} - set(kept)
    assert changed == {m["text"] for m in MESSAGES if "Bearer token123" in m["text"]}
    assert len(changed) == 1
    assert b"token123" not in tape.read_bytes()


def test_every_seed_is_part_of_a_conversation() -> None:
    said = {_without_id(step["text"]) for conversation in CONVERSATIONS for step in conversation}
    assert {_without_id(m["text"]) for m in MESSAGES} <= said


def _without_id(text: str) -> str:
    """A conversation may have its own ids."""
    try:
        body = json.loads(text)
    except ValueError:
        return text
    return json.dumps({key: value for key, value in body.items() if key != "id"})


@pytest.mark.slow(quick=3)
@pytest.mark.parametrize("number", range(len(CONVERSATIONS)))
def test_a_conversation_is_recorded_in_its_order_and_paired(tmp_path: Path, number: int) -> None:
    conversation = CONVERSATIONS[number]
    tape, script = tmp_path / "tape.db", tmp_path / "script.json"
    script.write_text(json.dumps(conversation))
    with started(record(tape, [*python(ACTOR), str(script)], "--no-redact")) as process:
        assert process.stdin and process.stdout
        lines = process.stdout
        for step in conversation:
            line = step["text"].encode() + b"\n"
            if step["sender"] == "client":
                process.stdin.write(line)
            else:
                assert _read_line(lines) == line
        process.stdin.close()
        assert process.wait(WAIT) == 0
    kept = [f for f in frames(tape) if f.channel == "stdio" and f.kind != "control"]
    for side in ("client", "server"):
        mine = [f.text.decode() for f in kept if f.sender == side]
        assert mine == [step["text"] for step in conversation if step["sender"] == side]
    assert sessions(tape)[0].incomplete is None
    assert _answers(tape) == _expected_answers(conversation)


def _read_line(pipe: Any) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        byte = pipe.read(1)
        assert byte, "the stream ended within a line"
        line += byte
    return line


def _answers(tape: Path) -> list[tuple[Any, ...]]:
    """The text of each request and of its answer, in the order of the answers."""
    return rows(tape, "SELECT request, response FROM exchanges WHERE answer_seq IS NOT NULL ORDER BY answer_seq")


def _expected_answers(conversation: list[dict[str, str]]) -> list[tuple[str, str]]:
    waiting: dict[tuple[str, str], str] = {}
    pairs = []
    for step in conversation:
        try:
            body = json.loads(step["text"])
        except ValueError:
            continue
        other = "server" if step["sender"] == "client" else "client"
        if "method" in body and "id" in body:
            waiting[step["sender"], json.dumps(body["id"])] = step["text"]
        elif (other, json.dumps(body.get("id"))) in waiting:
            pairs.append((waiting.pop((other, json.dumps(body["id"]))), step["text"]))
    return pairs
