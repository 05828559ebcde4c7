"""The programs that the tests run besides mcp-tape: SDK clients, and servers for them.

Programs that pip's `.[test]` cannot install (an SDK that conflicts with another, npm packages) are set up on first use,
by one process while others wait. They are built in a temporary place and renamed, so that a killed run leaves no
partial installation.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.support import forked, warm

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
CACHE = ROOT / ".cache"
NODE = TESTS / "node"
PATIENCE = 600  # seconds, for pip or npm on a slow network
MEMORY, ROOM = "/dev/shm", 2 << 30  # a file system of Linux, and bytes: the largest tests of all processes at once

CLIENTS = ("mcp2-auto", "mcp2-legacy", "mcp1", "ts1", "ts2-auto")
ALL_CLIENTS = (*CLIENTS, "fastmcp4")  # fastmcp4 is built on mcp2, so recording need not be tried with both
# By bare names, and from a directory with the git repository `repo`: nothing here depends on the machine.
SERVERS = {
    "time": ["mcp-server-time", "--local-timezone", "UTC"],
    "git": ["mcp-server-git", "--repository", "repo"],
    "everything": ["mcp-server-everything"],
}
# Servers with a URL, and its path: `/sse` is the old HTTP+SSE, `/mcp` Streamable HTTP.
HTTP_SERVERS = {"everything-http": "/mcp", "everything-sse": "/sse", "fast": "/mcp", "odd-http": "/mcp"}
# Modules that an interpreter's programs load, in any order: at once, or on first use.
ANY_SDK = ("anyio._backends._asyncio", "h11", "jsonschema", "mcp", "mcp.client.sse", "mcp.client.streamable_http")
SERVERS_OF_SDK = ("_strptime", "mcp_server_git", "mcp_server_time", "tzdata", "uvicorn")
SDK = (*ANY_SDK, *SERVERS_OF_SDK, "httpcore2", "httpx2", "pkgutil", "pytest")
SDK_1 = (*ANY_SDK, "httpcore", "httpx", "pkgutil")
FASTMCP_SDK = (*ANY_SDK, "httpcore2", "httpx2", "fastmcp", "fastmcp.client.transports", "rich.console")
AGENT = (
    "anyio._backends._asyncio",
    "jsonschema",
    "mcp_tape.agent.sdk_server",
    "mcp_tape.cli.commands.mcp",
    "sqlite_utils",
)


def chromium() -> str | None:
    """An installed browser, by one of its names."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next(filter(None, map(shutil.which, names)), None)


def memory() -> str | None:
    """A directory in memory with enough space for tests, and permission to run programs; None without one."""
    if not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < ROOM:
        return None
    return None if os.statvfs(MEMORY).f_flag & os.ST_NOEXEC else MEMORY


@functools.cache
def temporary() -> str:
    """The directory for files that this process makes outside of `tmp_path`.

    It is removed with the process; that of a killed one when the next process calls this.
    """
    base = Path(memory() or tempfile.gettempdir(), f"mcp-tape-tests-{os.getuid()}")
    base.mkdir(mode=0o711, exist_ok=True)
    with (base / "lock").open("w") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        for left in base.glob("*/lock"):
            with left.open() as lock, contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # its owner has ended
                shutil.rmtree(left.parent, ignore_errors=True)
        own = tempfile.mkdtemp(dir=base, prefix="")
        os.chmod(own, 0o1777)  # like `/tmp`: tests switch to another user
        held = os.open(os.path.join(own, "lock"), os.O_CREAT)  # while this process lives
        fcntl.flock(held, fcntl.LOCK_EX)
    maker = os.getpid()
    atexit.register(lambda: os.getpid() == maker and shutil.rmtree(own, ignore_errors=True))
    return own


installs = True  # False while a test without the mark `slow` runs: packages may have to be downloaded


def has_node() -> bool:
    return all(shutil.which(name) for name in ("node", "npm"))


def needs_node(client: str, server: str) -> bool:
    return client.startswith("ts") or server.startswith("everything")


def sdk_1() -> str:
    """A Python with SDK 1.x and the dependencies of mcp-tape, but without mcp-tape itself."""
    return str(venv("mcp>=1.26,<2", "pytest>=8", *needed()))


def fastmcp() -> str:
    """The same with fastmcp 4, agent frameworks that are built on SDK 2.x, and pytest."""
    frameworks = ("pydantic-ai-slim[mcp]>=2,<3", "openai-agents>=0.24", "langchain[mcp]>=1.4,<2")
    return str(venv("fastmcp>=4,<5", *frameworks, "pytest>=8", "pytest-asyncio>=0.24", *needed()))


def needed() -> list[str]:
    listed = re.search(r"^dependencies = \[(.*?)^\]", (ROOT / "pyproject.toml").read_text("utf-8"), re.S | re.M)
    assert listed
    return re.findall(r'"([^"]+)"', listed[1])


def client(name: str) -> list[str]:
    """The command of a client program, to which the server's command or URL is appended."""
    program = TESTS / "clients"
    if name == "mcp1":
        return warm.command(sdk_1(), program / "mcp1.py", SDK_1)
    if name == "fastmcp4":
        return warm.command(fastmcp(), program / "fastmcp4.py", FASTMCP_SDK)
    if name.startswith("ts"):
        return [_node(), str(bundled(name.partition("-")[0]))]
    return [*warm.command(sys.executable, program / "mcp2.py", SDK), name.partition("-")[2]]


def login_client(name: str) -> list[str]:
    """The command of a client program that logs in, to which a URL and the names of tools are appended."""
    if name.startswith("ts"):
        return [_node(), str(bundled(f"login-{name}"))]
    if name == "mcp1":
        return warm.command(sdk_1(), TESTS / "clients" / "login1.py", SDK_1)
    return warm.command(sys.executable, TESTS / "clients" / "login2.py", SDK)


def http_server(name: str) -> list[str]:
    """The command of a server that listens on loopback, and then prints its `http://` address."""
    if name == "fast":
        return warm.command(fastmcp(), TESTS / "servers" / "fast.py", FASTMCP_SDK)
    if name == "odd-http":
        return [sys.executable, str(TESTS / "servers" / "odd_http.py")]
    transport = "sse" if name == "everything-sse" else "streamableHttp"
    return [_node(), "--import", str(NODE / "loopback.mjs"), str(everything()), transport]


def pytest_command() -> list[str]:
    """A pytest that starts with the SDK loaded."""
    return [*warm.command(sys.executable, "-m", SDK), "pytest"]


def alone(codes: Path) -> list[str]:
    """The command of an mcp-tape that can start no server; its exit codes are appended to a file."""
    return [*warm.command(sys.executable, TESTS / "clients" / "alone.py", forked.loaded()), str(codes)]


def environment() -> dict[str, str]:
    """The environment in which all of them are found by their bare names."""
    places = [
        _warm_servers(),
        sysconfig.get_path("scripts"),
        str(_everything() / "bin"),
        str(NODE / "node_modules" / ".bin"),
    ]
    return os.environ | {"PATH": os.pathsep.join([*places, os.environ.get("PATH", os.defpath)])}


@functools.cache
def _warm_servers() -> str:
    """A directory with the servers that run on Python."""
    place = tempfile.TemporaryDirectory(prefix="warm-")
    atexit.register(place.cleanup)
    for name in ("mcp-server-time", "mcp-server-git"):
        warm.script(Path(place.name), sys.executable, Path(sysconfig.get_path("scripts"), name), SDK)
    return place.name


def nowhere(path: Path) -> dict[str, str]:
    """An environment in which nothing is found; `path` is created, and stays empty."""
    path.mkdir()
    return os.environ | {"PATH": str(path)}


def processes_in(environment: dict[str, str]) -> list[str]:
    """The processes with this PATH, the only variable that SDKs always pass on.

    For a forked process, this finds the one that requested it and waits for its end. Linux only.
    """
    found, path = [], f"PATH={environment['PATH']}".encode()
    for file in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if path in file.read_bytes().split(b"\0"):
                found.append(file.parent.name)
    return found


def venv(*requirements: str, interpreter: str = sys.executable) -> Path:
    """The Python of a virtual environment with these packages. Their modules are compiled on first use."""
    version = sys.version if interpreter == sys.executable else interpreter

    def install(directory: Path) -> Path:
        run_to_end([interpreter, "-m", "venv", "--without-pip", str(directory / "venv")])
        pip = [sys.executable, "-m", "pip", "--python", str(directory / "venv"), "--disable-pip-version-check"]
        run_to_end([*pip, "install", "-q", "--no-compile", *requirements])
        return directory / "venv"

    return once(CACHE / f"venv-{digest(version, *requirements)}", install) / "bin" / "python"


def node_modules() -> Path:
    """The npm packages of tests/node/package.json, beside it, where Node looks for them."""
    assert installs, "packages are installed for this test: mark it slow"
    wanted = digest((NODE / "package.json").read_text())
    place = NODE / "node_modules"
    if not _holds(place / ".wanted", wanted):
        with _alone("node_modules"), aside() as built:
            if not _holds(place / ".wanted", wanted):
                shutil.copy(NODE / "package.json", built)
                _npm_install(built)
                (built / "node_modules" / ".wanted").write_text(wanted)
                if place.exists():
                    place.rename(built / "outdated")
                (built / "node_modules").rename(place)
    return place


def npm(*packages: str, listed: Path | None = None) -> Path:
    """The `node_modules` for packages that only some tests need: by name, or listed in a package.json."""

    def install(directory: Path) -> Path:
        (directory / "npm").mkdir()
        if listed:
            shutil.copy(listed, directory / "npm")
        _npm_install(directory / "npm", *packages)
        return directory / "npm"

    return once(CACHE / f"npm-{digest(*packages, listed.read_text() if listed else '')}", install) / "node_modules"


def _npm_install(directory: Path, *packages: str) -> None:
    quietly = ["--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
    run_to_end(["npm", "install", *quietly, *packages], directory)


def bundled(name: str) -> Path:
    """A client program with all of its imports in one file."""
    shared = ("session.mjs", "login.mjs", "../clients/sessions.json", "package.json")
    sources = [NODE / file for file in (f"{name}.mjs", *shared)]
    place = CACHE / f"{name}-{digest(*(source.read_text() for source in sources))}.mjs"
    return once(place, lambda directory: _bundle(sources[0], directory / place.name))


def everything() -> Path:
    """The same for the reference server, in a directory for PATH under its usual name, beside its data."""

    def bundle(directory: Path) -> Path:
        package = node_modules() / "@modelcontextprotocol" / "server-everything" / "dist"
        shutil.copytree(package / "docs", directory / "everything" / "docs")
        program = _bundle(package / "index.js", directory / "everything" / "bin" / "index.mjs")
        program.with_name("mcp-server-everything").symlink_to(program.name)
        program.chmod(0o755)
        return directory / "everything"

    return once(_everything(), bundle) / "bin" / "mcp-server-everything"


def _everything() -> Path:
    return CACHE / f"everything-{digest((NODE / 'package.json').read_text())}"


def _bundle(source: Path, file: Path) -> Path:
    """A program and its imports in one file: Node starts it in half the time."""
    esbuild = [str(node_modules() / ".bin" / "esbuild"), "--bundle", "--platform=node", "--format=esm"]
    # CommonJS code imports modules of Node by this name.
    require = 'import { createRequire } from "module"; const require = createRequire(import.meta.url);'
    run_to_end([*esbuild, f"--banner:js={require}", f"--outfile={file}", str(source)])
    return file


def git_repository(parent: Path) -> Path:
    """A small repository with reproducible hashes: two commits and a change."""
    return Path(shutil.copytree(_git_repository(), parent / "repo"))


@functools.cache
def _git_repository() -> Path:
    """The first of them; all others are copies."""
    place = tempfile.TemporaryDirectory(prefix="git-")
    atexit.register(place.cleanup)
    repo = Path(place.name)
    _git(repo, "init", "-q", "-b", "main", "--template=")
    for number, line in enumerate(["Roses are red\n", "Violets are blue\n"], 1):
        with (repo / "poem.txt").open("a") as poem:
            poem.write(line)
        _git(repo, "add", "poem.txt")
        _git(repo, "commit", "-q", "-m", f"Line {number}")
    with (repo / "poem.txt").open("a") as poem:
        poem.write("Tapes are black\n")
    return repo


def _node() -> str:
    return shutil.which("node") or "node"


def _git(repo: Path, *arguments: str) -> None:
    who = {"NAME": "Ada", "EMAIL": "ada@example.org", "DATE": "2026-01-02T03:04:05+0000"}
    people = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in who.items()}
    # The user's own settings (signing, hooks, templates) must not change the hashes.
    settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    run_to_end(["git", *arguments], repo, os.environ | people | settings)


def once(place: Path, build: Callable[[Path], Path]) -> Path:
    """Build something once, in a temporary directory, and then move it to its place."""
    assert installs, "packages are installed for this test: mark it slow"
    if not place.exists():
        with _alone(place.name), aside(place.parent) as directory:
            if not place.exists():  # else it was built while we waited
                build(directory).rename(place)
    return place


@contextlib.contextmanager
def aside(where: Path = CACHE) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=where, prefix="building-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@contextlib.contextmanager
def _alone(name: str) -> Iterator[None]:
    """Make others wait; at most as long as `run_to_end` allows, because the lock is released with its process."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text() == text


def digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def run_to_end(command: Sequence[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr).decode(errors='replace')}")
