"""Recordings by other tools, made again: python -m tests.support.peers [NAME...]

A real client plays a session with a real server through each tool that can be installed. The tool's output becomes
`tests/formats/others/recordings/NAME/SERVER.*`, with the client's view in `SERVER.live.json` beside it. Some tools need
a newer Python than the tests do, named by PEERS_PYTHON. The README there has a table of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.support import provision
from tests.support.running import until
from tests.support.sdk import PROGRESSING, call
from tests.support.sdk_http import replaying, served

RECORDINGS = provision.TESTS / "formats" / "others" / "recordings"
PATIENCE = 120  # seconds
PYTHON = "mcp-rec==0.1.1 mcp-recorder==0.5.0 starlette<1 agent-vcr==0.1.0".split()
NEWER_PYTHON = ("mcp-cassette==0.4.0", "mcp-vcr==0.2.2", "mitmproxy==12.*")  # 3.12
NODE = ("mcp-time-travel@0.3.3", "mcp-flight-recorder@0.2.0")

ODD = ["python", "-m", "tests.servers.odd"]
SERVERS = {"everything": provision.SERVERS["everything"], "odd": ODD}
TOGETHER = {"do": "together", "steps": [call("echo", message="one"), PROGRESSING, call("echo", message="two")]}
STEPS = {
    "everything": [
        {"do": "tools"}, call("echo", message='Grüezi 👋 "quoted" \\ \u2028 end'), call("get-sum", a=1.5, b=1e21),
        call("no-such-tool"), call("get-structured-content", location="Chicago"), PROGRESSING,
        call("trigger-sampling-request", prompt="Say hello", maxTokens=20), {"do": "prompts"},
        {"do": "read", "uri": "demo://resource/none"}, TOGETHER,
    ],
    "odd": [
        {"do": "tools"}, *(call("odd", what=what) for what in ("numbers", "notes", "asks")),
        call("odd", what="progress") | {"progress": True}, call("odd", what="fails"), call("odd", what="refuses"),
    ],
}  # fmt: skip

PAGE_CALLS = {
    "everything": [call("echo", message=text) for text in ("from a page", "two", "drei ☃")],
    "odd": [step for step in STEPS["odd"] if step["do"] == "call"],
}
ASKING = (STEPS["everything"][6], call("odd", what="asks"))


def played(server: str, command: Sequence[str], place: Path, **more: str) -> str:
    """The client's view of a command or a URL. The client is slow on purpose, so that nothing is lost."""
    client = [sys.executable, str(provision.TESTS / "clients" / "mcp2.py"), "legacy"]
    env = environment() | {"CLIENT_STEPS": json.dumps(STEPS[server]), "CLIENT_PATIENT": "yes"} | more
    done = subprocess.run([*client, *command], cwd=place, env=env, capture_output=True, timeout=PATIENCE, check=False)
    if done.returncode:
        sys.exit(f"the client failed:\n{done.stderr.decode(errors='replace')}")
    return done.stdout.decode()


def environment() -> dict[str, str]:
    provision.node_modules()
    return provision.environment() | {"PYTHONPATH": str(provision.ROOT)}


def python_tool(name: str) -> list[str]:
    return _script(provision.venv(*PYTHON), name)


def newer_python_tool(name: str) -> list[str]:
    newer = os.environ.get("PEERS_PYTHON")
    if newer is None:
        sys.exit(f"{name} needs Python 3.12 or newer: name one by PEERS_PYTHON")
    return _script(provision.venv(*NEWER_PYTHON, interpreter=newer), name)


def _script(python: Path, name: str) -> list[str]:
    return [str(python), str(python.parent / name)]  # its first line names the place where the environment was built


def node_tool(name: str) -> str:
    return str(provision.npm(*NODE) / ".bin" / name)


# One function per tool: play the session through it; return its file and the client's view -----------------


def mcp_rec(server: str, place: Path) -> tuple[Path, str]:
    out = place / "tape.jsonl"
    return out, played(server, [*python_tool("mcp-rec"), "record", "-o", str(out), "--", *SERVERS[server]], place)


def mcp_cassette(server: str, place: Path) -> tuple[Path, str]:
    out = place / "tape.json"
    tool = [*newer_python_tool("mcp-cassette"), "record", "--cassette", str(out)]
    return out, played(server, [*tool, "--", *SERVERS[server]], place)


def mcp_vcr(server: str, place: Path, form: str = "yaml") -> tuple[Path, str]:
    out = place / f"tape.{form}"
    tool = [*newer_python_tool("mcp-vcr"), "record", "-o", str(out), "--format", form]
    return out, played(server, [*tool, "--", *SERVERS[server]], place)


def mcp_vcr_ndjson(server: str, place: Path) -> tuple[Path, str]:
    return mcp_vcr(server, place, "ndjson")


def mcp_time_travel(server: str, place: Path) -> tuple[Path, str]:
    command, *args = SERVERS[server]
    (place / "mcp.json").write_text(json.dumps({"mcpServers": {server: {"command": command, "args": args}}}))
    tool = [node_tool("mcp-time-travel"), "record", "--config", "mcp.json", "--server", server, "--session", "tape"]
    seen = played(server, [*tool, "--output", str(place)], place)
    return place / "tape", seen


def mcp_flight_recorder(server: str, place: Path) -> tuple[Path, str]:
    out = place / "tape.json"
    return out, played(
        server, [node_tool("mcp-flight-recorder"), "wrap", "--trace", str(out), "--", *SERVERS[server]], place
    )


def agent_vcr(server: str, place: Path) -> tuple[Path, str]:
    out, program = place / "tape.vcr", provision.TESTS / "support" / "agent_vcr_main.py"
    tool = [str(provision.venv(*PYTHON)), "-I", str(program), str(out)]
    return out, played(server, [*tool, *SERVERS[server]], place)


def mcp_recorder(server: str, place: Path) -> tuple[Path, str]:
    out, target = place / "tape.json", shlex.join(SERVERS[server])
    with listening(
        [*python_tool("mcp-recorder"), "record", "--target-stdio", target, "--output", str(out)], place
    ) as u:
        seen = played(server, [u], place, CLIENT_STEPS=without_requests(server), CLIENT_WITHOUT="stream")
    return out, seen


def without_requests(server: str) -> str:
    """Steps without requests of the server, which these tools would leave unanswered."""
    return json.dumps([step for step in STEPS[server] if step not in ASKING])


def mitmproxy(server: str, place: Path) -> tuple[Path, str]:
    """Between a client and its own server. It forwards a stream only when it ends, so none may stay open."""
    out = place / "tape.har"
    with served(f"{server}-http", place) as url:
        tool = [
            *newer_python_tool("mitmdump"),
            "--mode",
            f"reverse:{url.rpartition('/')[0]}",
            "--set",
            f"hardump={out}",
        ]
        with listening([*tool, "--listen-host", "127.0.0.1"], place, "--listen-port") as ours:
            seen = played(server, [ours], place, CLIENT_STEPS=without_requests(server), CLIENT_WITHOUT="stream")
    return out, seen


def chromium(server: str, place: Path) -> tuple[Path, str]:
    """A page that calls a server in a browser, among requests that are not MCP."""
    from playwright.sync_api import sync_playwright

    from tests.support.page import called

    out = place / "tape.har"
    with served(f"{server}-http", place) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=provision.chromium(), args=["--no-sandbox"])
        seen = called(browser, url, PAGE_CALLS[server], out)
    return out, json.dumps(seen)


def firefox(server: str, place: Path) -> tuple[Path, str]:
    """The same page in Firefox, by its developer tools. It must see the same in a replay."""
    from tests.support.firefox import called

    out, again = place / "tape.har", place / "again"
    again.mkdir()
    with served(f"{server}-http", place) as url:
        live = called(url, PAGE_CALLS[server], place, out)
    with replaying(out, again) as origin:
        replayed = called(f"{origin}/mcp", PAGE_CALLS[server], again)
    if replayed != live:
        sys.exit(f"a replay is something else to Firefox:\n{json.dumps(live)}\n{json.dumps(replayed)}")
    return out, json.dumps(live)


def inspector(server: str, place: Path) -> tuple[Path, str]:
    command, *args = SERVERS[server]
    return _inspected(server, {"command": command, "args": args}, place)


def inspector_network(server: str, place: Path) -> tuple[Path, str]:
    with served(f"{server}-http", place) as url:
        return _inspected(server, {"type": "streamable-http", "url": url}, place, "Network")


def _inspected(server: str, of: dict[str, Any], place: Path, tab: str = "Protocol") -> tuple[Path, str]:
    """The Inspector's export and view; it must see the same in a replay."""
    from tests.support import inspector as the

    steps = [step for step in STEPS[server] if step["do"] == "call" and step["name"] != "no-such-tool"]
    with the.opened(of, place, free_port()) as page:
        the.play(page, steps)
        live, out = the.seen(page, place), the.exported(page, tab, place / "tape.json")
    tape = {"command": sys.executable, "args": ["-m", "mcp_tape", "replay", str(out)]}
    with the.opened(tape, place, free_port()) as page:
        the.play(page, steps)
        replayed = the.seen(page, place)
    if replayed != live:
        sys.exit(f"a replay is something else to the Inspector:\n{json.dumps(live)}\n{json.dumps(replayed)}")
    return out, json.dumps(live)


@contextlib.contextmanager
def listening(command: Sequence[str], place: Path, port_option: str = "--port") -> Iterator[str]:
    port = free_port()
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, port_option, str(port)], cwd=place, env=environment(), stdout=log, stderr=log
        )
        try:
            until(lambda: answers(port) or process.poll() is not None, "the tool to listen")
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE)


def free_port() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def answers(port: int) -> bool:
    import socket

    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


TOOLS: dict[str, Callable[[str, Path], tuple[Path, str]]] = {
    "mcp-rec": mcp_rec,
    "mcp-cassette-python": mcp_cassette,
    "mcp-vcr": mcp_vcr,
    "mcp-vcr-ndjson": mcp_vcr_ndjson,
    "mcp-time-travel": mcp_time_travel,
    "mcp-flight-recorder": mcp_flight_recorder,
    "mcp-recorder": mcp_recorder,
    "agent-vcr": agent_vcr,
    "mitmproxy": mitmproxy,
    "chromium": chromium,
    "firefox": firefox,
    "inspector": inspector,
    "inspector-network": inspector_network,
}


def main(names: Sequence[str]) -> None:
    for name in names or TOOLS:
        for server in SERVERS:
            with tempfile.TemporaryDirectory() as directory:
                made, seen = TOOLS[name](server, Path(directory))
                keep(made, RECORDINGS / name / f"{server}{made.suffix}")
                (RECORDINGS / name / f"{server}.live.json").write_text(json.dumps(json.loads(seen)) + "\n")


def keep(made: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if made.is_dir():
        shutil.copytree(made, place, dirs_exist_ok=True)
    else:
        shutil.copyfile(made, place)


if __name__ == "__main__":
    main(sys.argv[1:])
