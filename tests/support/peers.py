"""Recordings made by others' tools, remade: python -m tests.support.peers [NAME...]

A real client plays a session at a real server through each tool that can be installed, and what the tool wrote becomes
`tests/formats/others/recordings/NAME/SERVER.*`; `SERVER.live.json` beside it is what the client saw. Some
need a newer Python than the tests do: they run under the one named by PEERS_PYTHON. The recordings of mcp-cassette and
mcp-vcr that are there were made under 3.11, which both declare too old, with the syntax of 3.12 taken out of the first.
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

from tests.support import provision
from tests.support.running import until
from tests.support.sdk import PROGRESSING, call
from tests.support.sdk_http import served

RECORDINGS = provision.TESTS / "formats" / "others" / "recordings"
PATIENCE = 120  # seconds
PYTHON = "mcp-rec==0.1.1 mcp-recorder==0.5.0 starlette<1".split()
NEWER_PYTHON = ("mcp-cassette==0.4.0", "mcp-vcr==0.2.2")  # 3.12
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

ASKING = (STEPS["everything"][6], call("odd", what="asks"))


def played(server: str, command: Sequence[str], place: Path, **more: str) -> str:
    """What the client saw of a command or a URL. It takes its time, so that nothing is lost."""
    client = [sys.executable, str(provision.TESTS / "clients" / "mcp2.py"), "legacy"]
    env = environment() | {"CLIENT_STEPS": json.dumps(STEPS[server]), "CLIENT_PATIENT": "yes"} | more
    done = subprocess.run([*client, *command], cwd=place, env=env, capture_output=True, timeout=PATIENCE, check=False)
    if done.returncode:
        sys.exit(f"the client failed:\n{done.stderr.decode(errors='replace')}")
    return done.stdout.decode()


def environment() -> dict[str, str]:
    provision.node_modules()
    return provision.environment() | {"PYTHONPATH": str(provision.ROOT)}


def python_tool(name: str) -> str:
    return str(provision.venv(*PYTHON).parent / name)


def newer_python_tool(name: str) -> str:
    newer = os.environ.get("PEERS_PYTHON")
    if newer is None:
        sys.exit(f"{name} needs Python 3.12: install {' '.join(NEWER_PYTHON)} there, and name it by PEERS_PYTHON")
    return str(Path(newer).parent / name)


def node_tool(name: str) -> str:
    place = provision.CACHE / f"peers-{provision.digest(*NODE)}"
    if not place.exists():
        with provision.aside() as built:
            provision.run_to_end(["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", *NODE], built)
            provision.move(built, place)
    return str(place / "node_modules" / ".bin" / name)


# One function a tool: play the session through it, and return its file and what the client saw ---------------


def mcp_rec(server: str, place: Path) -> tuple[Path, str]:
    out = place / "tape.jsonl"
    return out, played(server, [python_tool("mcp-rec"), "record", "-o", str(out), "--", *SERVERS[server]], place)


def mcp_cassette(server: str, place: Path) -> tuple[Path, str]:
    out = place / "tape.json"
    tool = [newer_python_tool("mcp-cassette"), "record", "--cassette", str(out)]
    return out, played(server, [*tool, "--", *SERVERS[server]], place)


def mcp_vcr(server: str, place: Path, form: str = "yaml") -> tuple[Path, str]:
    out = place / f"tape.{form}"
    tool = [newer_python_tool("mcp-vcr"), "record", "-o", str(out), "--format", form]
    return out, played(server, [*tool, "--", *SERVERS[server]], place)


def mcp_vcr_ndjson(server: str, place: Path) -> tuple[Path, str]:
    return mcp_vcr(server, place, "ndjson")


def mcp_time_travel(server: str, place: Path) -> tuple[Path, str]:
    command, *args = SERVERS[server]
    env = {"PYTHONPATH": str(provision.ROOT)}
    (place / "mcp.json").write_text(
        json.dumps({"mcpServers": {server: {"command": command, "args": args, "env": env}}})
    )
    tool = [node_tool("mcp-time-travel"), "record", "--config", "mcp.json", "--server", server, "--session", "tape"]
    seen = played(server, [*tool, "--output", str(place)], place)
    return place / "tape", seen


def mcp_flight_recorder(server: str, place: Path) -> tuple[Path, str]:
    out = place / "tape.json"
    return out, played(
        server, [node_tool("mcp-flight-recorder"), "wrap", "--trace", str(out), "--", *SERVERS[server]], place
    )


def mcp_recorder(server: str, place: Path) -> tuple[Path, str]:
    out, target = place / "tape.json", shlex.join(SERVERS[server])
    with listening([python_tool("mcp-recorder"), "record", "--target-stdio", target, "--output", str(out)], place) as u:
        seen = played(server, [u], place, CLIENT_STEPS=without_requests(server), CLIENT_WITHOUT="stream")
    return out, seen


def without_requests(server: str) -> str:
    """Steps in which the server asks nothing: these tools would leave it without an answer."""
    return json.dumps([step for step in STEPS[server] if step not in ASKING])


def mitmproxy(server: str, place: Path) -> tuple[Path, str]:
    """Between a client and the reference server. It passes streams on when they end: none may stay open."""
    out = place / "tape.har"
    with served("everything-http", place) as url:
        tool = [mitmdump(), "--mode", f"reverse:{url.rpartition('/')[0]}", "--set", f"hardump={out}"]
        with listening([*tool, "--listen-host", "127.0.0.1"], place, "--listen-port") as ours:
            seen = played(server, [ours], place, CLIENT_STEPS=without_requests(server), CLIENT_WITHOUT="stream")
    return out, seen


def chromium(server: str, place: Path) -> tuple[Path, str]:
    """A page that calls the reference server by itself, among requests that are not MCP, in a browser."""
    from playwright.sync_api import sync_playwright

    out = place / "tape.har"
    with served("everything-http", place) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=provision.chromium(), args=["--no-sandbox"])
        context = browser.new_context(record_har_path=out, record_har_content="embed", bypass_csp=True)
        page = context.new_page()
        page.goto(url.replace("/mcp", "/nowhere"))
        seen = page.evaluate(PAGE, url)
        context.close()
        browser.close()
    return out, json.dumps(seen)


PAGE = """async url => {
    const headers = {"content-type": "application/json", accept: "application/json, text/event-stream"};
    const post = async body => {
        const response = await fetch(url, {method: "POST", headers, body: JSON.stringify({jsonrpc: "2.0", ...body})});
        const session = response.headers.get("mcp-session-id");
        if (session) headers["mcp-session-id"] = session;
        const text = await response.text();
        return [...text.matchAll(/^data: (.+)$/gm)].map(found => JSON.parse(found[1])).find(said => "result" in said);
    };
    const params = {protocolVersion: "2025-11-25", capabilities: {}, clientInfo: {name: "page", version: "1"}};
    const seen = [await post({id: 0, method: "initialize", params})];
    await post({method: "notifications/initialized"});
    await fetch(url.replace("/mcp", "/favicon.ico"));
    const call = (id, message) => post({id, method: "tools/call", params: {name: "echo", arguments: {message}}});
    seen.push(await call(1, "from a page"), ...await Promise.all([call(2, "two"), call(3, "drei ☃")]));
    return seen;
}"""


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


def mitmdump() -> str:
    return str(provision.venv("mitmproxy==12.*").parent / "mitmdump")


TOOLS: dict[str, Callable[[str, Path], tuple[Path, str]]] = {
    "mcp-rec": mcp_rec,
    "mcp-cassette-python": mcp_cassette,
    "mcp-vcr": mcp_vcr,
    "mcp-vcr-ndjson": mcp_vcr_ndjson,
    "mcp-time-travel": mcp_time_travel,
    "mcp-flight-recorder": mcp_flight_recorder,
    "mcp-recorder": mcp_recorder,
    "mitmproxy": mitmproxy,
    "chromium": chromium,
}
PLAYED = {"mitmproxy": ("everything",), "chromium": ("everything",)}  # others record both servers


def main(names: Sequence[str]) -> None:
    for name in names or TOOLS:
        for server in PLAYED.get(name, SERVERS):
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
