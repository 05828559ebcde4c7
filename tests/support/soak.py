"""Long runs of a recorder, by hand: each takes minutes.

python -m tests.support.soak sessions 50000    # over HTTP: the memory of recorder and replay, as sessions come and go
python -m tests.support.soak production 200    # parts rotated and pushed, while a disk fills and every third hook fails
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mcp_tape.cassette.reader import Cassette
from tests.support.bucket import served
from tests.support.disks import fill, keep_mounts_private, mounted
from tests.support.forked import SCRIPT
from tests.support.golden import path_of
from tests.support.messages import call, request

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}}
AT_ONCE = 16


# Sessions over HTTP ---------------------------------------------------------------------------------------------------


def sessions(number: int) -> None:
    with (
        tempfile.TemporaryDirectory() as place,
        serving("replay", str(path_of("demo")), "--listen", "127.0.0.1:0") as (replay, server),
        serving("record", "--url", server, "-o", f"{place}/t.db", "--rotate", "64M", "--keep", "2") as (relay, url),
    ):
        writer = int(subprocess.check_output(["pgrep", "-P", str(relay)]))
        asyncio.run(talk(url, number, {"replay": replay, "relay": relay, "writer": writer}))


@contextlib.contextmanager
def serving(*words: str) -> Iterator[tuple[int, str]]:
    """A command that serves a URL: its id, and the URL."""
    with subprocess.Popen([*SCRIPT, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout
        yield process.pid, process.stdout.readline().split()[-1]
        process.terminate()


async def talk(url: str, number: int, processes: dict[str, int]) -> None:
    begun = iter(range(1, number + 1))

    async def ask() -> None:
        host, port = url.split("/")[2].split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        for each in begun:
            session = await post(reader, writer, "POST", request(0, "initialize", **HELLO), "")
            await post(reader, writer, "POST", request(1, "tools/list"), session)
            await post(reader, writer, "DELETE", "", session)
            if each == 1000 or each % (number // 10) == 0:
                print(f"{each:,} sessions:", *(f"{name} {memory(pid)} MB" for name, pid in processes.items()))
        writer.close()

    await asyncio.gather(*(ask() for _ in range(AT_ONCE)))


async def post(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, verb: str, body: str, session: str) -> str:
    """Make a request, read its answer, and return the id of the session."""
    known = f"Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-06-18\r\n" if session else ""
    kinds = "Content-Type: application/json\r\nAccept: application/json, text/event-stream"
    head = f"{verb} /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n{kinds}\r\n{known}Content-Length: {len(body)}\r\n\r\n"
    writer.write((head + body).encode())
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
    assert " 20" in lines[0], lines
    headers = dict(line.split(": ", 1) for line in lines[1:] if line)
    if "content-length" in headers:
        await reader.readexactly(int(headers["content-length"]))
    elif headers.get("transfer-encoding") == "chunked":
        while size := int(await reader.readline(), 16):
            await reader.readexactly(size + 2)
        await reader.readline()
    return headers.get("mcp-session-id", "")


def memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


# Production -----------------------------------------------------------------------------------------------------------

# Fails every third time. It is given the path of the part, and a directory to count in.
HOOK = """
n=1
until mkdir "$2/$n" 2>/dev/null; do n=$((n + 1)); done
test $((n % 3)) -ne 0 && exec {} push "$1" s3://team/tapes
"""
SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"value": asked["id"]}}), flush=True)
"""
FILLING = "x" * 3000


def production(parts: int) -> None:
    keep_mounts_private()
    with tempfile.TemporaryDirectory() as directory, served() as bucket:
        log, hook = Path(directory, "log"), Path(directory, "hook")
        log.mkdir()
        hook.write_text(HOOK.format(" ".join(SCRIPT)))
        os.environ.update(bucket.environ())
        with mounted(Path(directory, "small"), "3m") as place:
            said, printed = record_parts(place, parts, f"sh {hook} {{}} {log}")
        pushed = [text for data in bucket.objects.values() for text in messages(Path(directory, "part.db"), data)]
        print(f"{len(bucket.objects)} parts pushed, by {len(os.listdir(log))} runs of the hook")
        print(f"{len(said):,} messages, {len(pushed):,} pushed; lost: {len(set(said) - set(pushed))}")
        print(*(line for line in printed.splitlines() if not line.endswith("exit code 1")), sep="\n")


def record_parts(place: Path, parts: int, hook: str) -> tuple[list[str], str]:
    """Record parts on a disk that is full for a while; return the messages, and stderr."""
    options = [
        "-o",
        str(place / "t.db"),
        "--rotate",
        "30k",
        "--keep",
        "3",
        "--on-rotate",
        hook,
        "--hook-timeout",
        "900",
    ]
    command, said, ballast = [*SCRIPT, "record", *options, "--", sys.executable, "-c", SERVER], list[str](), None
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdin and process.stdout
        while (newest := max(int(one.stem[2:] or 1) for one in [*place.glob("t*.db"), Path("t.db")])) < parts:
            said.append(call(len(said), text=FILLING))
            print(said[-1], file=process.stdin, flush=True)
            said.append(process.stdout.readline().rstrip("\n"))
            if newest > parts / 2 and ballast is None:
                ballast = fill(place)
            if ballast is not None and "waiting for room" in os.pread(errors.fileno(), 1 << 20, 0).decode():
                ballast.unlink(missing_ok=True)
        process.stdin.close()
        process.wait()
        return said, os.pread(errors.fileno(), 1 << 20, 0).decode()


def messages(path: Path, data: bytes) -> Iterator[str]:
    """The messages of a pushed cassette."""
    path.write_bytes(data)
    with Cassette(path) as cassette:
        for session in cassette.sessions():
            yield from (frame.text.decode().rstrip("\n") for frame in cassette.frames(session.id))


if __name__ == "__main__":
    {"sessions": sessions, "production": production}[sys.argv[1]](int(sys.argv[2]))
