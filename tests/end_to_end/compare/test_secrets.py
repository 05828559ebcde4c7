"""Comparison with a live server: its facts are redacted as in its recording."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.many import comparison
from tests.support.messages import request
from tests.support.running import MCP_TAPE, python, record, run

TOKEN = "ghp_" + "a1B2c3D4e5" * 4
PASSWORD = "Tr0ub4dor-and-3"
CUSTOMER = "customer C-4711"
VARIABLE = "q7Hs2-vLm40-tKe9"
SECRETS = (TOKEN, PASSWORD, "C-4711", VARIABLE)
# A server with secrets in its facts; "changed": with other wording. "crash": it ends instead.
SERVER = f"""
import json, sys
more = " now" if "changed" in sys.argv else ""
tool = {{
    "name": "deploy", "description": "With {TOKEN} for {CUSTOMER}" + more,
    "inputSchema": {{"type": "object", "properties": {{"key": {{"type": "string", "default": "{VARIABLE}" + more}}}}}},
}}
for line in sys.stdin:
    message = json.loads(line)
    if "crash" in sys.argv:
        sys.exit("x" * 470 + " {TOKEN}\\n-----BEGIN PRIVATE KEY-----\\n{"MIIEvQIBADANBg" * 4}\\n")
    answer = {{"tools": [tool]}} if message["method"] == "tools/list" else {{
        "protocolVersion": "2025-11-25", "capabilities": {{"tools": {{}}}}, "serverInfo": {{}},
        "instructions": "See postgres://ada:{PASSWORD}@db" + more,
    }}
    if "id" in message:
        print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], "result": answer}}), flush=True)
"""
ASKED = "\n".join((request(1, "initialize", protocolVersion="2025-11-25"), request(2, "tools/list"), ""))
OWN = ("--redact-value", "C-[0-9]+")
FORMATS = ("text", "json", "html")


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tape") / "old.db"
    done = run(record(path, python(SERVER), "-q", *OWN), ASKED.encode(), env=os.environ | {"DOOR_KEY": VARIABLE})
    assert done.returncode == 0
    return path


def compared(tape: Path, *words: str) -> tuple[int, str]:
    """Compare without the recording's variable."""
    command = [*MCP_TAPE, "diff", str(tape), *words[:-1], "--", *python(SERVER), words[-1], "--token", PASSWORD]
    done = run(command)
    return done.returncode, (done.stdout + done.stderr).decode()


@pytest.mark.slow
def test_an_unchanged_server_has_no_changes_although_its_recording_hides_some_of_it(tape: Path) -> None:
    code, said = compared(tape, "--json", "same")
    assert (code, comparison(said)["changes"]) == (0, [])


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("form", FORMATS)
def test_new_text_of_a_changed_server_is_shown_without_its_secrets(tape: Path, form: str) -> None:
    _, said = compared(tape, "--format", form, *OWN, "--redact-key", "default", "changed")
    assert "redacted:" in said
    assert [secret for secret in SECRETS[:3] if secret in said] == []


@pytest.mark.slow
def test_the_last_words_of_a_server_that_crashes_hide_secrets_before_they_are_cut(tape: Path) -> None:
    code, said = compared(tape, "crash")
    assert code == 4
    assert "its stderr ends with" in said
    assert TOKEN[:8] not in said
    assert "MIIEvQ" not in said
