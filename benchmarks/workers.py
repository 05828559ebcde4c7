"""One cassette for many clients: wrk puts the same load on one, two and four workers. Needs wrk (`apt-get install
wrk`).

wrk shares the cores, so the processor time of a request is more telling than the rate: it predicts another core's
gain.
"""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from shutil import which

from calls import LEGACY, Talk, Way, recorded
from measure import Bench, FailedError, Figure
from processes import Connection, Served, cpu, family, ours, proportional, python

_CALLS, _CONNECTIONS = 50, 32
_MODERN, _SESSIONS, _SHARED = "no session", "a session a connection", "sessions, connections shared"
_WAYS = {_MODERN: Way("modern"), _SESSIONS: Way("legacy", LEGACY), _SHARED: Way("legacy", LEGACY)}
_ONE = "1 worker"
_MOST_CPU, _LEAST_RATE = 1.25, 1.0  # relative to one worker, which does more each time it wakes
# wrk gives each thread its own Lua: https://github.com/wg/wrk/blob/master/SCRIPTING
_SCRIPT = """
local every, threads, at = {%s}, 0, 0
function setup(thread) thread:set("number", threads); threads = threads + 1 end
function init() mine = every[number %% #every + 1] end
function request() at = at + 1; return mine[at %% #mine + 1] end
"""
_PAUSE = "function delay() return 2 end\n"


def workers(bench: Bench) -> None:
    """Requests per second, processor time per request, and memory per worker."""
    wrk = which("wrk")
    if wrk is None:
        sys.exit("this needs wrk; on Debian: apt-get install wrk")
    names = [_ONE, "2 workers", *([] if bench.size == "smoke" else ["4 workers"])]
    for name, way in _WAYS.items():
        promised = name != _SHARED
        bench.figures += [
            Figure(name, "requests/s", _LEAST_RATE if promised else None, _ONE, who="2 workers"),
            Figure(f"{name}: a request", "µs CPU", _MOST_CPU if promised else None, _ONE, who="2 workers"),
            Figure(f"{name}: a worker", "MB"),
        ]
        tape = bench.place / f"{way.name}.db"
        if not tape.exists():
            _record(way, tape)
        for who in bench.rounds(bench.pick(3, 1, 1), names):
            number = who.partition(" ")[0]
            command = ours("replay", str(tape), "--listen", "127.0.0.1:0", "--repeats", "cycle", "--workers", number)
            with bench.measure(name, who):
                _load(bench, name, way, command, who, wrk)
        bench.say(name)


def _load(bench: Bench, name: str, way: Way, command: list[str], who: str, wrk: str) -> None:
    seconds, many = bench.pick((5, _CONNECTIONS), (3, _CONNECTIONS), (1, 4))
    with Served(command, 60 + seconds) as served, ExitStack() as stack:
        script = _write_script(bench, name, way, served.url, many, stack)
        pids = family(served.process.pid)
        before = cpu(pids)
        words = [wrk, "-t", str(many), "-c", str(many), "-d", f"{seconds}s", "--timeout", "30s", "-s", script]
        done = subprocess.run([*words, served.url], capture_output=True, text=True, timeout=120)
        found = re.search(r"(\d+) requests in(?s:.*)Requests/sec: +([0-9.]+)", done.stdout)
        if done.returncode or re.search("Socket errors|Non-2xx", done.stdout) or not found:
            raise FailedError(f"wrk: {done.stdout} {done.stderr}")
        bench.add(name, who, float(found[2]))
        bench.add(f"{name}: a request", who, (cpu(pids) - before) / int(found[1]) * 1e6)
        each = [proportional(pid) for pid in pids[1:] or pids]
        bench.add(f"{name}: a worker", who, sum(each) / len(each))
        served.stop()


def _write_script(bench: Bench, name: str, way: Way, url: str, many: int, stack: ExitStack) -> str:
    """The requests of wrk's threads: all the same, one session each, or all sessions in turn."""
    talks = [Talk(url, way) for _ in range(1 if name == _MODERN else many)]
    for talk in talks:
        talk.begin(stack.enter_context(Connection(url)))  # separate connections, as clients have
    each = [talk.requests(recorded(_CALLS)) for talk in talks]
    if name == _SHARED:
        each = [[requests[number] for number in range(_CALLS) for requests in each]]
    texts = (",".join('"' + "".join(f"\\{byte:03}" for byte in one) + '"' for one in requests) for requests in each)
    path: Path = bench.place / "wrk.lua"
    path.write_text(_SCRIPT % ",".join(f"{{{text}}}" for text in texts) + (_PAUSE if bench.size == "smoke" else ""))
    return str(path)


def _record(way: Way, tape: Path) -> None:
    with (
        Served(python("http_programs.py", "sdk", "json"), 60) as live,
        Served(ours("record", "-q", "-o", str(tape), "--url", live.url), 60) as recorder,
    ):
        talk, calls = Talk(recorder.url, way), recorded(_CALLS)
        with Connection(recorder.url) as connection:
            talk.begin(connection)
            talk.check([connection.ask(request) for request in talk.requests(calls)], calls)
        recorder.stop()
