"""Spans sent to Phoenix, a real receiver of OTLP, and read back: python -m tests.support.receivers

It takes a gigabyte and Python 3.12 or newer, named by PEERS_PYTHON, so no test runs it. Phoenix listens for gRPC on
every address, so both run in a private network (`unshare`, `ip`: Linux only), which no other process can reach.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcp_tape.cassette.reader import Cassette
from tests.support import provision
from tests.support.running import WAIT, until

PACKAGE = "arize-phoenix==20.*"
URL = "http://127.0.0.1:6006"
CASSETTE = provision.ROOT / "cassettes" / "everything.db"


def get(path: str) -> Any:
    with urllib.request.urlopen(URL + path, timeout=WAIT) as answer:
        return json.load(answer)


def stored() -> list[Any]:
    return list(get("/v1/projects/default/spans?limit=1000")["data"])


def is_up() -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(URL + "/healthz", timeout=5):
        return True
    return False


@contextlib.contextmanager
def phoenix() -> Iterator[None]:
    python = provision.venv(PACKAGE, interpreter=os.environ["PEERS_PYTHON"])
    with tempfile.TemporaryDirectory() as place, Path(place, "log").open("wb") as log:
        env = os.environ | {"PHOENIX_HOST": "127.0.0.1", "PHOENIX_WORKING_DIR": place}
        command = [str(python), str(python.parent / "phoenix"), "serve"]
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        try:
            until(lambda: is_up() or process.poll() is not None, "Phoenix to listen")
            yield
        finally:
            process.terminate()
            process.wait(WAIT)


def main() -> None:
    with Cassette(CASSETTE) as cassette:
        calls = len(cassette.exchanges(1))
    with phoenix():
        tape = [sys.executable, "-m", "mcp_tape", "convert", str(CASSETTE), URL, "--with-content"]
        subprocess.run(tape, check=True)
        until(lambda: len(stored()) >= calls, "Phoenix to store them")
        spans = stored()
    names = {span["name"] for span in spans}
    echo = next(span for span in spans if span["name"] == "tools/call echo")["attributes"]
    assert "tools/call get-sum" in names and "initialize" in names, names
    # Phoenix's reading of the conventions: a call of a tool by its name, with arguments.
    assert echo["tool.name"] == "echo" and "message" in json.dumps(echo), echo
    print(f"Phoenix has {len(spans)} spans, {len(names)} kinds of them; echo: {echo}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--inside"]:
        main()
    else:
        if "PEERS_PYTHON" not in os.environ:
            sys.exit("Phoenix needs Python 3.12 or newer: name one by PEERS_PYTHON")
        provision.venv(PACKAGE, interpreter=os.environ["PEERS_PYTHON"])  # while there is a network
        inside = f"ip link set lo up && exec {sys.executable} -m tests.support.receivers --inside"
        sys.exit(subprocess.run(["unshare", "--net", "--map-root-user", "sh", "-c", inside]).returncode)
