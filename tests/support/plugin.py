"""A user's pytest suite, run for real: its tests call a small live server through their tapes."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

# Loaded once: a run within this process forgets its imports, and httpx2 knows the errors of one httpcore2 only.
import httpcore2  # noqa: F401
import pytest

from mcp_tape import pytest_plugin
from tests.support import warm
from tests.support.decks import Said, make_cassette
from tests.support.running import WAIT
from tests.support.suites import NEEDED, PLUGINS, python, quick

for _name in NEEDED:
    importlib.import_module(_name)  # also once

# Each start adds a line to a file, and answers contain its number: a live answer differs from a recorded one.
SERVER = """
import json, sys

with open(__file__.replace("server.py", "starts.log"), "a+") as log:
    log.write("started\\n")
    log.seek(0)
    start = len(log.readlines())
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        name = message.get("params", {}).get("name", "hello")
        answer = {"value": f"{name} {start}"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
"""
# Imported by the tests in the suite. Error codes replace answers, as in an agent that swallows errors.
ASK = """
import json, subprocess

def ask(tape, *tools, **arguments):
    with subprocess.Popen(tape.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        said = [send(server, 0, "initialize", protocolVersion="2025-11-25")]
        said += [send(server, n, "tools/call", name=t, arguments=arguments) for n, t in enumerate(tools, 1)]
        server.stdin.close()
        server.stdout.read()
    return said[1:]

def send(server, number, method, **params):
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    server.stdin.write(json.dumps(message).encode() + b"\\n")
    server.stdin.flush()
    answer = json.loads(server.stdout.readline())
    return answer["result"]["value"] if "result" in answer else answer["error"]["code"]
"""
CONFTEST = """
import pathlib, sys
import pytest

SERVER = [sys.executable, "-I", "-S", str(pathlib.Path(__file__).with_name("server.py"))]

@pytest.fixture(scope="session")
def mcp_tape_config():
    return {"server": SERVER}
"""
ASYNCIO = ("-ppytest_asyncio.plugin", "-oasyncio_default_fixture_loop_scope=function")  # for tests that are coroutines
# Other plugins, which load slowly and hide what ours loads.
OTHERS = ("anyio", "asyncio", "hypothesispytest", "recording")
WITHOUT_OTHERS = [f"-pno:{name}" for name in OTHERS]
INI = """
[pytest]
addopts = -p no:cacheprovider
filterwarnings =
    default
    ignore:Module already imported so cannot be rewritten
"""


def _message(**body: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", **body})


class Suite:
    """A directory of tests, and the files that running them leaves."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path = pytester.path
        self.write("server.py", SERVER)
        self.write("ask.py", ASK)
        self.write("conftest.py", CONFTEST)
        self.write("pytest.ini", INI)

    def write(self, name: str, text: str) -> None:
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).write_text(text, "utf-8")

    def test(self, text: str, name: str = "test_it.py") -> None:
        """A file of tests."""
        self.write(name, f"import pytest\nfrom ask import ask\n\n{text}")

    def add(self, name: str, text: str) -> None:
        self.write(name, (self.path / name).read_text("utf-8") + text)

    def config(self, *options: str) -> pytest.Config:
        with quick():
            self.pytester.plugins.append(pytest_plugin)
            return self.pytester.parseconfigure(*options)

    def run(self, *options: str, cwd: str = ".") -> pytest.RunResult:
        """Run in this process."""
        with quick() as patch:
            patch.chdir(self.path / cwd)
            patch.setattr(sys, "executable", python())
            return self.pytester.runpytest_inprocess(*options, plugins=[pytest_plugin])

    def run_apart(self, *options: str) -> pytest.RunResult:
        """Run in another process."""
        command = [*warm.command(sys.executable, "-m", NEEDED), "pytest"]
        with quick() as patch:
            patch.setenv("PYTEST_PLUGINS", ",".join(PLUGINS))
            patch.setenv("WARM_PYTHON", python())
            return self.pytester.run(*command, *options, timeout=WAIT)

    def passes(self, *options: str, **counts: int) -> pytest.RunResult:
        """Run, and expect no failure."""
        result = self.run(*options)
        result.assert_outcomes(**(counts or {"passed": 1}))
        return result

    def record(self, name: str, *tools: str) -> None:
        """Make a cassette as a run would have recorded it; the answers are those of the first start."""
        path = self.path / "cassettes" / f"{name}.db"
        path.parent.mkdir(parents=True, exist_ok=True)
        asked = [("initialize", {})] + [("tools/call", {"name": tool, "arguments": {}}) for tool in tools]
        said: list[Said] = []
        for number, (method, params) in enumerate(asked):
            said.append(("client", _message(id=number, method=method, params=params)))
            said.append(("server", _message(id=number, result={"value": f"{params.get('name')} 1"})))
        make_cassette(path, said)
        self.write("starts.log", "started\n")

    def starts(self) -> int:
        """The number of starts of the live server."""
        log = self.path / "starts.log"
        return len(log.read_text().splitlines()) if log.exists() else 0

    def cassettes(self) -> dict[str, bytes]:
        """The files in directories of cassettes by path, including any leftovers."""
        files = (path for path in self.path.rglob("*") if path.is_file() and "cassettes" in path.parts)
        return {str(path.relative_to(self.path)): path.read_bytes() for path in files}

    def cassette(self) -> Path:
        """The only cassette."""
        (name,) = self.cassettes()
        return self.path / name
