"""The architecture page matches the code, and its walks match real runs."""

from __future__ import annotations

import http.client
import json
import re
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_tape.demo import server as demo
from tests.support.docs import DOCS, ROOT
from tests.support.golden import path_of
from tests.support.running import WAIT, receive_line, run, started

PLAN = (DOCS / "architecture.md").read_text("utf-8")
GUIDE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
PLACES = (
    "mcp_tape",
    ".",
    "mcp_tape/transports",
    "mcp_tape/replay",
    "mcp_tape/compare",
    "mcp_tape/cassette",
    "mcp_tape/cli",
    "tests",
)


def test_the_plan_names_every_room_and_file_at_the_top() -> None:
    drawn = re.findall(r"^  (\w+(?:\.py|/)) {2,}\w", PLAN, re.M)
    there = [path for path in (ROOT / "mcp_tape").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    assert sorted(drawn) == sorted(f"{path.name}/" if path.is_dir() else path.name for path in there)


def test_every_file_that_is_named_is_there() -> None:
    named = set(re.findall(r"(?<![\w/.:-])([a-z_]+(?:/[a-z_]+)*(?:\.py\b|/))", PLAN + GUIDE))
    assert {"replay/deck.py", "cassette/schema.py", "wire/"} <= named
    missing = {name for name in named if not any((ROOT / place / name).exists() for place in PLACES)}
    assert missing == set()


def test_the_five_walks_and_every_kind_of_change_are_there() -> None:
    walks = re.search(r"^## Five walks\n(.*?)^## ", PLAN, re.S | re.M)
    changes = re.search(r"^## Where do I change what\n(.*)", PLAN, re.S | re.M)
    assert walks and len(re.findall(r"^### ", walks[1], re.M)) == 5
    assert changes and len(re.findall(r"^\| (?!change |---)", changes[1], re.M)) == 16


# Walks --------------------------------------------------------------------------------------------------

PACKAGE = ROOT / "mcp_tape"
SERVER = [sys.executable, demo.__file__]
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "walker", "version": "1"}}
TALK = [
    {"id": 1, "method": "initialize", "params": HELLO},
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/list"},
]
TEXTS = [json.dumps({"jsonrpc": "2.0", **message}).encode() for message in TALK]
SAID = b"".join(text + b"\n" for text in TEXTS)
MISS = SAID.replace(b"tools/list", b"prompts/list")
SUITE = """
import os, subprocess

import anyio
import pytest

pytestmark = pytest.mark.mcp_tape(server={server!r}, mode="once")
REPLAYS = os.path.exists("cassettes")

def ask(tape, text={texts!r}):
    subprocess.run(tape.command, input=text, stdout=subprocess.DEVNULL, check=True)

@pytest.mark.mcp_tape(name="shared")
def test_with_a_command(mcp_tape):
    ask(mcp_tape)

@pytest.mark.mcp_tape(name="shared")
def test_with_another(mcp_tape):
    ask(mcp_tape)

def test_with_streams(mcp_tape):
    async def connect():
        async with mcp_tape.streams():
            pass
    anyio.run(connect) if REPLAYS else ask(mcp_tape)

def test_with_a_miss(mcp_tape):
    ask(mcp_tape, {miss!r} if REPLAYS else {texts!r})
"""


class Walker:
    """A directory with a log of the files that commands cross."""

    def __init__(self, place: Path, log: str = "crossed.log") -> None:
        self.place = place
        self._log = place / log
        self.python = [sys.executable, str(ROOT / "tests" / "clients" / "crossed.py"), str(self._log), str(PACKAGE)]
        self.mcp_tape = [*self.python, "-m", "mcp_tape"]

    def files(self) -> set[str]:
        return set(self._log.read_text().split())

    def record(self) -> None:
        done = run([*self.mcp_tape, "record", "-o", "tape.db", "--", *SERVER], SAID, cwd=self.place)
        assert done.returncode == 0, done.stderr

    def replay(self) -> None:
        done = run([*self.mcp_tape, "replay", "tape.db"], SAID, cwd=self.place)
        assert done.returncode == 0 and done.stdout.count(b"\n") == 2, done.stderr

    def replay_over_http(self) -> None:
        command = [*self.mcp_tape, "replay", "tape.db", "--listen", "127.0.0.1:0"]
        with started(command, cwd=self.place) as process:
            assert process.stdout
            _, _, address = receive_line(process.stdout).decode().strip().partition("//")
            host, _, path = address.partition("/")
            client = http.client.HTTPConnection(host, timeout=WAIT)
            headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
            for text in TEXTS:
                client.request("POST", f"/{path}", text, headers)
                response = client.getresponse()
                assert response.status in (200, 202) and response.read() is not None
                headers["Mcp-Session-Id"] = response.headers.get("Mcp-Session-Id") or headers["Mcp-Session-Id"]
            client.close()
            process.send_signal(signal.SIGTERM)
            process.wait(WAIT)

    def diff(self) -> None:
        diff = [*self.mcp_tape, "diff", "tape.db", "--fail-on", "never"]
        for words in ([str(path_of("time"))], ["--format", "html", "--", *SERVER]):
            done = run([*diff, *words], cwd=self.place)
            assert done.returncode == 0, done.stderr

    def test(self) -> None:
        (self.place / "test_it.py").write_text(SUITE.format(server=SERVER, texts=SAID, miss=MISS))
        python = self.place / "python"
        python.write_text(f'#!/bin/sh\nexec {shlex.join(self.python)} "$@"\n')
        python.chmod(0o755)
        (self.place / "conftest.py").write_text(f"import sys\nsys.executable = {str(python)!r}\n")
        for failed in (0, 1):  # recorded, and then replayed
            done = run([*self.python, "-m", "pytest", "-p", "no:cacheprovider"], cwd=self.place)
            assert (done.returncode, b"1 failed" in done.stdout) == (failed, bool(failed)), done.stdout


WALKS: dict[str, Callable[[Walker], None]] = {
    "A recorded stdio frame": Walker.record,
    "A replayed request over stdio": Walker.replay,
    "A replayed request over HTTP": Walker.replay_over_http,
    "A diff": Walker.diff,
    "A pytest-marked test": Walker.test,
}


def named(text: str) -> set[str]:
    """The files and folders of the package that a text names, by their paths."""
    found = set()
    for name in re.findall(r"(?<![\w/.:])((?:[a-z_]+/)*(?:[a-z_]+\.py|[a-z_]+/))(?=[^\w/]|$)", text):
        paths = [PACKAGE / place / name for place in ("", "transports")]
        found |= {path.relative_to(PACKAGE).as_posix() + "/" * path.is_dir() for path in paths if path.exists()}
    return found


def is_named(file: str, names: set[str]) -> bool:
    return file in names or any(name.endswith("/") and file.startswith(name) for name in names)


@pytest.mark.slow(quick=3)
@pytest.mark.parametrize("title", WALKS)
def test_a_walk_crosses_the_files_that_it_names_and_no_others(tmp_path: Path, title: str) -> None:
    everywhere = named(PLAN.partition("\nAll walks also cross ")[2].partition("\n\n")[0])
    walk = re.search(rf"^### {title}\n\n```text\n(.*?)^```\n(.*?)(?=^##)", PLAN, re.S | re.M)
    assert walk
    drawn, also = named(walk[1]), named(walk[2].partition("\nAlso crossed:")[2])
    assert len(drawn) >= 5
    walker = Walker(tmp_path)
    if title != "A recorded stdio frame":
        Walker(tmp_path, "before.log").record()
    WALKS[title](walker)
    crossed = walker.files()
    assert {file for file in crossed if not is_named(file, drawn | also | everywhere)} == set()
    assert {name for name in drawn | also if not any(is_named(file, {name}) for file in crossed)} == set()
