"""The official conformance suite: set up on first use, run, and what it found."""

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
STAMPED = re.compile(r"(.+)-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z")  # a scenario and when it ran

Checks = Counter[tuple[str, str]]  # how often a check, by its id, had a status


def command() -> list[str]:
    """The command of the suite, with the Node that it needs."""
    modules = provision.npm(listed=PACKAGE)
    return [str(modules / ".bin" / "node"), str(modules / "@modelcontextprotocol/conformance/dist/index.js")]


def compiled() -> dict[str, str]:
    """The environment in which Node keeps what it has compiled of the suite: it is run some fifty times."""
    return os.environ | {"NODE_COMPILE_CACHE": str(provision.CACHE / "node")}


def check_server(url: str, revision: str, results: Path) -> dict[str, Checks]:
    """Everything that a revision requires of a server, or asks besides: the checks of every scenario."""
    options = ["--url", url, "--requirements", revision]
    told = run_to_end("server", results, options)
    found = {name.removeprefix("server-"): _checks(place) for name, place in _scenarios(results).items()}
    if not found:
        raise RuntimeError(f"the suite did nothing:\n{told}")
    return found


def client_scenarios(revision: str) -> list[str]:
    """Everything that a revision requires of a client, or asks besides, but for OAuth."""
    listing = [*command(), "list", "--requirements", revision]
    told = subprocess.run(listing, capture_output=True, text=True, timeout=WAIT, check=True, env=compiled()).stdout
    required = told.partition("Client scenarios")[2].partition("\n\n")[0]
    names = re.findall(r"^ +- (\S+)$", required, re.M) + re.findall(r"^ +- (\S+) \[client\]$", told, re.M)
    return [name for name in names if not name.startswith("auth/")]


def check_client(client: str, scenario: str, revision: str, results: Path) -> tuple[Checks, str]:
    """The checks of one scenario for a client command, and what the client printed."""
    told = run_to_end("client", results, ["--command", client, "--scenario", scenario, "--spec-version", revision])
    if scenario not in (found := _scenarios(results)):
        raise RuntimeError(f"the suite did not run {scenario}:\n{told}")
    place = found[scenario]
    checks = _checks(place)
    printed = (place / "stdout.txt").read_text()
    if not printed:  # then it failed: the checks alone may not show it
        checks["the client", (place / "stderr.txt").read_text()[-2000:]] += 1
    return checks, printed


def run_to_end(role: str, results: Path, options: list[str]) -> str:
    whole = [*command(), role, *options, "--timeout", str(WAIT * 1000), "-o", str(results)]
    done = subprocess.run(whole, stdin=subprocess.DEVNULL, capture_output=True, timeout=10 * WAIT, env=compiled())
    return (done.stdout + done.stderr).decode(errors="replace")


def _scenarios(results: Path) -> dict[str, Path]:
    """Where the results of every scenario are, in the order in which they ran."""
    places = sorted(results.glob("*/checks.json"), key=lambda file: file.stat().st_mtime_ns)
    return {found[1]: file.parent for file in places if (found := STAMPED.fullmatch(file.parent.name))}


def _checks(place: Path) -> Checks:
    """The checks of a scenario, without what is only remarked."""
    checks = json.loads((place / "checks.json").read_text())
    return Counter((check["id"], check["status"]) for check in checks if check["status"] != "INFO")
