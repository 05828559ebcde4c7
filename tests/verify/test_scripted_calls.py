"""Calls of one's own: how they are written, and how a server is recorded by them, without another client."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.cassette.reader import Cassette
from mcp_tape.verify.scripted_calls import ScriptError, parse_call, read_calls
from tests.support.running import MCP_TAPE, run

# A server with tools, over two pages, which also asks its client; its argument is the era.
SERVER = """
import json, os, sys
MODERN = "modern" in sys.argv
def say(**body): print(json.dumps({"jsonrpc": "2.0"} | body), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    method, params, rpc_id = asked.get("method"), asked.get("params", {}), asked.get("id")
    if rpc_id is None or method is None:
        continue
    if method == ("server/discover" if MODERN else "initialize"):
        result = {"protocolVersion": "2025-11-25", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "s", "version": "1"}}
        say(id=rpc_id, result=result)
    elif MODERN and "_meta" not in params:
        say(id=rpc_id, error={"code": -32600, "message": "say your version"})
    elif method == "tools/list":
        more = {"nextCursor": "2"} if "cursor" not in params else {}
        name = "second" if "cursor" in params else "first"
        say(id=rpc_id, result={"tools": [{"name": name, "inputSchema": {"type": "object"}}]} | more)
    elif method == "tools/call" and params["name"] == "die":
        sys.exit(3)
    elif method == "tools/call" and params["name"] == "env":
        say(id=rpc_id, result={"content": [{"type": "text", "text": os.environ.get("API_TOKEN", "none")}]})
    elif method == "tools/call":
        say(id="q", method="roots/list")
        answer = json.loads(sys.stdin.readline())
        text = json.dumps([params.get("arguments"), "error" in answer])
        say(id=rpc_id, result={"content": [{"type": "text", "text": text}]})
    else:
        say(id=rpc_id, error={"code": -32601, "message": "no " + method})
"""


def record(place: Path, *words: str, code: int = 0, era: str = "legacy") -> subprocess.CompletedProcess[bytes]:
    done = run([*MCP_TAPE, "record", "-o", "t.db", *words, "--", sys.executable, "-c", SERVER, era], cwd=place)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done


def asked(path: Path) -> list[str]:
    """The titles of the client's requests in the newest session."""
    with Cassette(str(path)) as cassette:
        newest = cassette.sessions()[-1]
        exchanges = [one for one in cassette.exchanges(newest.id) if one.sender == "client"]
        return [" ".join(filter(None, (one.method, one.name))) for one in exchanges]


@pytest.mark.parametrize(
    ("source", "method", "params"),
    [
        ('search={"q":"a=b"}', "tools/call", {"name": "search", "arguments": {"q": "a=b"}}),
        ("ping", "ping", {}),
        ("now", "tools/call", {"name": "now", "arguments": {}}),
        ('resources/read={"uri":"a:1"}', "resources/read", {"uri": "a:1"}),
        ('prompts/get:greet={"who":"x"}', "prompts/get", {"name": "greet", "arguments": {"who": "x"}}),
        ("prompts/get:greet", "prompts/get", {"name": "greet"}),
        ('tools/call:ping={"a":1}', "tools/call", {"name": "ping", "arguments": {"a": 1}}),
        ("files/list-all={}", "tools/call", {"name": "files/list-all", "arguments": {}}),
    ],
)
def test_a_call_is_a_tool_or_a_method(source: str, method: str, params: dict[str, Any]) -> None:
    assert parse_call(source) == (method, params)


@pytest.mark.parametrize("source", ["search=", "search=1", "search={'q': 1}", "={}", "search=[" + "[" * 500])
def test_an_invalid_call_is_refused(source: str) -> None:
    with pytest.raises(ScriptError):
        parse_call(source)


@pytest.mark.parametrize(
    "line", ["1", "{", '{"tool": 1}', '{"tool": "a", "method": "b"}', '{"tool": "a", "arguments": 1}']
)
def test_a_line_that_is_no_call_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "calls.jsonl").write_text('{"tool": "a"}\n\n' + line)
    with pytest.raises(ScriptError, match=r"calls\.jsonl, line 3"):
        read_calls(str(tmp_path / "calls.jsonl"))


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.slow
def test_a_server_is_recorded_by_calls_alone_and_verified(tmp_path: Path, era: str) -> None:
    done = record(tmp_path, "--call", 'first={"a":1}', "--call", "resources/read={}", era=era)
    assert b"2 of 2 calls answered, 1 error among the answers: t.db" in done.stderr
    greeting = "initialize" if era == "legacy" else "server/discover"
    calls = ["tools/call first", "resources/read"]
    assert asked(tmp_path / "t.db") == [greeting, "tools/list", "tools/list", *calls]
    server = [sys.executable, "-c", SERVER, era]
    verified = run([*MCP_TAPE, "verify", "t.db", "--allow-writes", "--no-keep", "--", *server], cwd=tmp_path)
    assert verified.returncode == 0, verified.stdout


@pytest.mark.slow
def test_calls_come_from_a_file_too(tmp_path: Path) -> None:
    lines = [{"tool": "first", "arguments": {"b": 2}}, {"method": "ping"}]
    (tmp_path / "calls.jsonl").write_text("\n".join(map(json.dumps, lines)))
    record(tmp_path, "--call", "first", "--calls", "calls.jsonl")
    assert asked(tmp_path / "t.db")[-3:] == ["tools/call first", "tools/call first", "ping"]


@pytest.mark.slow
def test_the_recorder_gets_its_options(tmp_path: Path) -> None:
    record(tmp_path, "--env", "API_TOKEN=xyz-not-a-real-one-123", "--note", "--call", "--call=env")
    with Cassette(str(tmp_path / "t.db")) as cassette:
        texts = b"".join(bytes(frame.text) for frame in cassette.frames(1))
        assert cassette.sessions()[0].note == "--call"
    assert b"xyz-not-a-real-one-123" not in texts and b"[redacted:env:API_TOKEN]" in texts


@pytest.mark.slow
def test_a_server_that_dies_fails_and_keeps_the_recording_so_far(tmp_path: Path) -> None:
    done = record(tmp_path, "--call", "die", "--call", "first", code=1)
    assert b"the server ended with exit code 3 before it answered tools/call die" in done.stderr
    assert b"0 of 2 calls answered" in done.stderr and asked(tmp_path / "t.db")[-1] == "tools/call die"


@pytest.mark.slow
def test_a_server_that_cannot_start_is_exit_code_4(tmp_path: Path) -> None:
    done = run([*MCP_TAPE, "record", "-o", "t.db", "--call", "x", "--", "no-such-server"], cwd=tmp_path)
    assert done.returncode == 4 and b"no-such-server" in done.stderr


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--rotate", "1M"], b"--rotate does not go with --call"),
        (["--for", "a/b"], b"--for does not go with --call"),
        (["--call", "x=1"], b"must be a JSON object"),
    ],
)
def test_calls_that_need_a_client_are_refused(tmp_path: Path, words: list[str], hint: bytes) -> None:
    assert hint in record(tmp_path, "--call", "first", *words, code=2).stderr


@pytest.mark.slow
def test_a_server_at_a_url_is_recorded_by_calls(tmp_path: Path) -> None:
    record(tmp_path, "--call", 'first={"a":1}')
    server = [*MCP_TAPE, "replay", "-q", "t.db", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(server, cwd=tmp_path, stdout=subprocess.PIPE) as replay:
        assert replay.stdout
        url = replay.stdout.readline().decode().strip()
        done = run([*MCP_TAPE, "record", "-o", "web.db", "--call", 'first={"a":1}', "--url", url], cwd=tmp_path)
        replay.terminate()
    assert done.returncode == 0, done.stderr
    assert asked(tmp_path / "web.db")[-1] == "tools/call first"
