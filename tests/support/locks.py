"""Locks of real servers, which are installed from npm and PyPI.

python -m tests.support.locks [NAME ...]             lock each server twice, and check it: nothing may differ
python -m tests.support.locks --releases [NAME ...]  check locks of older releases: the findings are those of `breaking`
python -m tests.support.locks --calls [NAME ...]     record servers by calls alone, replay them to SDK clients, verify
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.support import provision
from tests.support.forked import MCP_TAPE
from tests.support.many import comparison
from tests.support.sdk import alone, call, outcomes

WAIT = 600  # seconds, for a command on a busy machine
PATIENCE = "240"  # for an answer
CLIENTS = ("mcp1", "mcp2-legacy")
FAKE = "not-a-real-key-4711"  # servers with a login start with any key, and list their tools
SDK_1 = ("mcp<2",)
_NO_SCRIPTS = ("--ignore-scripts",)  # such as downloads of browsers


class RealServer(NamedTuple):
    """A server: its package, the newest release and an older one, and the words and variables that start it."""

    package: str  # of npm if `node`, else of PyPI
    new: str
    old: str = ""
    words: tuple[str, ...] = ()
    program: str = ""  # if it is not called as the package
    needs: tuple[str, ...] = ()  # variables, perhaps with values
    old_with: tuple[str, ...] = ()  # other packages for the older release
    new_with: tuple[str, ...] = ()  # and for the newest
    calls: tuple[dict[str, Any], ...] = ()  # whose answers are always the same
    is_python: bool = False

    def command(self, version: str) -> list[str]:
        program = self.program or self.package.rpartition("/")[2]
        more = self.old_with if version == self.old else self.new_with
        if self.is_python:
            python = provision.venv(f"{self.package}=={version}", *more)
            return [str(python), str(python.parent / program), *self.words]
        modules = provision.npm(*_NO_SCRIPTS, f"{self.package}@{version}", *more)
        node = provision.npm("node@22") / "node" / "bin" / "node"
        return [str(node), str((modules / ".bin" / program).resolve()), *self.words]


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool": name, "arguments": arguments}


def npm(package: str, new: str, old: str = "", *words: str, **more: Any) -> RealServer:
    return RealServer(package, new, old, words, **more)


def reference(name: str, old: str, *words: str, **more: Any) -> RealServer:
    new = more.pop("new", "2026.8.31")
    return npm(f"@modelcontextprotocol/server-{name}", new, old, *words, program=f"mcp-server-{name}", **more)


def pypi(package: str, new: str, old: str = "", *words: str, **more: Any) -> RealServer:
    return RealServer(package, new, old, words, is_python=True, old_with=SDK_1, **more)


_REPO = {"repo_path": "repo"}
_POEM = "notes/poem.txt"
SERVERS: dict[str, RealServer] = {
    "everything": reference("everything", "2025.8.18", calls=(tool("echo", message="x"), tool("get-sum", a=1, b=2))),
    "filesystem": reference(
        "filesystem", "2025.8.18", ".", old_with=("zod@3",),
        calls=(tool("read_text_file", path=_POEM), tool("list_directory", path="notes"), tool("read_text_file")),
    ),
    "memory": reference(
        "memory", "2025.8.4", needs=("MEMORY_FILE_PATH=memory.json",),
        calls=(tool("read_graph"), tool("search_nodes", query="x")),
    ),
    "sequential-thinking": reference(
        "sequential-thinking", "2025.7.1",
        calls=(tool("sequentialthinking", thought="x", nextThoughtNeeded=False, thoughtNumber=1, totalThoughts=1),),
    ),
    "puppeteer": reference("puppeteer", "", new="2025.5.12"),
    "github": reference("github", "2025.1.23", new="2025.4.8", needs=("GITHUB_PERSONAL_ACCESS_TOKEN",)),
    "gitlab": reference("gitlab", "", new="2025.4.25", needs=("GITLAB_PERSONAL_ACCESS_TOKEN",)),
    "slack": reference("slack", "2025.1.17", new="2025.4.25", needs=("SLACK_BOT_TOKEN", "SLACK_TEAM_ID")),
    "google-maps": reference("google-maps", "", new="0.6.2", needs=("GOOGLE_MAPS_API_KEY",)),
    "map": npm("@modelcontextprotocol/server-map", "2.0.3", "1.5.0", "--stdio", program="mcp-map-server"),
    "budget-allocator": npm(
        "@modelcontextprotocol/server-budget-allocator", "2.0.3", "1.5.0", "--stdio",
        program="mcp-budget-allocator-server",
    ),
    "playwright": npm("@playwright/mcp", "0.0.83", "0.0.80", program="playwright-mcp"),
    "chrome-devtools": npm("chrome-devtools-mcp", "1.11.0", "0.19.0"),
    "context7": npm("@upstash/context7-mcp", "4.1.1", "2.1.7"),
    "notion": npm("@notionhq/notion-mcp-server", "2.5.2", "1.9.0", needs=("NOTION_TOKEN",)),
    "sentry": npm("@sentry/mcp-server", "0.39.0", "0.20.0", program="sentry-mcp", needs=("SENTRY_ACCESS_TOKEN",)),
    "firecrawl": npm("firecrawl-mcp", "3.26.0", "1.12.0", needs=("FIRECRAWL_API_KEY",)),
    "tavily": npm("tavily-mcp", "0.2.22", "0.2.3", needs=("TAVILY_API_KEY",)),
    "exa": npm("exa-mcp-server", "3.4.1", "", needs=("EXA_API_KEY",)),
    "brave": npm("@brave/brave-search-mcp-server", "2.1.4", "2.0.63", needs=("BRAVE_API_KEY",)),
    "kubernetes": npm("mcp-server-kubernetes", "4.1.7", "2.9.6", calls=(tool("ping"),)),
    "supabase": npm("@supabase/mcp-server-supabase", "0.13.0", "0.5.7", needs=("SUPABASE_ACCESS_TOKEN",)),
    "mongodb": npm(
        "mongodb-mcp-server", "3.0.4", "1.7.0", needs=("MDB_MCP_TELEMETRY=disabled",), calls=(tool("list-databases"),)
    ),
    "figma": npm("figma-developer-mcp", "0.13.2", "0.6.0", "--stdio", needs=("FIGMA_API_KEY",)),
    "time": pypi(
        "mcp-server-time", "2026.10.19", "2025.8.4", "--local-timezone", "UTC",
        calls=(tool("get_current_time", timezone="Moon/Tycho"),
               tool("convert_time", source_timezone="Asia/Tokyo", time="16:30", target_timezone="Asia/Kathmandu")),
    ),
    "git": pypi(
        "mcp-server-git", "2026.10.19", "2025.7.1", "--repository", "repo",
        calls=(tool("git_status", **_REPO), tool("git_log", **_REPO), tool("git_diff_unstaged", **_REPO)),
    ),
    "fetch": pypi(
        "mcp-server-fetch", "2026.10.24", "2025.4.7", calls=(tool("fetch", url="http://127.0.0.1:9/"),)
    ),
    "sqlite": pypi(
        "mcp-server-sqlite", "2025.4.25", "0.6.2", "--db-path", "test.db", new_with=SDK_1,
        calls=(tool("list_tables"), tool("read_query", query="select 1 as one"), tool("read_query", query="drop x")),
    ),
    "motherduck": pypi("mcp-server-motherduck", "1.1.0", "0.8.1", "--read-write", "--db-path", ":memory:"),
    "duckdb": pypi(
        "mcp-server-duckdb", "1.1.0", "1.0.0", "--db-path", "duck.db", new_with=SDK_1,
        calls=(tool("query", query="select 1"),),
    ),
    "duckduckgo": pypi("duckduckgo-mcp-server", "0.7.0", "0.3.0"),
    "arxiv": pypi("arxiv-mcp-server", "0.8.2", "0.5.0", calls=(tool("list_papers"),)),
    "calculator": pypi(
        "mcp-server-calculator", "0.2.1", "0.1.1",
        calls=(tool("calculate", expression="6*7"), tool("calculate", expression="1/0")),
    ),
    "excel": pypi(
        "excel-mcp-server", "2.2.2", "1.1.0", "stdio", calls=(tool("get_workbook_metadata", filepath="/none.xlsx"),)
    ),
    "wikipedia": pypi("wikipedia-mcp", "2.0.1", "1.5.8"),
    "aws-documentation": pypi("awslabs.aws-documentation-mcp-server", "1.2.3", "1.1.23"),
}  # fmt: skip


class Place(NamedTuple):
    """A directory to run a server in, with a repository and a file."""

    path: Path
    env: dict[str, str]

    def tape(self, *words: str, code: int | None = 0) -> subprocess.CompletedProcess[bytes]:
        """Run mcp-tape."""
        done = subprocess.run(
            [*MCP_TAPE, *words],
            cwd=self.path,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=WAIT,
        )
        if code is not None and done.returncode != code:
            raise UnexpectedEndError(
                f"mcp-tape {' '.join(words)}: {done.returncode}\n{(done.stdout + done.stderr).decode()}"
            )
        return done


class UnexpectedEndError(Exception):
    """A run that did not end as it must."""


def furnish(server: RealServer, parent: Path) -> Place:
    place = parent / "place"
    place.mkdir()
    provision.git_repository(place)
    (place / "notes").mkdir()
    (place / "notes" / "poem.txt").write_text("Roses are red\n")
    (place / "home").mkdir()
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LC_ALL", "PYTHONPATH")}
    ours = {"HOME": str(place / "home"), "CI": "1", "NO_COLOR": "1", "PYTHONPATH": str(provision.ROOT)}
    needed = (variable.partition("=") for variable in server.needs)
    return Place(place, kept | ours | {name: value or FAKE for name, _, value in needed})


# Locks made twice ---------------------------------------------------------------------------------------------------


def twice(name: str, server: RealServer, place: Place) -> tuple[Any, ...]:
    command = server.command(server.new)
    begun = time.monotonic()
    for path in ("mcp.lock", "again.lock"):
        place.tape("lock", "-o", path, "--timeout", PATIENCE, "--", *command)
    seconds = (time.monotonic() - begun) / 2
    one, other = ((place.path / path).read_bytes() for path in ("mcp.lock", "again.lock"))
    ((_, entry),) = json.loads(one)["servers"].items()
    checked = place.tape("lock", "--check", "mcp.lock", "--json", "--timeout", PATIENCE, "--", *command, code=None)
    found = comparison(checked.stdout)
    is_fine = one == other and checked.returncode == 0 and not found["changes"]
    lists = [len(entry.get(member, ())) for member in ("tools", "resources", "resourceTemplates", "prompts")]
    clients = 1 + len(entry.get("otherClients", ()))
    info = entry["server"]
    row = (server.new, str(info.get("version")), *lists, clients, one.count(b"\n"), f"{seconds:.1f}")
    return (is_fine, *row, "equal" if one == other else "DIFFER", f"exit {checked.returncode}")


# An older release ---------------------------------------------------------------------------------------------------


# What a lock, which is sorted and has no messages, does not hold.
_NOT_LOCKED = ("notification-added", "notification-missing", "pagination-changed", "tool-order-changed")


def identities(text: bytes) -> list[tuple[str, ...]]:
    """The changes of the offer in a report, but for the words about them."""
    changes = [one for one in comparison(text)["changes"] if one["rule"] not in _NOT_LOCKED]
    members = ("rule", "level", "subject", "path", "before", "after")
    return sorted(tuple(json.dumps(one.get(member), sort_keys=True) for member in members) for one in changes)


def releases(name: str, server: RealServer, place: Place) -> tuple[Any, ...]:
    old, new = server.command(server.old), server.command(server.new)
    asked = ["--capabilities", "none", "--timeout", PATIENCE]
    place.tape("lock", "-o", "old.lock", *asked, "--", *old)
    for path, command in (("old.db", old), ("new.db", new)):
        place.tape("record", "-q", "-o", path, "--call", "ping", "--", *command)
    checked = place.tape("lock", "--check", "old.lock", "--json", "--timeout", PATIENCE, "--", *new, code=None)
    broken = place.tape("breaking", "old.db", "new.db", "--json", code=None)
    one, other = identities(checked.stdout), identities(broken.stdout)
    errors = sum(found[1] == '"error"' for found in one)
    is_fine = one == other and checked.returncode == broken.returncode
    row = (server.old, server.new, len(one), errors, len(other), f"exit {checked.returncode}/{broken.returncode}")
    return (is_fine, *row, "equal" if one == other else "DIFFER")


# Calls alone --------------------------------------------------------------------------------------------------------


def calls(name: str, server: RealServer, place: Place) -> tuple[Any, ...]:
    command = server.command(server.new)
    (place.path / "calls.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in server.calls))
    said = place.tape("record", "-o", "tape.db", "--calls", "calls.jsonl", "--", *command).stderr.decode()
    played = []
    for client in CLIENTS:
        (place.path / client).mkdir()
        steps = [call(one["tool"], **one["arguments"]) for one in server.calls]
        tape = ["replay", str(place.path / "tape.db")]
        replayed = alone(provision.client(client), tape, place.path / client, CLIENT_STEPS=json.dumps(steps))
        played.append(len(outcomes(json.loads(replayed.output))))
    verified = place.tape("verify", "tape.db", "--allow-writes", "--no-keep", "--", *command, code=None)
    is_fine = played == [len(server.calls)] * len(CLIENTS) and verified.returncode == 0
    answered = said.partition(": ")[2].partition(" answered")[0]
    return (is_fine, server.new, answered, *played, f"exit {verified.returncode}")


# The command --------------------------------------------------------------------------------------------------------

Task = Callable[[str, RealServer, Place], tuple[Any, ...]]
TASKS: dict[str, tuple[Task, str, Callable[[RealServer], object]]] = {
    "": (twice, "release calls-itself tools resources templates prompts clients lines seconds locks check", bool),
    "--releases": (releases, "old new findings errors breaking exits findings", lambda server: server.old),
    "--calls": (calls, "release answered mcp1 mcp2 verify", lambda server: server.calls),
}


def main(arguments: Sequence[str]) -> int:
    mode = next((word for word in arguments if word in TASKS), "")
    task, heading, fits = TASKS[mode]
    names = [word for word in arguments if word != mode] or [name for name in SERVERS if fits(SERVERS[name])]
    print(_row("server", *heading.split()), flush=True)
    failed = 0
    for name in names:
        with tempfile.TemporaryDirectory(prefix="locks-") as directory:
            try:
                is_fine, *found = task(name, SERVERS[name], furnish(SERVERS[name], Path(directory)))
            except (UnexpectedEndError, RuntimeError, AssertionError, subprocess.TimeoutExpired) as error:
                is_fine, found = False, ["failed:", *str(error)[:600].split("\n")]
        print(_row(name, *found) if is_fine or found[0] != "failed:" else f"{name}: {' '.join(found)}", flush=True)
        failed += not is_fine
    print(f"{len(names) - failed} of {len(names)} as they must be")
    return int(failed > 0)


def _row(name: object, *cells: object) -> str:
    return " ".join([f"{name!s:<22}", *(f"{cell!s:>11}" for cell in cells)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
