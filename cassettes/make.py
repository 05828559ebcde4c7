"""Remakes the golden cassettes: python cassettes/make.py [NAME...]

Runs real clients against real servers through the recorder. Needs the environment of the tests
(pip install -e '.[test]'), Node and git.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from mcp_tape.cassette.reader import Cassette  # noqa: E402 (found only after the line above)
from tests.support import provision  # noqa: E402 (found only after the line above)

PATIENCE = 120  # seconds
DEMO_CLIENT = "import sys; from mcp_tape.demo import client; client.play(sys.argv[1:])"

# The client program, and the server's command as the cassette shall show it.
SDK = {
    "time": ("mcp2-legacy", "time"),
    "time-modern": ("mcp2-auto", "time"),
    "git": ("mcp2-legacy", "git"),
    "everything": ("mcp2-legacy", "everything"),
    "everything-ts2": ("ts2-auto", "everything"),
}
BY_HAND = ("batch", "modern", "cancelled", "noisy")


def main(names: Sequence[str]) -> None:
    for name in names or ("demo", *BY_HAND, *SDK):
        with tempfile.TemporaryDirectory() as directory:
            built = Path(directory) / f"{name}.db"
            make(name, built)
            check(built)
            (HERE / built.name).write_bytes(built.read_bytes())
            text = HERE / "text" / f"{name}.jsonl"
            subprocess.run(["mcp-tape", "convert", "--force", built, text], env=provision.environment(), check=True)


def make(name: str, cassette: Path) -> None:
    recorder = ["mcp-tape", "record", "-o", str(cassette), "--note", f"golden: {name}", "--"]
    if name in SDK:
        client, server = SDK[name]
        if provision.needs_node(client, server):
            provision.node_modules()
        provision.git_repository(cassette.parent)
        # In a directory of its own, so that nothing of this machine gets on the tape.
        play([*provision.client(client), *recorder, *provision.SERVERS[server]], cassette.parent)
    elif name in BY_HAND:
        server_command = ["python", "-m", "tests.servers.scripted", "server", name]
        play([sys.executable, "-m", "tests.servers.scripted", "client", name, *recorder, *server_command], HERE.parent)
    else:
        play([sys.executable, "-c", DEMO_CLIENT, *recorder, "python", "-m", "mcp_tape.demo.server"], HERE.parent)


def check(cassette: Path) -> None:
    with Cassette(cassette) as tape:
        for session in tape.sessions():
            if session.incomplete:
                sys.exit(f"{cassette.name} was left as it is: {session.incomplete}")


def play(command: Sequence[str], cwd: Path) -> None:
    subprocess.run(
        command, cwd=cwd, env=provision.environment(), stdout=subprocess.DEVNULL, timeout=PATIENCE, check=True
    )


if __name__ == "__main__":
    main(sys.argv[1:])
