"""Verifying under bad conditions: interrupts, empty recordings, servers that linger or never end."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from mcp_tape.transports.stdio import connect
from mcp_tape.verify.plan import VerifyOptions, VerifyTarget, plan_sessions
from mcp_tape.verify.play import verify
from tests.support.diffs import said, taped
from tests.support.diffs import told as notified
from tests.support.running import MCP_TAPE, WAIT, in_background, python, started, until
from tests.support.verifying import command, moody, moody_tape, play

# Lists tools in pages that all lead to the same next one.
CIRCLING = """
import json, sys
tool = {"name": "say", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
hello = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
for line in sys.stdin:
    asked = json.loads(line)
    result = {"initialize": hello, "tools/list": {"tools": [tool], "nextCursor": "again"}}.get(
        asked["method"], {"content": [{"type": "text", "text": str(asked.get("params"))}]}
    )
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
SIGNALS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda n: n.name)


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return moody_tape(tmp_path / "tape.db")


@pytest.mark.slow(quick=1)
@SIGNALS
def test_a_signal_leaves_nothing_behind(tape: Path, tmp_path: Path, number: signal.Signals) -> None:
    before, reached, temporary = tape.read_bytes(), tmp_path / "reached", tmp_path / "temporary"
    temporary.mkdir()
    silent = python(f"import sys; open({str(reached)!r}, 'w').close(); sys.stdin.read()")
    line = [*MCP_TAPE, "verify", str(tape), "--", *silent]
    with started(line, env=os.environ | {"TMPDIR": str(temporary)}) as process:
        until(reached.exists, "the server is started")
        process.send_signal(number)
        assert process.wait(WAIT) == 128 + number
    assert list(temporary.iterdir()) == []
    assert tape.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["reached", "tape.db", "temporary"]


@pytest.mark.slow
def test_a_server_that_closes_its_output_and_stays_is_not_taken_for_one_that_stores() -> None:
    lingering = python("import os, signal; os.close(1); signal.pause()")
    connection = connect.StdioConnection(lingering, storing=100 * WAIT)
    assert connection.receive(WAIT) is None
    with in_background(lambda: [connection.ended, connection.close()]):
        pass
    assert str(connection.ended) == f"the server ended with exit code {128 + signal.SIGTERM}"


@pytest.mark.parametrize(
    ("good", "told"), [("text != 'two'", "its messages could not be recorded"), ("False", "nothing could be recorded")]
)
@pytest.mark.slow
def test_unrecorded_messages_were_not_verified(
    tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, good: str, told: str
) -> None:
    (tmp_path / "hiding.py").write_text(f"def fails(text): return text if {good} else 1 / 0")
    (plan,) = plan_sessions(str(tape), options := VerifyOptions(recording=("--redact-with", "hiding:fails")))
    (tmp_path / "new").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    done = verify(plan, VerifyTarget(tuple(moody())), options, str(tmp_path / "new"))
    assert [failure.kind for failure in done.failures] == ["unrecorded"]
    assert done.failures[0].message.startswith(told)


@pytest.mark.slow
def test_tools_that_were_known_and_are_not_any_more_do_not_pass(tape: Path) -> None:
    for level, expected in ("error", 1), ("never", 0):
        code, out, _ = command(str(tape), "--no-keep", "--fail-on", level, "--", *python(CIRCLING))
        assert "UNKNOWN tools: NEW: it was not read to its end" in out
        assert code == expected


# Supports only one era: it requires a handshake, or has none.
ONE_ERA = """
import json, sys
is_older, greeted = {}, False
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    is_greeting = message["method"] == "initialize"
    greeted = greeted or is_greeting
    knows = is_older and greeted or not is_older and not is_greeting
    body = {{"result": {{}}}} if knows else {{"error": {{"code": -32602, "message": "Invalid request parameters"}}}}
    print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], **body}}), flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "is_older", "told"), [("time-modern", True, "older"), ("time", False, "newer")])
def test_a_server_of_another_era_is_called_so(name: str, is_older: bool, told: str) -> None:
    tape = str(Path(__file__).parents[3] / "cassettes" / f"{name}.db")
    flags = ("--no-keep", "--skip-writes", "--fail-on", "never")
    code, _, err = command(tape, *flags, "--", *python(ONE_ERA.format(is_older)))
    assert f"the server seems to speak the {told} protocol only" in err
    assert code == 1
    assert "seems to speak" not in command(tape, *flags, "--", *python(ONE_ERA.format(not is_older)))[2]


@pytest.mark.slow
def test_a_recording_without_a_request_verifies_nothing(tmp_path: Path) -> None:
    tape = taped(tmp_path / "tape.db", [said(("client", notified("notifications/initialized")))])
    assert play(tape, tmp_path / "new", moody()).empty_reason
    code, _, err = command(str(tape), "--", *moody())
    assert code == 1
    assert "there was nothing to ask" in err
