"""Client programs of the SDKs over HTTP: servers, recorders and replays that listen meanwhile."""

from __future__ import annotations

import contextlib
import json
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tests.support import provision
from tests.support.http_steps import scripted
from tests.support.running import MCP_TAPE, WAIT, receive, receive_line, run, started, until


class Recording(NamedTuple):
    tape: Path
    output: bytes  # what the client printed of it
    direct: bytes = b""  # and without a recorder, where that was tried


@contextlib.contextmanager
def served(name: str, place: Path) -> Iterator[str]:
    """The URL of a server that runs meanwhile."""
    command = provision.http_server(name)
    with (
        (place / "stdout").open("wb") as stdout,
        (place / "stderr").open("wb") as stderr,
        started(command, stdout=stdout, stderr=stderr, cwd=place) as process,
    ):
        until(lambda: process.poll() is not None or origin(place), f"{name} to listen")
        yield origin(place) + provision.HTTP_SERVERS[name]
        assert process.poll() is None, (place / "stderr").read_text()


def origin(place: Path) -> str:
    """Where a server said that it listens."""
    said = re.search(r"^http://\S+$\n", (place / "stdout").read_text(), re.MULTILINE)
    return said[0].strip() if said else ""


@contextlib.contextmanager
def listening(command: Sequence[str], place: Path, **more: Any) -> Iterator[str]:
    """The URL that an mcp-tape prints; told to end at the end, which it is to do without complaint."""
    with (place / "stderr").open("wb") as stderr, started(command, stderr=stderr, **more) as process:
        assert process.stdout
        line = receive_line(process.stdout).decode()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\w+\n", line), (place / "stderr").read_text()
        yield line.strip()
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT) == 0, (place / "stderr").read_text()
        assert receive(process.stdout) == b""


def recorder(tape: Path, url: str) -> contextlib.AbstractContextManager[str]:
    return listening([*MCP_TAPE, "record", "--url", url, "-o", str(tape)], tape.parent)


@contextlib.contextmanager
def replaying(tape: Path, place: Path, *options: str) -> Iterator[str]:
    """The origin of a replay that can reach no server; nothing may be missed."""
    nowhere, report = provision.nowhere(place / "nowhere"), place / "report"
    command = [*provision.alone(place / "codes"), "replay", str(tape), "--listen", "127.0.0.1:0"]
    with listening([*command, "--report", str(report), *options], place, env=nowhere) as url:
        yield url.removesuffix("/mcp")
    facts = {json.loads(line)["what"] for line in report.read_text().splitlines()}
    assert "played" in facts and not facts & {"miss", "note"}, (place / "stderr").read_text()
    assert " 0 missed" in (place / "stderr").read_text()


def replayed(program: Sequence[str], tape: Path, place: Path, path: str, *options: str, **client: str) -> bytes:
    """What a client prints of a replay, over the transport that is served at the path."""
    place.mkdir()
    # Over HTTP+SSE the TypeScript SDKs lose progress that shares a read with the response, of live servers too.
    patience = {"CLIENT_PATIENT": "yes"} if path == "/sse" else {}
    with replaying(tape, place, *options) as url:
        return printed([*program, url + path], client | patience)


def printed(command: Sequence[str], environment: dict[str, str]) -> bytes:
    done = run(command, env=provision.environment() | environment)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout


def live_environment(server: str) -> dict[str, str]:
    """The same for a client that takes its time, so that it loses nothing."""
    return scripted(server) | {"CLIENT_PATIENT": "yes"}


def both(*work: Callable[[], bytes]) -> list[bytes]:
    """What two programs print that run at the same time."""
    with ThreadPoolExecutor(len(work)) as pool:
        return [future.result() for future in [pool.submit(each) for each in work]]
