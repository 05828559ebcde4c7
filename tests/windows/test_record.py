"""Recording on Windows: byte-transparent, kept after a kill, and the server never outlives us."""

from __future__ import annotations

import ctypes
import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from ctypes import wintypes
from pathlib import Path
from time import monotonic, sleep

import pytest

pytest.importorskip("msvcrt", reason="for Windows: python -m tests.windows.wine")

from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from mcp_tape.cassette.reader import Cassette, EmptyError
from mcp_tape.system import windows_processes
from tests.windows import support
from tests.windows.support import PATIENCE, ROUNDS, mcp_tape, python, run, start
from tests.windows.wine import PLACE

ECHO = str(PLACE / "echo.exe")


def recorded(path: Path, sender: str) -> bytes:
    """What one side has sent, by the newest session of a cassette; nothing if there is none yet."""
    if not path.exists():
        return b""
    kinds = ("message", "batch", "noise")
    with suppress(EmptyError), Cassette(str(path)) as cassette:
        for session in cassette.sessions()[-1:]:
            frames = (frame for frame in cassette.frames(session.id) if frame.sender == sender)
            return b"".join(f.text + f.eol for f in frames if f.channel == "stdio" and f.kind in kinds)
    return b""


def wait_until(holds: Callable[[], bool]) -> None:
    end = monotonic() + PATIENCE
    while not holds():
        assert monotonic() < end
        sleep(0.1)


def wait_until_recorded(path: Path, sender: str, data: bytes) -> None:
    wait_until(lambda: recorded(path, sender) == data)


def wait_for_end(process: int) -> None:
    wait_until(lambda: not windows_processes.is_running(process))


def random_stream(seed: int) -> bytes:
    """Lines of JSON and others, with any bytes and any line ends."""
    some = random.Random(seed)
    pieces = [
        lambda: json.dumps({"jsonrpc": "2.0", "id": some.randrange(99), "method": "é" * some.randrange(9)}).encode(),
        lambda: some.randbytes(some.randrange(200)),
        lambda: b"x" * some.randrange(100_000),
        lambda: b"\x1a\x00\x04",  # the end of a file, for programs in text mode
    ]
    lines = (
        some.choice(pieces)() + some.choice([b"\n", b"\r\n", b"\r", b"", b"\n\n"]) for _ in range(some.randrange(30))
    )
    return b"".join(lines)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_stream_passes_byte_for_byte_and_is_recorded(seed: int, tmp_path: Path) -> None:
    said, tape = random_stream(seed), tmp_path / "two words é.db"
    done = run(mcp_tape("record", "--no-redact", "-o", tape, "-q", "--", ECHO, 0), said)
    assert (done.stdout, done.returncode) == (said, 0), done.stderr
    assert b"INCOMPLETE" not in done.stderr
    if said:
        assert recorded(tape, "client") == recorded(tape, "server") == said


@pytest.mark.parametrize("code", [3, 0xC0000005])
def test_the_exit_code_is_kept(code: int, tmp_path: Path) -> None:
    done = run(mcp_tape("record", "-o", tmp_path / "tape.db", "-q", "--", ECHO, code))
    assert done.returncode == code
    with Cassette(str(tmp_path / "tape.db")) as cassette:
        assert cassette.sessions()[-1].exit_code == code


@pytest.mark.parametrize("ending", [".cmd", ".bat"])
async def test_a_script_is_found_on_the_path_as_clients_find_it(ending: str, tmp_path: Path) -> None:
    place = tmp_path / "with a space"
    place.mkdir()
    (place / f"weather{ending}").write_text(f'@echo off\r\n"{sys.executable}" -m mcp_tape.demo.server %*\r\n')
    words = mcp_tape("record", "-o", tmp_path / "tape.db", "-q", "--", "weather")
    variables = {**os.environ, "PATH": f"{place};{os.environ['PATH']}"}
    parameters = StdioServerParameters(command=words[0], args=words[1:], env=variables)
    async with stdio_client(parameters) as streams, ClientSession(*streams) as client:
        await client.initialize()
        assert [tool.name for tool in (await client.list_tools()).tools] == ["forecast"]
        wait_until(lambda: b'"forecast"' in recorded(tmp_path / "tape.db", "server"))


async def test_a_server_at_a_url_is_recorded(tmp_path: Path) -> None:
    shutil.copy(support.CASSETTES / "time.db", tmp_path / "there.db")
    with start(mcp_tape("replay", tmp_path / "there.db", "-q", "--listen", "127.0.0.1:0")) as there:
        assert there.stdout
        url = there.stdout.readline().decode().strip()
        with start(mcp_tape("record", "-o", tmp_path / "tape.db", "-q", "--url", url)) as recorder:
            assert recorder.stdout
            url = recorder.stdout.readline().decode().strip()
            async with streamable_http_client(url) as streams, ClientSession(*streams[:2]) as client:
                await client.initialize()
                tools = (await client.list_tools()).tools
            recorder.kill()
        there.kill()

    def is_recorded() -> bool:
        texts = b""
        with suppress(EmptyError), Cassette(str(tmp_path / "tape.db")) as cassette:
            texts = b"".join(frame.text for one in cassette.sessions() for frame in cassette.frames(one.id))
        return all(tool.name.encode() in texts for tool in tools)

    wait_until(is_recorded)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_killed_relay_loses_nothing_that_was_delivered(seed: int, tmp_path: Path) -> None:
    some, tape = random.Random(seed), tmp_path / "tape.db"
    with start(mcp_tape("record", "-o", tape, "-q", "--", ECHO, 0)) as relay:
        assert relay.stdin and relay.stdout and relay.stderr
        server = int(relay.stderr.readline())
        delivered = b""
        for number in range(some.randrange(1, 50)):
            line = b'{"jsonrpc":"2.0","id":%d,"method":"m","params":"%s"}\n' % (number, b"x" * some.randrange(3000))
            relay.stdin.write(line)
            relay.stdin.flush()
            delivered += relay.stdout.readline()
        relay.kill()
    wait_until_recorded(tape, "server", delivered)
    wait_for_end(server)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_killed_writer_loses_no_traffic(seed: int, tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    with start(mcp_tape("record", "-o", tape, "-q", "--", ECHO, 7)) as relay:
        assert relay.stdin and relay.stdout and relay.stderr
        server = int(relay.stderr.readline())
        relay.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"m"}\n')
        relay.stdin.flush()
        first = relay.stdout.readline()
        wait_until_recorded(tape, "server", first)
        (writer,) = [one for one in children(relay.pid) if one != server]
        os.kill(writer, 9)
        for number in range(50):
            line = b'{"jsonrpc":"2.0","id":%d,"method":"after"}\n' % number
            relay.stdin.write(line)
            relay.stdin.flush()
            assert relay.stdout.readline() == line
        relay.stdin.close()
        said = relay.stderr.read()
        assert relay.wait(PATIENCE) == 7
    assert b"the recording process has died" in said
    assert recorded(tape, "server").startswith(first)


class _Entry(ctypes.Structure):
    """PROCESSENTRY32."""

    _fields_ = (
        ("size", wintypes.DWORD), ("usage", wintypes.DWORD), ("process", wintypes.DWORD), ("heap", ctypes.c_void_p),
        ("module", wintypes.DWORD), ("threads", wintypes.DWORD), ("parent", wintypes.DWORD),
        ("priority", wintypes.LONG), ("flags", wintypes.DWORD), ("file", ctypes.c_char * 260),
    )  # fmt: skip


def children(parent: int) -> list[int]:
    kernel = ctypes.WinDLL("kernel32")
    kernel.CreateToolhelp32Snapshot.restype = wintypes.HANDLE
    everything = wintypes.HANDLE(kernel.CreateToolhelp32Snapshot(2, 0))
    entry, found = _Entry(size=ctypes.sizeof(_Entry)), []
    more = kernel.Process32First(everything, ctypes.byref(entry))
    while more:
        if entry.parent == parent:
            found.append(entry.process)
        more = kernel.Process32Next(everything, ctypes.byref(entry))
    kernel.CloseHandle(everything)
    return found


def test_a_text_is_recorded_into(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    said = b'{"jsonrpc":"2.0","id":1,"method":"m"}\n'
    for times in (1, 2):
        done = run(mcp_tape("record", "-o", tape, "-q", "--", ECHO, 0), said)
        assert done.returncode == 0, done.stderr
        with Cassette(str(tape)) as cassette:
            assert len(cassette.sessions()) == times
    assert [one.name for one in tmp_path.iterdir()] == ["tape.jsonl"]


def test_a_cassette_that_another_process_holds_open_is_recorded_into_and_not_replaced(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    shutil.copy(support.CASSETTES / "demo.db", tape)
    before = tape.read_bytes()
    code = "import sys; file = open(sys.argv[1], 'rb'); print('open', flush=True); sys.stdin.read()"
    with start(python(code, tape)) as holder:
        assert holder.stdin and holder.stdout
        holder.stdout.readline()
        done = run(mcp_tape("redact", tape, "--redact-key", "city"))
        assert done.returncode != 0
        assert b"Traceback" not in done.stderr
        assert tape.read_bytes() == before
        done = run(mcp_tape("record", "-o", tape, "-q", "--", ECHO, 0), b'{"jsonrpc":"2.0","id":1,"method":"m"}\n')
        assert done.returncode == 0, done.stderr
        holder.stdin.close()
    with Cassette(str(tape)) as cassette:
        assert len(cassette.sessions()) == 2
    done = run(mcp_tape("redact", tape, "--redact-key", "city"))
    assert done.returncode == 0, done.stderr
    assert {one.name for one in tmp_path.iterdir()} == {"tape.db"}


@pytest.mark.parametrize("form", ["\\\\?\\{}", "{}", "C:\\{.stem}.db"])
def test_a_path_of_any_form_is_recorded_into(form: str, tmp_path: Path) -> None:
    place = tmp_path / "日本 é"
    place.mkdir()
    tape = Path(form.format(place / "tape.db"))
    done = run(mcp_tape("record", "-o", tape, "-q", "--", ECHO, 0), b'{"jsonrpc":"2.0","id":1,"method":"m"}\n')
    assert done.returncode == 0, done.stderr
    assert recorded(tape, "client") == b'{"jsonrpc":"2.0","id":1,"method":"m"}\n'
    tape.unlink()


def test_an_event_of_the_console_is_a_signal() -> None:
    """Wine without a display sends no such events."""
    windows_processes._handle_event(1)
    assert windows_processes.next_signal(()) == (signal.SIGBREAK, True)
