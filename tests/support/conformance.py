"""The official conformance suite in three runs: direct, through `mcp-tape record`, and against the replay of that.

    python -m tests.support.conformance [--requirements REVISION]... [--mode server|client]... [--json]

In server mode the suite is the client of `tests/servers/conformance.py`. In client mode it is the server, and starts
`tests/clients/conformance.py` for every scenario, all at the same time. No suite can count the checks of a replayed
server. So in client mode the last column repeats the checks of the recorded one if the client printed the same and
exited normally, and is empty otherwise. If a client must refuse to log in, there is nothing to replay, and the
column is that of the recording. The exit code is 1 if a check differs between columns, or replay misses a request.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.suite.listening import Listening, listening
from tests.suite.official import Checks, check_client, check_server, command
from tests.support import forked, provision, warm
from tests.support.running import MCP_TAPE, run

REVISIONS = ("2025-11-25", "2026-07-28")
MODES = ("server", "client")
COLUMNS = ("direct", "recorded", "replayed")
ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Comparison:
    """The checks in the three columns by scenario, and other faults."""

    mode: str
    revision: str
    columns: dict[str, dict[str, Checks]] = field(default_factory=lambda: {column: {} for column in COLUMNS})
    faults: list[str] = field(default_factory=list)
    missed: int = 0

    def scenarios(self) -> list[str]:
        return list(dict.fromkeys(scenario for column in COLUMNS for scenario in self.columns[column]))

    def count(self, column: str, scenario: str | None = None, *statuses: str) -> int:
        """The number of checks with one of these statuses, in a scenario or in all."""
        held = self.columns[column]
        wanted = held.values() if scenario is None else [held.get(scenario, Counter())]
        return sum(count for checks in wanted for (_, status), count in checks.items() if status in statuses)

    def passed(self, column: str, scenario: str | None = None) -> int:
        return self.count(column, scenario, "SUCCESS")

    def failed(self, column: str) -> int:
        return self.count(column, None, "FAILURE", "WARNING")

    def problems(self) -> list[str]:
        """Every check that differs between columns, and all other faults."""
        found = list(self.faults) if self.passed("direct") else [*self.faults, "not a single check passed"]
        for scenario in self.scenarios():
            direct = self.columns["direct"].get(scenario, Counter())
            for column in COLUMNS[1:]:
                other = self.columns[column].get(scenario, Counter())
                found += [f"{scenario}: direct but not {column}: {told}" for told in named(direct - other)]
                found += [f"{scenario}: {column} but not direct: {told}" for told in named(other - direct)]
        return found

    def judge(self, scenario: str, player: Listening) -> None:
        """Note the player's own report."""
        counted = re.search(r"(\d+) played, (\d+) missed", player.said)
        self.missed += int(counted[2]) if counted else 0
        if player.code != 0 or not counted or counted[2] != "0":
            self.faults.append(f"{scenario}: replay ended with {player.code}:\n{player.said}")

    def table(self) -> str:
        wide = max((len(scenario) for scenario in self.scenarios()), default=0) + 1
        lines = [f"{f'{self.mode} {self.revision}':{wide}}" + "".join(f"{column:>10}" for column in COLUMNS)]
        for scenario in [*self.scenarios(), None]:
            counts = "".join(f"{self.passed(column, scenario):10}" for column in COLUMNS)
            lines.append(f"{scenario or 'checks passed':{wide}}{counts}")
        lines.append(f"{'checks failed':{wide}}" + "".join(f"{self.failed(column):10}" for column in COLUMNS))
        return "\n".join([*lines, f"{'requests missed':{wide}}{self.missed:30}", *self.problems()])

    def as_json(self) -> dict[str, Any]:
        return {
            "mode": self.mode,
            "requirements": self.revision,
            "scenarios": {name: {column: self.passed(column, name) for column in COLUMNS} for name in self.scenarios()},
            "passed": {column: self.passed(column) for column in COLUMNS},
            "failed": {column: self.failed(column) for column in COLUMNS},
            "missed": self.missed,
            "problems": self.problems(),
        }


def server() -> list[str]:
    return [*warm.command(sys.executable, "-m", provision.SDK), "tests.servers.conformance"]


def client() -> list[str]:
    return warm.command(sys.executable, ROOT / "tests" / "clients" / "conformance.py", provision.SDK)


def named(checks: Checks) -> list[str]:
    return [f"{name} ({status})" for name, status in sorted(checks.elements())]


def replay(cassette: Path, *options: str) -> list[str]:
    # In the older revisions every scenario begins a session of the protocol, and so one of the cassette.
    play = ["--session", "all", "--unanswered", "silent", "--listen", "127.0.0.1:0"]
    return [*MCP_TAPE, "replay", str(cassette), *play, *options]


def cassette_of(scenario: str) -> str:
    return f"{scenario.replace('/', '-')}.db"


def compare_server(revision: str, place: Path) -> Comparison:
    """The suite as the client; in the last run the server is gone."""
    done = Comparison("server", revision)
    cassette = place / "cassette.db"
    with listening(server(), ROOT) as live:
        done.columns["direct"] = check_server(live.url, revision, place / "direct")
        with listening([*MCP_TAPE, "record", "--url", live.url, "-o", str(cassette)]) as proxy:
            done.columns["recorded"] = check_server(proxy.url, revision, place / "recorded")
    with listening(replay(cassette)) as player:
        done.columns["replayed"] = check_server(player.url, revision, place / "replayed")
    if proxy.code != 0:
        done.faults.append(f"record ended with {proxy.code}:\n{proxy.said}")
    done.judge("all scenarios", player)
    return done


def compare_client(revision: str, place: Path) -> Comparison:
    """The suite as the server; in the last run it is gone."""
    done = Comparison("client", revision)
    named = '$(echo "$MCP_CONFORMANCE_SCENARIO" | tr / -)'
    through = f'{shlex.join([*client(), "--record"])} "{place}/{named}.db"'
    direct = check_client(shlex.join(client()), revision, place / "direct")
    recorded = check_client(through, revision, place / "recorded")
    done.columns["direct"] = {scenario: checks for scenario, (checks, _) in direct.items()}
    with ThreadPoolExecutor(3) as pool:  # they mostly wait
        again = pool.map(lambda one: play_client(one[0], revision, place, one[1][1]), recorded.items())
        for (scenario, (checks, _)), (difference, player) in zip(recorded.items(), again, strict=True):
            done.columns["recorded"][scenario] = checks
            done.columns["replayed"][scenario] = Counter() if difference else checks
            if player is not None:
                done.judge(scenario, player)
            done.faults += [f"{scenario}: {difference}"] if difference else []
    return done


def play_client(scenario: str, revision: str, place: Path, printed: str) -> tuple[str, Listening | None]:
    """Return how the replay differs from the client's output while recording, and the player, if it plays."""
    if "refused" in json.loads(printed or "{}"):
        return "", None
    login = ["--auth"] if scenario.startswith("auth/") else []
    with listening(replay(place / cassette_of(scenario), *login)) as player:
        again = run([*client(), player.url], env=suite_environment(scenario, revision, printed))
    if again.returncode == 0 and again.stdout.decode() == printed:
        return "", player
    told = f"recorded\n{printed}\nreplayed with exit code {again.returncode}\n"
    return told + (again.stdout + again.stderr).decode(), player


def suite_environment(scenario: str, revision: str, printed: str) -> dict[str, str]:
    """The variables that the suite gave the client, as the client printed them."""
    told = {"MCP_CONFORMANCE_SCENARIO": scenario, "MCP_CONFORMANCE_PROTOCOL_VERSION": revision}
    context = json.loads(printed or "{}").get("context")
    return os.environ | told | ({"MCP_CONFORMANCE_CONTEXT": context} if context else {})


def compare(mode: str, revision: str) -> Comparison:
    with tempfile.TemporaryDirectory() as place:
        return (compare_server if mode == "server" else compare_client)(revision, Path(place))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.conformance", description=__doc__.partition("\n")[0])
    parser.add_argument("--requirements", action="append", choices=REVISIONS, help="a revision; all when none is named")
    parser.add_argument("--mode", action="append", choices=MODES, help="what is tested; both when none is named")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    os.environ["PATH"] = os.pathsep.join([forked.scripts(), os.environ["PATH"]])  # where clients find mcp-tape
    command(), client()  # set up once, before several need it
    pairs = [(mode, revision) for mode in options.mode or MODES for revision in options.requirements or REVISIONS]
    with ThreadPoolExecutor() as pool:  # as a client the suite mostly waits, as a server the clients work
        done = list(pool.map(lambda pair: compare(*pair), pairs))
    if options.json:
        print(json.dumps([comparison.as_json() for comparison in done], indent=2))
    else:
        print("\n\n".join(comparison.table() for comparison in done))
    return int(any(comparison.problems() for comparison in done))


if __name__ == "__main__":
    sys.exit(main())
