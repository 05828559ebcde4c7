"""The clients of the official SDKs log in at a strict server, through the recorder, and at the replay of that."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support import provision
from tests.support.http import ask
from tests.support.http_running import INITIALIZED, call, listening, recording, replaying
from tests.support.running import (
    MCP_TAPE,
    WAIT,
    in_background,
    receive,
    receive_line,
    record,
    run,
    send,
    started,
    until,
)

CLIENTS = ("mcp1", "mcp2", "ts1", "ts2")
SERVER = Path(__file__).parents[2] / "servers" / "guarded.py"
# How the server is strict. The second counts uses, so that tokens end whatever clients think.
MANNERS = {"same": ("--uses", "100"), "apart": ("--apart", "--issuer", "--uses", "4")}
STEPS = (b"logged in", b"a token")


def leaks(secrets: Path, *texts: bytes) -> list[str]:
    """The secrets that a text contains, as they are or in base64."""
    issued = secrets.read_text().split()
    assert len(issued) > 4
    return [secret for secret in issued for text in texts if any(one in text for one in spellings(secret))]


def spellings(secret: str) -> Iterator[bytes]:
    yield secret.encode()
    for before in range(3):  # bytes that precede the secret in a group of three
        coded = b64encode(b"\0" * before + secret.encode())
        yield coded[4 * (before > 0) : -4]


# What people make of a recording, by file name.
OUTPUTS = ("jsonl", "txt", "md", "har", "otlp.json", "perfetto.json", "html", "copy.db")


def written_outputs(tape: Path, place: Path) -> list[bytes]:
    """All that the commands print and write about a tape."""
    commands = [("show", "--all"), ("show", "--json", "--all"), ("ls", "--json"), ("stats",), ("check", "--audit")]
    printed = [run([*MCP_TAPE, name, str(tape), *options]) for name, *options in commands]
    printed.append(run([*MCP_TAPE, "query", str(tape), "select * from frames"]))
    for form in OUTPUTS:
        done = run([*MCP_TAPE, "convert", str(tape), str(place / f"made.{form}")])
        assert done.returncode == 0, done.stderr
        printed.append(done)
    assert all(done.stdout + done.stderr for done in printed)
    files = [file.read_bytes() for file in place.rglob("made.*") if file.is_file()]
    assert len(files) >= len(OUTPUTS)
    return [*files, *(done.stdout + done.stderr for done in printed)]


@contextlib.contextmanager
def serving(place: Path, command: Sequence[str]) -> Iterator[str]:
    """The address that a server prints."""
    address = place / "address"
    with (
        address.open("wb") as stdout,
        (place / "trouble").open("wb") as stderr,
        started(command, stdout=stdout, stderr=stderr) as process,
    ):
        until(lambda: process.poll() is not None or address.read_text().endswith("\n"), "the server to listen")
        assert process.poll() is None, (place / "trouble").read_text()
        yield address.read_text().strip()


@contextlib.contextmanager
def guarded(place: Path, *options: str) -> Iterator[str]:
    """The origin of a server that needs a login, and writes its secrets to a file beside the tape."""
    with serving(place, [sys.executable, str(SERVER), str(place / "secrets"), *options]) as origin:
        yield origin


def printed(client: str, url: str, *tools: str, **environ: str) -> bytes:
    if client.startswith("ts") and not provision.has_node():
        pytest.skip("needs node and npm")
    done = run([*provision.login_client(client), url, *tools], env=os.environ | {"NO_PROXY": "*"} | environ)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout


def answers(output: bytes) -> list[bytes]:
    return [line for line in output.splitlines() if not line.startswith((*STEPS, b"leak"))]


def calls(client: str) -> list[str]:
    """SDK 1 for TypeScript refreshes its token where it should ask for a wider scope."""
    return ["whoami", "later", "whoami", *(["erase"] if client != "ts1" else []), "leak", "whoami"]


@pytest.mark.slow
@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_logs_in_through_the_recorder(client: str, manner: str, tmp_path: Path) -> None:
    tape, secrets, home, tools = tmp_path / "tape.db", tmp_path / "secrets", tmp_path / "home", calls(client)
    home.mkdir()
    with guarded(tmp_path, *MANNERS[manner]) as origin:
        with recording(tape, f"{origin}/mcp", HOME=str(home), TMPDIR=str(home)) as recorder:
            output = printed(client, recorder.url, *tools)
            recorder.stop()
            said = recorder.said.encode()
        made = written_outputs(tape, tmp_path) if client == "mcp2" else []
        kept = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file() and file != secrets]
        assert leaks(secrets, *kept, *made, said) == []
        assert len(leaks(secrets, output)) > 6  # the tool gave them to the client, and not to the tape
    assert b"logged in" in output
    tools = [tool for tool in tools if tool != "leak"]
    with replaying(tape, "--strict", code=1) as replay:  # `leak` is unplayed
        assert printed(client, replay.url, *tools).splitlines() == answers(output)
        assert "refused" not in replay.said
    with replaying(tape, "--auth", "--strict", code=1) as replay:
        again = printed(client, replay.url, *tools)
        assert "refused" not in replay.said
    assert answers(again) == answers(output)
    # The replay asks for what the server has asked for: once for a login, and for the wider scope.
    assert again.count(b"logged in") == 1 + tools.count("erase")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tape without a login."""
    place = tmp_path_factory.mktemp("plain")
    with guarded(place) as origin, recording(place / "tape.db", f"{origin}/mcp") as recorder:
        printed("mcp2", recorder.url, "whoami", "whoami", "whoami")
    return place / "tape.db"


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("fault", ["@2=token-expired", "@2=refresh-fails", "=insufficient-scope:files:write"])
def test_a_client_gets_over_a_fault_of_its_login(client: str, fault: str, plain: Path) -> None:
    with replaying(plain, "--auth", "--fault", f"tools/call:whoami{fault}") as replay:
        done = run([*provision.login_client(client), replay.url, "whoami", "whoami", "whoami"])
        replay.stop()
        said = replay.said
    assert f"note: fault tools/call:whoami{fault}" in said
    has_refreshed = client.startswith("ts")  # those of Python log in again
    assert ("struck nothing" in said) == ("refresh-fails" in fault and not has_refreshed)
    if client == "ts1" and "scope" in fault:  # it refreshes, and gets no wider scope by that
        assert done.returncode == 1 and done.stdout.count(b"whoami ada") == 0
        return
    assert done.stdout.count(b"whoami ada") == 3, done.stderr.decode()
    logins = 1 if "token-expired" in fault and has_refreshed else 2
    assert done.stdout.count(b"logged in") == logins


@pytest.mark.slow
@pytest.mark.parametrize("client", ["mcp1", "mcp2"])
def test_a_client_logs_in_once_a_miss_needs_the_live_server(client: str, tmp_path: Path) -> None:
    tape, tools = tmp_path / "tape.db", ("whoami", "leak", "erase")
    with guarded(tmp_path, "--apart", "--issuer") as origin:
        with recording(tape, f"{origin}/mcp") as recorder:
            printed(client, recorder.url, "whoami")
        words = ("use", str(tape), "--url", f"{origin}/mcp", "--mode", "new_episodes", "--listen", "127.0.0.1:0")
        with listening(*words) as both:
            output = printed(client, both.url, *tools, LOGIN_SECRETS=str(tmp_path / "new"))
            both.stop()
            said = both.said.encode()
    assert answers(output) == [b"whoami ada", b"erase erased"] and b"logged in" in output
    assert leaks(tmp_path / "new", tape.read_bytes(), said) == []
    with replaying(tape) as replay:
        assert answers(printed(client, replay.url, *tools)) == answers(output)


@pytest.mark.slow
def test_mcp_remote_behind_the_recorder_leaves_no_token_on_the_tape(tmp_path: Path) -> None:
    if not provision.has_node():
        pytest.skip("needs node and npm")
    remote = provision.npm("mcp-remote@0.15.1") / ".bin" / "mcp-remote"
    tape, home = tmp_path / "tape.db", tmp_path / "home"
    home.mkdir()
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    hello = call(0, "initialize", **about)
    own = {"BROWSER": "true", "MCP_REMOTE_CONFIG_DIR": str(home), "HOME": str(home), "NO_PROXY": "*"}
    with guarded(tmp_path) as origin:
        command = record(tape, [str(remote), f"{origin}/mcp", "--allow-http"])
        with started(command, env=os.environ | own) as process:
            assert process.stdin and process.stdout and process.stderr
            send(process.stdin, hello + b"\n")
            page = b""
            while not page.startswith(f"{origin}/authorize?".encode()):
                page = receive_line(process.stderr)
                assert page, "mcp-remote has ended"
            back = ask(origin, verb="GET", to=page.decode().strip().removeprefix(origin))
            where = (back.header("location") or "").replace("localhost", "127.0.0.1")
            with in_background(lambda: receive(process.stderr or 0)):
                assert ask(where, verb="GET", to="/" + where.split("/", 3)[3]).status == 200
                more = (INITIALIZED, call(1, "tools/call", name="whoami"))
                send(process.stdin, b"".join(line + b"\n" for line in more))
                got = [receive_line(process.stdout) for _ in range(2)]
                process.stdin.close()
                process.wait(WAIT)
        assert b"ada" in b"".join(got)
        assert leaks(tmp_path / "secrets", *written_outputs(tape, tmp_path), tape.read_bytes()) == []
    replayed = run([*MCP_TAPE, "replay", str(tape)], b"\n".join([hello, *more, b""]))
    assert replayed.stdout.splitlines() == [line.strip() for line in got]


# Authorization servers of others -------------------------------------------------------------------------


def oidc_provider() -> list[str]:
    """oidc-provider, from npm."""
    modules = provision.npm("oidc-provider@9.13.3")
    program = modules.parent / "oidc.mjs"
    shutil.copy(provision.NODE / program.name, program)  # where Node looks for modules
    return ["node", str(program)]


def fastmcp() -> list[str]:
    """fastmcp's own, from PyPI."""
    return [str(provision.venv("fastmcp>=4,<5")), str(SERVER.with_name("fast_login.py"))]


OTHERS = {"oidc-provider": oidc_provider, "fastmcp": fastmcp}


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("other", OTHERS)
def test_a_client_logs_in_at_authorization_servers_of_others(other: str, client: str, tmp_path: Path) -> None:
    if not provision.has_node():
        pytest.skip("needs node and npm")
    tape, tools = tmp_path / "tape.db", ("whoami", "later", "whoami")
    secrets = tmp_path / "secrets"
    with serving(tmp_path, OTHERS[other]()) as origin, recording(tape, f"{origin}/mcp") as recorder:
        output = printed(client, recorder.url, *tools, LOGIN_SECRETS=str(secrets))
        recorder.stop()
        said = recorder.said.encode()
    assert leaks(secrets, said, *(file.read_bytes() for file in tmp_path.iterdir() if file != secrets)) == []
    assert b"logged in" in output and answers(output) == [b"whoami ada"] * 2
    with replaying(tape, "--auth", "--strict") as replay:
        again = printed(client, replay.url, *tools)
        assert "refused" not in replay.said
    assert b"logged in" in again and answers(again) == answers(output)
