"""Many small cassettes into a bucket, back, into a lake, and asked: `python benchmarks/fleet.py`.

Everything is done by commands in processes of their own, one after the other, beside what does the same and looks at
nothing: obstore, cp, SQLite; and beside one cassette with the same messages. The bucket is a small server that keeps
all in memory (fleet_server.py), so that it is not what is measured; moto's is measured too, to know it. Needs the
extras `remote`, `lake` and `engines`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

import fleet_report as report
from client import FailedError
from contestants import TAPE, program
from measure import Results, as_installed
from options import conclude, parser, say
from reading_cassettes import make

MB = 1_000_000
_HERE = Path(__file__).parent
_PROGRAMS = [sys.executable, str(_HERE / "fleet_programs.py")]
_SERVER = [sys.executable, str(_HERE / "fleet_server.py")]
_MOTO = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
_MESSAGES = 27  # of each small cassette
_NAMES = ("github", "files", "time")
_DAYS = 28
_NOW_AND_THEN = 0.02  # seconds


@dataclass(frozen=True, slots=True)
class Size:
    counts: Sequence[int]  # of cassettes
    moto: int  # puts
    seconds: float  # the most that one command may take


FULL = Size((1_000, 10_000), 300, 1_800)
QUICK = Size((100, 1_000), 100, 300)
SMOKE = Size((6, 12), 0, 120)


class Bench:
    def __init__(self, size: Size, place: Path) -> None:
        self._size, self._place = size, place
        self._tape = program(TAPE) or TAPE
        self.results = Results()
        self.absent = [name for name in ("push", "pull", "lake") if not self._has(name)]

    def run(self) -> None:
        with served(_SERVER) as url:
            for count in self._size.counts:
                place = self._place / str(count)
                place.mkdir()
                tapes, one = small(place / "tapes", count), make(place, count * _MESSAGES)
                self._bucket(count, place, tapes, one, url)
                self._lake(count, place, tapes, one)
                shutil.rmtree(place)
        if self._size.moto and find_spec("moto"):
            self._measure_moto()

    def _has(self, command: str) -> bool:
        return subprocess.run([self._tape, command, "--help"], capture_output=True).returncode == 0

    def _bucket(self, count: int, place: Path, tapes: Path, one: Path, url: str) -> None:
        env, ours, plain, alone = s3(url), f"s3://ours/{count}", f"s3://plain{count}", f"s3://alone/{count}"
        self._timed(count, report.PUSH, report.CP, ["cp", "-r", str(tapes), str(place / "copied")])
        self._timed(count, report.PUSH, report.OBSTORE, [*_PROGRAMS, "put", str(tapes), plain], env)
        self._timed(count, report.PULL, report.CP, ["cp", "-r", str(place / "copied"), str(place / "again")])
        self._timed(count, report.PULL, report.OBSTORE, [*_PROGRAMS, "get", plain, str(place / "got")], env)
        if "push" not in self.absent:
            self._timed(count, report.PUSH, TAPE, [self._tape, "push", str(tapes), ours, "--json"], env)
            self._timed(count, report.REPEATED, TAPE, [self._tape, "push", str(tapes), ours, "--json"], env)
            self._timed(count, report.PUSH, report.ONE, [self._tape, "push", str(one), alone, "--json"], env)
        if "pull" not in self.absent:
            self._timed(count, report.PULL, TAPE, [self._tape, "pull", ours, str(place / "pulled"), "--json"], env)
            self._timed(count, report.PULL, report.ONE, [self._tape, "pull", alone, str(place / "one"), "--json"], env)

    def _lake(self, count: int, place: Path, tapes: Path, one: Path) -> None:
        if "lake" in self.absent:
            return
        for jobs in (1, 2):
            words = ["lake", str(tapes), str(place / f"lake{jobs}"), "--jobs", str(jobs), "--json"]
            self._timed(count, report.LAKE, report.jobs(jobs), [self._tape, *words])
        self._timed(count, report.LAKE, report.ONE, [self._tape, "lake", str(one), str(place / "lake"), "--json"])
        for who, lake in ((TAPE, "lake1"), (report.ONE, "lake")):
            pattern = str(place / lake / "calls" / "*" / "*" / "*.parquet")
            self._timed(count, report.QUERY, who, [*_PROGRAMS, "query", pattern])
        self._timed(count, report.QUERY, report.SQLITE, [*_PROGRAMS, "scan", str(tapes)])

    def _measure_moto(self) -> None:
        puts = small(self._place / "moto", self._size.moto)
        with served(_MOTO) as url:
            env = s3(url)
            subprocess.run([sys.executable, "-c", _MAKE, url], check=True, env=env, capture_output=True)
            self._timed(self._size.moto, report.PUSH, report.MOTO, [*_PROGRAMS, "put", str(puts), "s3://moto"], env)

    def _timed(self, count: int, figure: str, who: str, command: list[str], env: dict[str, str] | None = None) -> None:
        """Seconds, processor time and memory of a command, those that it starts included."""
        mode = report.mode(count)
        try:
            seconds, cpu, peak = _run(command, env, self._size.seconds)
        except FailedError as error:
            self.results.fail(mode, f"{figure}, {report.SECONDS}", who, str(error))
            return
        messages = count * _MESSAGES
        values = {report.SECONDS: seconds, report.CPU: cpu, report.PEAK: peak, report.RATE: messages / seconds}
        for name, value in (values | {report.PER_CORE: messages / cpu}).items():
            self.results.add(mode, f"{figure}, {name}", who, value)
        say(f"{mode}: {figure}, {who}: {seconds:.1f} s, {cpu:.1f} s of processor time, at most {peak:.0f} MB")


_MAKE = """
import sys, urllib.request
urllib.request.urlopen(urllib.request.Request(sys.argv[1] + "/moto", method="PUT"))
"""


def small(place: Path, count: int) -> Path:
    """So many cassettes of a few calls, of some servers on some days; no two are the same."""
    first = make(place.parent, _MESSAGES)
    place.mkdir()
    for number in range(count):
        path = place / f"{number:05}.db"
        shutil.copyfile(first, path)
        with contextlib.closing(sqlite3.connect(path)) as db, db:
            day = f"2026-01-{number % _DAYS + 1:02}T{number % 24:02}:00:{number % 60:02}.{number:06}Z"
            values = (day, _NAMES[number % len(_NAMES)], f"number {number}")
            db.execute("UPDATE sessions SET started_at = ?, server_name = ?, note = ?", values)
    return place


def s3(url: str) -> dict[str, str]:
    """The environment in which a server of ours is S3."""
    keys = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_REGION": "us-east-1"}
    return os.environ | keys | {"AWS_ENDPOINT_URL": url, "AWS_ALLOW_HTTP": "true", "NO_PROXY": "127.0.0.1"}


@contextlib.contextmanager
def served(command: list[str]) -> Iterator[str]:
    """The address of a server that runs meanwhile, as it prints it."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout
            for line in process.stdout:
                if "http://" in line:
                    break
            else:
                raise FailedError(f"{command} told no address")
            threading.Thread(target=process.stdout.read, daemon=True).start()  # what it says is not looked at
            yield "http://" + line.split("http://")[1].split()[0].rstrip("/")
        finally:
            process.kill()


def _run(command: list[str], env: dict[str, str] | None, seconds: float) -> tuple[float, float, float]:
    """Seconds, those of processors, and the megabytes of the largest process, of a command and all that it starts."""
    with tempfile.TemporaryFile() as errors:
        before = perf_counter()
        process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=errors)
        timer = threading.Timer(seconds, process.kill)
        timer.start()
        watch = Watch(process.pid)
        _, status, used = os.wait4(process.pid, 0)
        took = perf_counter() - before
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            raise FailedError(f"{command[:3]} ended with {process.returncode}: {errors.read(300)!r}")
    return took, used.ru_utime + used.ru_stime, watch.stop() / MB


class Watch:
    """The most memory that a process and its children ever had, looked at now and then.

    What wait4(2) says would count what we had when we started it, as `peak.py` has it.
    """

    def __init__(self, pid: int) -> None:
        self._pid, self._most, self._over = pid, 0, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        self._over.set()
        self._thread.join()
        return self._most

    def _look(self) -> None:
        while not self._over.wait(_NOW_AND_THEN):
            with contextlib.suppress(OSError):
                children = Path(f"/proc/{self._pid}/task/{self._pid}/children").read_text().split()
                for pid in (str(self._pid), *children):
                    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                    peaks = (int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))
                    self._most = max(self._most, *peaks, 0)


def main() -> int:
    options = parser("Measure many cassettes in a bucket and in a lake.").parse_args()
    size = SMOKE if options.smoke else QUICK if options.quick else FULL
    with as_installed(options.smoke), tempfile.TemporaryDirectory(prefix="mcp-tape-bench-") as place:
        bench = Bench(size, Path(place))
        bench.run()
    made = report.report(bench.results, size.counts, size.moto, bench.absent)
    return conclude(options, made, "team.md")


if __name__ == "__main__":
    sys.exit(main())
