"""`use_cassette` with real clients: the official SDK, 2.x in both eras and 1.x, fastmcp, TypeScript."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_tape import UsedCassette, use_cassette
from tests.support import provision, warm
from tests.support.running import WAIT, python, run
from tests.support.sdk import PROGRESSING, heard
from tests.support.using import names
from tests.testing.test_use import ROOT

CASSETTES = ROOT / "cassettes"
TOKYO = {"source_timezone": "Asia/Tokyo", "time": "16:30", "target_timezone": "Asia/Kathmandu"}
# One tool that counts its calls and has an output schema.
COUNTER = """
import json, sys
count = 0
schema = {"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    params, body = message.get("params", {}), {"error": {"code": -32601, "message": "Method not found"}}
    if message["method"] == "initialize":
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "counter", "version": "1"}}
        body = {"result": {"protocolVersion": params["protocolVersion"]} | about}
    elif message["method"] == "tools/list":
        body = {"result": {"tools": [{"name": "count", "inputSchema": {"type": "object"}, "outputSchema": schema}]}}
    elif message["method"] == "tools/call":
        count += 1
        text = f"call {count}"
        body = {"result": {"content": [{"type": "text", "text": text}], "structuredContent": {"result": text}}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"]} | body), flush=True)
"""
HOW: dict[str, Callable[[UsedCassette], Any]] = {
    "server_params": lambda tape: tape.server_params,
    "url": lambda tape: tape.url,
    "streams": lambda tape: tape.streams(),
}


async def converted(server: Any, mode: str) -> tuple[str, str]:
    """The era that a client negotiates, and the answer that it gets."""
    from mcp import Client

    async with Client(server, mode=mode, read_timeout_seconds=WAIT) as client:
        result = await client.call_tool("convert_time", TOKYO)
        return client.protocol_version, result.content[0].text  # type: ignore[union-attr]


async def counted(server: Any, times: int = 1) -> list[str]:
    from mcp import Client

    async with Client(server, read_timeout_seconds=WAIT) as client:
        return [(await client.call_tool("count")).content[0].text for _ in range(times)]  # type: ignore[union-attr]


def failure(work: Awaitable[Any]) -> BaseException:
    """The error, unwrapped from the SDK's exception groups."""

    async def wait() -> Any:
        return await asyncio.wait_for(work, WAIT)

    with pytest.raises(BaseException) as raised:  # noqa: PT011 - any kind
        asyncio.run(wait())
    error = raised.value
    while hasattr(error, "exceptions"):
        error = error.exceptions[0]
    return error


# The official SDK, 2.x ---------------------------------------------------------------------------------


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize(
    ("cassette", "mode", "era"),
    [("time.db", "legacy", "2025-11-25"), ("time.db", "auto", "2025-11-25"), ("time-modern.db", "auto", "2026-07-28")],
)
def test_the_sdk_gets_the_same_over_every_connection(cassette: str, mode: str, era: str) -> None:
    with use_cassette(CASSETTES / cassette, "none") as tape:
        told = {how: asyncio.run(converted(connect(tape), mode)) for how, connect in HOW.items()}
        assert len(set(told.values())) == 1
        assert told["streams"][0] == era
        assert json.loads(told["url"][1])["target"]["datetime"].endswith("+05:45")
        assert [call.params["arguments"] for call in tape.calls("tools/call", tool="convert_time")] == [TOKYO] * 3
        assert not tape.misses


def test_server_params_are_those_of_the_sdk() -> None:
    from mcp import StdioServerParameters

    with use_cassette(CASSETTES / "time.db", "none") as tape:
        parameters = tape.server_params
        assert isinstance(parameters, StdioServerParameters)
        assert [parameters.command, *parameters.args] == tape.command


def test_streams_are_for_a_client_session_too() -> None:
    from mcp import ClientSession

    async def talk(tape: UsedCassette) -> str:
        async with tape.streams() as (reads, writes), ClientSession(reads, writes) as session:
            await session.initialize()
            result = await session.call_tool("convert_time", TOKYO)
            return result.content[0].text  # type: ignore[union-attr]

    with use_cassette(CASSETTES / "time.db", "none") as tape:
        assert "Kathmandu" in asyncio.run(talk(tape))


def test_streams_need_no_process_no_socket_and_no_thread() -> None:
    source = f"""
import asyncio, sys, threading
from mcp import Client
from mcp_tape import use_cassette
async def main():
    with use_cassette({str(CASSETTES / "time.db")!r}, "none") as tape:
        asyncio.get_running_loop()
        sys.addaudithook(lambda event, _: event in REFUSED and sys.exit(f"not alone: {{event}}"))
        async with Client(tape.streams(), mode="legacy") as client:
            print(len((await client.list_tools()).tools), threading.active_count())
REFUSED = {{"subprocess.Popen", "os.fork", "os.exec", "os.posix_spawn", "socket.connect", "socket.bind"}}
asyncio.run(main())
"""
    done = run([*warm.command(sys.executable, "-c", provision.SDK), source])
    assert (done.stdout, done.stderr) == (b"2 1\n", b"")


@pytest.mark.slow
def test_clients_at_once_in_one_loop_are_kept_apart(tmp_path: Path) -> None:
    async def at_once(tape: UsedCassette) -> list[list[str]]:
        return await asyncio.gather(*(counted(connect(tape), 3) for connect in HOW.values() for _ in range(2)))

    with use_cassette(recorded(tmp_path, times=3), "none") as tape:
        assert asyncio.run(at_once(tape)) == [["call 1", "call 2", "call 3"]] * 6


def recorded(place: Path, times: int) -> Path:
    """A cassette of the counter."""
    with use_cassette(place / "counter.db", command=python(COUNTER)) as tape:
        asyncio.run(counted(tape.streams(), times))
    return place / "counter.db"


@pytest.mark.parametrize("how", ["server_params", "streams"])
@pytest.mark.slow
def test_the_sdk_records_and_replays(tmp_path: Path, how: str) -> None:
    for is_recording in (True, False):
        with use_cassette(tmp_path / "tape.db", command=python(COUNTER)) as tape:
            assert tape.is_recording is is_recording
            assert asyncio.run(counted(HOW[how](tape), 2)) == ["call 1", "call 2"]
        assert names(tape.calls("tools/call")) == ["count", "count"]  # also after the end
    assert tape.all_played


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize("how", HOW)
def test_a_function_answers_a_real_client_in_the_form_of_the_output_schema(tmp_path: Path, how: str) -> None:
    from mcp import Client

    async def ask(tape: UsedCassette) -> Any:
        async with Client(HOW[how](tape), read_timeout_seconds=WAIT) as client:
            await client.list_tools()
            return [await client.call_tool("count"), await client.call_tool("other")]

    with use_cassette(recorded(tmp_path, times=1), "none") as tape:
        tape.on("tools/call", tool="count")(lambda: "many")

        @tape.on("tools/call", tool="other")
        def other() -> None:
            raise ValueError("not today")

        count, failed = asyncio.run(ask(tape))
        assert (count.content[0].text, count.structured_content) == ("many", {"result": "many"})
        assert (failed.is_error, failed.content[0].text) == (True, "not today")
        assert [call.result["content"][0]["text"] for call in tape.calls("tools/call")] == ["many", "not today"]


@pytest.mark.slow
def test_a_function_answers_a_modern_client() -> None:
    from mcp import Client

    async def ask(tape: UsedCassette, how: str) -> tuple[Any, Any]:
        async with Client(HOW[how](tape), read_timeout_seconds=WAIT) as client:
            tools = await client.list_tools()
            return await client.call_tool("get_current_time", {"timezone": "Moon/Tycho"}), tools

    with use_cassette(CASSETTES / "time-modern.db", "none") as tape:
        tape.on("tools/call", tool="get_current_time")(lambda timezone: f"noon in {timezone}")
        tape.on("tools/list")(lambda params: {"tools": [], "ttlMs": 0, "cacheScope": "private"})
        for how in HOW:
            result, tools = asyncio.run(ask(tape, how))
            assert (result.content[0].text, tools.tools) == ("noon in Moon/Tycho", [])


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize("how", HOW)
def test_a_miss_is_an_error_for_the_client_and_known_to_the_test(tmp_path: Path, how: str) -> None:
    from mcp import Client, MCPError

    async def ask(tape: UsedCassette) -> None:
        async with Client(HOW[how](tape), mode="legacy", read_timeout_seconds=WAIT) as client:
            await client.call_tool("count", {"from": 7})

    with use_cassette(recorded(tmp_path, times=1), "none") as tape:
        error = failure(ask(tape))
        assert isinstance(error, MCPError)
        assert error.error.code == -32010
        assert "$.params.arguments" in tape.misses[0].report


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize("fault", ["disconnect", "http:503", "reset"])
def test_a_fault_that_ends_the_connection_ends_streams(tmp_path: Path, fault: str) -> None:
    from mcp import MCPError

    with use_cassette(recorded(tmp_path, times=1), "none", faults=[f"tools/call={fault}"]) as tape:
        error = failure(counted(tape.streams()))
        assert isinstance(error, MCPError)
        assert "closed" in str(error)


@pytest.mark.slow
def test_a_rule_that_raises_raises_in_the_client_of_streams(tmp_path: Path) -> None:
    def broken(recorded: Any, live: Any) -> str | None:
        raise LookupError("in my rule")

    with use_cassette(recorded(tmp_path, times=1), "none", match_on=[broken]) as tape:
        error = failure(counted(tape.streams()))
        assert (type(error), str(error)) == (LookupError, "in my rule")


@pytest.mark.slow
def test_pauses_are_kept_where_they_are_wanted(tmp_path: Path) -> None:
    """A pause that has begun ends in every transport, without a client message to wake it."""
    with use_cassette(recorded(tmp_path, times=2), "none", faults=["tools/call=delay:20"], speed=10.0) as tape:
        for how in HOW.values():
            assert asyncio.run(counted(how(tape), 2)) == ["call 1", "call 2"]


@pytest.mark.slow
def test_an_answer_that_is_due_earlier_is_not_held_up_by_one_that_is_due_later(tmp_path: Path) -> None:
    from mcp import Client

    async def at_once(tape: UsedCassette) -> list[str]:
        done: list[str] = []

        async def ask(client: Client) -> None:
            done.append((await client.call_tool("count")).content[0].text)  # type: ignore[union-attr]

        async with Client(tape.streams(), read_timeout_seconds=WAIT) as client:
            first = asyncio.create_task(ask(client))
            await asyncio.sleep(0)  # it runs first
            await ask(client)
            await first
        return done

    slow_first = ["tools/call@1=delay:300", "tools/call@2=delay:1"]
    with use_cassette(recorded(tmp_path, times=2), "none", faults=slow_first) as tape:
        assert asyncio.run(at_once(tape)) == ["call 2", "call 1"]


# Other clients, in their own environments ----------------------------------------------------------------

# A client program in three variants: with the command, with the URL, and with the SDK's own transport for a tape.
PROGRAM = """
import asyncio, contextlib, io, json, sys
import {module} as client
import scripted_session
from mcp_tape import use_cassette

def shown(*target):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        asyncio.run(client.main(*{mode}, *target))
    return json.loads(output.getvalue())

with use_cassette(sys.argv[1], "none") as tape:
    documents = [shown(*tape.command), shown(tape.url)]
    client.{connect} = lambda stream, *target: tape.{gives}
    documents.append(shown("memory"))
    known = {{"misses": [miss.report for miss in tape.misses], "calls": len(tape.calls("tools/call"))}}

scripted_session.STEPS = [{{"do": "call", "name": "count", "arguments": {{}}}}]
for _ in range(2):
    with use_cassette(sys.argv[2], command=json.loads(sys.argv[3])) as tape:
        documents.append(shown("memory"))
print(json.dumps(known | {{"documents": documents, "recording": tape.is_recording}}))
"""
PROGRAMS = {
    "mcp1": {"module": "mcp1", "mode": [], "connect": "connected", "gives": "streams()"},
    "mcp2": {"module": "mcp2", "mode": ["auto"], "connect": "server", "gives": "streams()"},
    "fastmcp4": {"module": "fastmcp4", "mode": [], "connect": "transport", "gives": "transport"},
}


@pytest.mark.slow
@pytest.mark.parametrize("client", PROGRAMS)
def test_every_client_sees_the_same_however_it_connects_and_records(client: str, tmp_path: Path) -> None:
    environment = provision.environment() | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests" / "clients")])
    }
    interpreters = {"mcp1": (provision.sdk_1, provision.SDK_1), "fastmcp4": (provision.fastmcp, provision.FASTMCP_SDK)}
    interpreter, needed = interpreters.get(client, (lambda: sys.executable, provision.SDK))
    command = [*warm.command(interpreter(), "-c", needed), PROGRAM.format(**PROGRAMS[client])]
    more = [str(CASSETTES / "everything.db"), str(tmp_path / "new.db"), json.dumps(python(COUNTER))]
    done = run([*command, *more], env=environment)
    assert done.returncode == 0, done.stderr.decode()
    told = json.loads(done.stdout)
    by_command, by_url, by_object, recorded, replayed = told["documents"]
    assert by_command == by_url == by_object
    assert recorded == replayed
    assert set(by_object["asked"]) == {"sampling", "elicitation", "roots"}
    assert (told["misses"], told["recording"]) == ([], False)
    assert told["calls"] % 3 == 0


# Its place in fastmcp 2: a module, which is a package from fastmcp 3 on.
TRANSPORTS = "class ClientTransport: pass\n"


def test_the_transport_needs_only_the_interface_of_every_fastmcp_from_2_on(tmp_path: Path) -> None:
    (tmp_path / "fastmcp" / "client").mkdir(parents=True)
    (tmp_path / "fastmcp" / "client" / "transports.py").write_text(TRANSPORTS)
    program = (
        "import mcp_tape, sys\n"
        "with mcp_tape.use_cassette(sys.argv[1], 'none') as tape: print(type(tape.transport).__name__)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    command = warm.command(sys.executable, "-c", provision.SDK)
    done = run([*command, program, str(CASSETTES / "demo.db")], env=environment)
    assert done.stdout == b"TapeTransport\n", done.stderr.decode()


@pytest.mark.slow
def test_a_typescript_client_of_the_command_hears_all_progress(sdk_client: Callable[[str, str], list[str]]) -> None:
    """It drops progress that arrives in the same read as the answer, and the command adds a pipe in between."""
    with use_cassette(CASSETTES / "everything.db", "none", repeats="cycle") as tape:
        program = [*sdk_client("ts1", "time"), *tape.command]
        done = run(program, env=os.environ | {"CLIENT_STEPS": json.dumps([PROGRESSING] * 20)})
        assert heard(json.loads(done.stdout)) == [4] * 20
