"""The official conformance suite: set up on first use, run, and evaluated."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from pathlib import Path

from tests.support import provision
from tests.support.running import WAIT

PACKAGE = Path(__file__).with_name("package.json")
STAMPED = re.compile(r"(.+)-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z")  # a scenario and its time

# Scenarios in which the client signs the address of the server that it talks to. No proxy can pass for that.
SIGNED = (
    "auth/client-credentials-jwt auth/dpop auth/dpop-nonce auth/enterprise-managed-authorization auth/wif-jwt-bearer"
)
NOT_SIGNED = f'case "$MCP_CONFORMANCE_SCENARIO" in {"|".join(SIGNED.split())}) exit 1;; esac;'

Checks = Counter[tuple[str, str]]  # counts, by a check's id and status


def command() -> list[str]:
    """The command of the suite, with a suitable Node."""
    modules = provision.npm(listed=PACKAGE)
    return [str(modules / ".bin" / "node"), str(modules / "@modelcontextprotocol/conformance/dist/index.js")]


def compiled() -> dict[str, str]:
    """The environment in which Node caches the compiled suite, which is run a dozen times."""
    return os.environ | {"NODE_COMPILE_CACHE": str(provision.CACHE / "node")}


def check_server(url: str, revision: str, results: Path) -> dict[str, Checks]:
    """The checks of every scenario for servers of a revision, required or optional."""
    options = ["--url", url, "--requirements", revision]
    told = run_to_end("server", results, options)
    found = {name.removeprefix("server-"): _checks(place) for name, place in _scenarios(results).items()}
    if not found:
        raise RuntimeError(f"the suite did nothing:\n{told}")
    return found


def check_client(client: str, revision: str, results: Path) -> dict[str, tuple[Checks, str]]:
    """The same for a client, given as a shell command, but for `SIGNED`; with its output in every scenario."""
    told = run_to_end("client", results, ["--command", f"{NOT_SIGNED} {client}", "--requirements", revision])
    done = {name: place for name, place in _scenarios(results).items() if name not in SIGNED.split()}
    found = {name: (_checks(place), (place / "stdout.txt").read_text()) for name, place in done.items()}
    if not found:
        raise RuntimeError(f"the suite did nothing:\n{told}")
    for name, (checks, printed) in found.items():
        if not printed:  # it failed, though the checks may not show that
            checks[f"the client in {name}", told[-2000:]] += 1
    return found


def run_to_end(role: str, results: Path, options: list[str]) -> str:
    whole = [*command(), role, *options, "--timeout", str(WAIT * 1000), "-o", str(results)]
    done = subprocess.run(whole, stdin=subprocess.DEVNULL, capture_output=True, timeout=10 * WAIT, env=compiled())
    return (done.stdout + done.stderr).decode(errors="replace")


def _scenarios(results: Path) -> dict[str, Path]:
    """The directories with the results of every scenario, in execution order."""
    places = sorted(results.rglob("checks.json"), key=lambda file: file.stat().st_mtime_ns)
    named = ((file.parent, str(file.parent.relative_to(results))) for file in places)
    return {found[1]: place for place, name in named if (found := STAMPED.fullmatch(name))}


def _checks(place: Path) -> Checks:
    """The checks of a scenario, without remarks."""
    checks = json.loads((place / "checks.json").read_text())
    return Counter((check["id"], check["status"]) for check in checks if check["status"] != "INFO")
