"""Client programs of the SDKs over HTTP, with listening servers, recorders and replays."""

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
    output: bytes  # the client's output with it
    direct: bytes = b""  # and without a recorder, if that was tried


@contextlib.contextmanager
def served(name: str, place: Path) -> Iterator[str]:
    """The URL of a running server."""
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
    """The address that a server printed."""
    said = re.search(r"^http://\S+$\n", (place / "stdout").read_text(), re.MULTILINE)
    return said[0].strip() if said else ""


@contextlib.contextmanager
def listening(command: Sequence[str], place: Path, **more: Any) -> Iterator[str]:
    """The URL that an mcp-tape prints. It is stopped on exit, and must end without an error."""
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
    """The origin of a replay that can reach no server; it may miss nothing."""
    nowhere, report = provision.nowhere(place / "nowhere"), place / "report"
    command = [*provision.alone(place / "codes"), "replay", str(tape), "--listen", "127.0.0.1:0"]
    with listening([*command, "--report", str(report), *options], place, env=nowhere) as url:
        yield url.removesuffix("/mcp")
    facts = {json.loads(line)["what"] for line in report.read_text().splitlines()}
    assert "played" in facts and not facts & {"miss", "note"}, (place / "stderr").read_text()
    assert " 0 missed" in (place / "stderr").read_text()


def replayed(program: Sequence[str], tape: Path, place: Path, path: str, *options: str, **client: str) -> bytes:
    """The output of a client with a replay, over the transport of the path."""
    place.mkdir()
    # Over HTTP+SSE the TypeScript SDKs lose progress that shares a read with the response, from live servers too.
    patience = {"CLIENT_PATIENT": "yes"} if path == "/sse" else {}
    with replaying(tape, place, *options) as url:
        return printed([*program, url + path], client | patience)


def printed(command: Sequence[str], environment: dict[str, str]) -> bytes:
    done = run(command, env=provision.environment() | environment)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout


def live_environment(server: str) -> dict[str, str]:
    """The same for a client that is slow on purpose, so that nothing is lost."""
    return scripted(server) | {"CLIENT_PATIENT": "yes"}


def both(*work: Callable[[], bytes]) -> list[bytes]:
    """The output of programs that run at the same time."""
    with ThreadPoolExecutor(len(work)) as pool:
        return [future.result() for future in [pool.submit(each) for each in work]]
