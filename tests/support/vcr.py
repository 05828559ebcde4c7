"""`mcp-tape use`, repeatedly: one cassette, and a live server that counts."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.messages import lines, request, tell
from tests.support.running import (
    MCP_TAPE,
    python,
    run,
)

# Counts its calls, so that a live answer differs from a replayed one; logs its input.
SERVER = """
import json, sys
calls = 0
for line in sys.stdin:
    with open(sys.argv[1], "a") as log:
        log.write(line)
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    calls += 1
    say = lambda **body: print(json.dumps({"jsonrpc": "2.0"} | body), flush=True)
    params = message.get("params", {})
    if params.get("name") == "ask":
        say(id=1, method="roots/list")
        answer = json.loads(sys.stdin.readline())
        say(id=message["id"], result={"value": answer["result"]})
    elif params.get("name") == "slow":
        say(method="notifications/progress", params={"progressToken": params["_meta"]["progressToken"], "progress": 1})
        say(id=message["id"], result={"value": "slow"})
    elif params.get("name") == "die":
        sys.exit(5)
    else:
        say(id=message["id"], result={"value": [message["method"], calls]})
"""
INITIALIZE = request(0, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "c"})
HELLO = lines(INITIALIZE, tell("notifications/initialized"))


class Vcr:
    """One cassette and one server, used repeatedly."""

    def __init__(self, directory: Path) -> None:
        self.tape = directory / "tape.db"
        self.log = directory / "server.log"
        self.server = SERVER

    def command(self, mode: str, *options: str) -> list[str]:
        return [*MCP_TAPE, "use", str(self.tape), "--mode", mode, *options, "--", *python(self.server), str(self.log)]

    def run(self, mode: str, script: bytes, *options: str) -> subprocess.CompletedProcess[bytes]:
        return run(self.command(mode, *options), script)

    def heard(self) -> list[str]:
        """The live server's input."""
        return self.log.read_text().splitlines() if self.log.exists() else []
