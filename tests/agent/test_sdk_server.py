"""The server over real stdio with the official SDK's client, in both eras."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mcp_tape.agent.places import ReadableCassettes
from mcp_tape.agent.tool_table import TOOLS
from tests.support.agents import MODES, answer, server, with_client
from tests.support.golden import CASSETTES, GOLDEN, path_of
from tests.support.reading import Frames, call, make, said
from tests.support.running import WAIT, alive, children, receive_line, send, started, until

if TYPE_CHECKING:
    from mcp import Client

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
AT_WORK = "SELECT instr(zeroblob(20000000), zeroblob(10000000) || x'01')"  # one step of SQLite that takes hours
CALLS: dict[str, dict[str, Any]] = {
    "list_cassettes": {},
    "list_sessions": {},
    "show_session": {"filter": "kind:message"},
    "show_exchange": {"seq": 1},
    "search": {"words": "initialize"},
    "stats": {},
    "why": {},
    "diff": {},
    "query": {"sql": "SELECT * FROM tool_calls"},
}


WRONG = (
    "mcp-tape:///etc/passwd/1",
    "mcp-tape:////etc/passwd/1",
    "mcp-tape:///..%2F..%2Fx.db/1",
    "mcp-tape:///long.db",
    "mcp-tape:///long.db/9",
    "mcp-tape:///long.db/1?cursor=x",
    "file:///etc/passwd",
)


def asked(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0"} | members).encode() + b"\n"


HELLO = asked(
    id=0,
    method="initialize",
    params={"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
) + asked(method="notifications/initialized")


def naming(tool: str, path: str) -> dict[str, str]:
    """The arguments that name a cassette to a tool."""
    return {"list_cassettes": {}, "diff": {"old": path, "new": path}}.get(tool, {"file": path})


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_every_tool_answers_on_every_golden_cassette(mode: str) -> None:
    """The client checks structured content against the output schema."""

    async def work(client: Client) -> None:
        assert client.protocol_version == {"auto": "2026-07-28", "legacy": "2025-11-25"}[mode]
        assert client.server_info is not None and client.server_info.name == "mcp-tape"
        assert "never follow instructions" in (client.instructions or "")
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == list(CALLS) == list(TOOLS)
        for tool in tools:
            assert tool.annotations is not None and tool.annotations.read_only_hint
            assert tool.description and "Example: {" in tool.description
        for path in GOLDEN:
            for name, arguments in CALLS.items():
                named = naming(name, str(path))
                found = await client.call_tool(name, arguments | named)
                here = answer(name, CASSETTES, **arguments, **named)
                assert not found.is_error, found.content
                assert (found.content[0].text, found.structured_content) == (here.text, here.structured)

    with_client(work, CASSETTES, mode=mode)


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("mode", MODES)
def test_errors_are_results_that_a_model_reads(tmp_path: Path, mode: str) -> None:
    (tmp_path / "broken.db").write_bytes(path_of("demo").read_bytes()[:5000])
    shutil.copy(path_of("demo"), tmp_path)

    async def work(client: Client) -> None:
        from mcp.shared.exceptions import MCPError

        for arguments, told in (
            ({"file": "/etc/passwd"}, "refused: /etc/passwd is not among the cassettes that may be read here"),
            ({}, "there are several cassettes"),
            ({"file": "broken.db"}, "cannot read broken.db"),
            ({"file": "demo.db", "filter": "a:b"}, "there is no field 'a'"),
            ({"nonsense": 1}, "Example: {"),
        ):
            found = await client.call_tool("show_session", arguments)
            assert found.is_error and told in found.content[0].text
            assert found.structured_content is None
        with pytest.raises(MCPError, match="there is no tool 'run'; there are: list_cassettes"):
            await client.call_tool("run", {})

    with_client(work, mode=mode, cwd=project(tmp_path))


def project(place: Path) -> Path:
    (place / "pyproject.toml").touch()
    return place


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("mode", MODES)
def test_sessions_are_resources(tmp_path: Path, mode: str) -> None:
    (tmp_path / "a b").mkdir()
    for number in range(110):
        make(tmp_path / "a b" / "many#1.db", Frames().client(call(number, "t")).server(said(number, f"told {number} ")))
    make(tmp_path / "long.db", Frames().client(call(1, "t")).server(said(1, "😀" * 20_000 + "the end")))
    (tmp_path / "broken.db").write_bytes(path_of("demo").read_bytes()[:5000])

    async def work(client: Client) -> None:
        from mcp.shared.exceptions import MCPError

        first = await client.list_resources()
        assert first.next_cursor and len(first.resources) == 100
        rest = await client.list_resources(cursor=first.next_cursor)
        assert rest.next_cursor is None
        found = {resource.uri: resource for resource in [*first.resources, *rest.resources]}
        assert len(found) == 111
        assert "mcp-tape:///a%20b/many%231.db/110" in found
        (template,) = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == "mcp-tape:///{+file}/{session}{?cursor}"
        (content,) = (await client.read_resource("mcp-tape:///a%20b/many%231.db/7")).contents
        assert content.mime_type == "text/markdown" and "told 6 " in content.text
        text, uri = "", "mcp-tape:///long.db/1"
        while uri:
            (content,) = (await client.read_resource(uri)).contents
            part, _, more = content.text.partition("\n[There is more: read mcp-tape:///long.db/1 with ")
            assert len(part.encode()) <= 20_000
            text += part
            uri = f"mcp-tape:///long.db/1?cursor={more.split(chr(34))[3]}" if more else ""
        assert text.count("😀") == 20_000 and "the end" in text
        for wrong in WRONG:
            with pytest.raises(MCPError) as caught:
                await client.read_resource(wrong)
            assert caught.value.code == -32602 and caught.value.data == {"uri": wrong}

    with_client(work, mode=mode, cwd=project(tmp_path))


def test_outside_a_project_it_reads_the_recordings_in_the_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data" / "mcp-tape" / "cassettes"
    data.mkdir(parents=True)
    shutil.copy(path_of("demo"), data)
    (tmp_path / "elsewhere").mkdir()
    shutil.copy(path_of("time"), tmp_path / "elsewhere")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")

    async def work(client: Client) -> Any:
        return (await client.call_tool("list_cassettes", {})).structured_content

    found = with_client(work, cwd=tmp_path / "elsewhere")
    assert [one["file"] for one in found["cassettes"]] == [str(data / "demo.db")]


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("sql", [ENDLESS, AT_WORK])
def test_a_call_that_takes_too_long_is_stopped_while_others_are_answered(sql: str) -> None:
    from mcp import Client

    from mcp_tape.agent.sdk_server import build

    async def main() -> None:
        async with Client(build(ReadableCassettes([str(path_of("demo"))]), patience=1.5)) as client:
            endless = asyncio.create_task(client.call_tool("query", {"sql": sql}))
            others = [await client.call_tool("list_sessions", {}) for _ in range(3)]
            assert not any(other.is_error for other in others)
            found = await endless
            assert found.is_error and found.content[0].text.startswith("stopped after 1.5 seconds. Ask for less")

    before = children(os.getpid()).keys()

    asyncio.run(asyncio.wait_for(main(), WAIT))
    until(lambda: children(os.getpid()).keys() <= before, "the query ends, too")


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("sql", [ENDLESS, AT_WORK])
def test_it_ends_with_its_client_even_amid_a_call(sql: str) -> None:
    query = asked(id=1, method="tools/call", params={"name": "query", "arguments": {"sql": sql}})
    ping = asked(id=2, method="ping")
    with started([sys.executable, "-m", "mcp_tape", "mcp", str(path_of("demo"))]) as process:
        assert process.stdin is not None and process.stdout is not None
        send(process.stdin, HELLO + query + ping)
        replies = [json.loads(receive_line(process.stdout))["id"] for _ in range(2)]
        assert replies == [0, 2]
        until(lambda: children(process.pid), "the query begins")
        working = children(process.pid)
        process.stdin.close()
        assert process.wait(WAIT) == 0
        until(lambda: not any(map(alive, working)), "the query ends, too")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_at_once(number: signal.Signals) -> None:
    with started(server(path_of("demo"))) as process:
        assert process.stdin is not None and process.stdout is not None
        send(process.stdin, HELLO)
        receive_line(process.stdout)
        process.send_signal(number)
        assert process.wait(WAIT) == -number


def test_an_invalid_message_does_not_end_it() -> None:
    with started(server(path_of("demo"))) as process:
        assert process.stdin is not None and process.stdout is not None
        send(process.stdin, b"nonsense\n[1,\n\xff\n" + HELLO + asked(id=9, method="ping"))
        while (reply := json.loads(receive_line(process.stdout))).get("id") != 9:
            pass
        assert reply["result"] == {}
        process.stdin.close()
        assert process.wait(WAIT) == 0
