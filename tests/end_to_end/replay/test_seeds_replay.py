"""Every conversation of the protocol documents can be recorded and replayed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.running import MCP_TAPE, python, record, run

SEEDS = Path(__file__).parents[2] / "seeds" / "conversations.jsonl"
CONVERSATIONS: list[list[dict[str, Any]]] = [json.loads(line) for line in SEEDS.read_text().splitlines()]
# Sends its lines of a conversation, each after the client's earlier lines have arrived.
SERVER = """
import json, sys
for turn in json.loads(sys.argv[1]):
    if turn["sender"] == "client":
        sys.stdin.readline()
    else:
        print(turn["text"], flush=True)
"""


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize("said", CONVERSATIONS, ids=range(len(CONVERSATIONS)))
def test_a_conversation_of_the_documents_records_and_replays(tmp_path: Path, said: list[dict[str, Any]]) -> None:
    tape = tmp_path / "tape.db"
    asked = "".join(turn["text"] + "\n" for turn in said if turn["sender"] == "client").encode()
    told = [turn["text"] for turn in said if turn["sender"] == "server"]
    recorded = run(record(tape, [*python(SERVER), json.dumps(said)]), asked)
    assert recorded.stdout.decode().splitlines() == told
    replayed = run([*MCP_TAPE, "replay", str(tape), "--strict"], asked)
    answered = replayed.stdout.decode().splitlines()
    # Some documents abbreviate an answer so that it is not valid JSON: it plays, but answers nothing.
    played = [line for line in answered if "-32010" not in line]
    assert replayed.returncode == int(played != answered), replayed.stderr.decode()
    assert sorted(played) == sorted(told)
