"""Many small cassettes: into a bucket, back, into a lake, and queried; compared with plain copies.

The bucket is a small server that keeps everything in memory (fleet_server.py), so that it is not the bottleneck. Needs
the extras `remote` and `lake`, and DuckDB.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path

from measure import TAPE, Bench, Figure
from processes import Served, cost, ours, python

from cassettes import make_long

_MESSAGES = 27  # in each small cassette
_SERVERS = ("github", "files", "time")
_DAYS, _SECONDS = 28, 1_800
_GROWTH, _JOBS = 1.5, 0.83  # memory relative to a tenth of the cassettes; time relative to one process
_FLAT = ("push", "pull", "lake")  # memory must not grow with the number of cassettes
_ONE, _OBSTORE, _CP, _SQLITE = "one cassette", "plain obstore", "cp", "SQLite"


def fleet(bench: Bench) -> None:
    """Seconds and the largest process; and the growth of memory with ten times as many cassettes."""
    many = bench.pick(10_000, 1_000, 20)
    few = many // 10
    with Served(python("fleet_server.py"), 10 * _SECONDS) as server:
        for count in (few, many):
            _measure(bench, count, few, server.url)


def _measure(bench: Bench, count: int, few: int, url: str) -> None:
    place = bench.place / str(count)
    place.mkdir()
    tapes, one = _small(place / "tapes", count), make_long(place, count * _MESSAGES)
    keys = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_REGION": "us-east-1"}
    env = os.environ | keys | {"AWS_ENDPOINT_URL": url, "AWS_ALLOW_HTTP": "true", "NO_PROXY": "127.0.0.1"}
    bucket, plain, alone = f"s3://ours/{count}", f"s3://plain{count}", f"s3://alone/{count}"

    def run(what: str, who: str, command: list[str]) -> None:
        figure = f"{what}, {count:,} cassettes"
        with bench.measure(figure, who):
            took = cost(command, _SECONDS, env)
            bench.add(figure, who, took.seconds)
            if who == TAPE and what in _FLAT:
                bench.add(f"{what}, largest process", f"{count:,} cassettes", took.peak)
            bench.say(f"{figure}, {who}: {took.seconds:.1f} s")

    run("push", _CP, ["cp", "-r", str(tapes), str(place / "copied")])
    run("push", _OBSTORE, python("fleet_programs.py", "put", str(tapes), plain))
    run("push", TAPE, ours("push", str(tapes), bucket, "--json"))
    run("push", _ONE, ours("push", str(one), alone, "--json"))
    run("push again", TAPE, ours("push", str(tapes), bucket, "--json"))
    run("pull", _CP, ["cp", "-r", str(place / "copied"), str(place / "again")])
    run("pull", _OBSTORE, python("fleet_programs.py", "get", plain, str(place / "got")))
    run("pull", TAPE, ours("pull", bucket, str(place / "pulled"), "--json"))
    run("pull", _ONE, ours("pull", alone, str(place / "one"), "--json"))
    run("lake", "one job", ours("lake", str(tapes), str(place / "lake1"), "--jobs", "1", "--json"))
    run("lake", TAPE, ours("lake", str(tapes), str(place / "lake2"), "--jobs", "2", "--json"))
    run("lake", _ONE, ours("lake", str(one), str(place / "lake3"), "--jobs", "1", "--json"))
    run("query", _SQLITE, python("fleet_programs.py", "scan", str(tapes)))
    for who, lake in ((TAPE, "lake2"), (_ONE, "lake3")):
        run("query", who, python("fleet_programs.py", "query", str(place / lake / "calls" / "*" / "*" / "*.parquet")))
    shutil.rmtree(place)
    bench.figures += [
        Figure(f"{name}, {count:,} cassettes", "s", _JOBS if name == "lake" and count != few else None, "one job")
        for name in ("push", "push again", "pull", "lake", "query")
    ]
    if count != few:
        bench.figures += [
            Figure(f"{name}, largest process", "MB", _GROWTH, f"{few:,} cassettes", who=f"{count:,} cassettes")
            for name in _FLAT
        ]


def _small(place: Path, count: int) -> Path:
    """Different cassettes of a few calls each, of several servers and days."""
    first = make_long(place.parent, _MESSAGES)
    place.mkdir()
    for number in range(count):
        path = place / f"{number:05}.db"
        shutil.copyfile(first, path)
        with contextlib.closing(sqlite3.connect(path)) as db, db:
            day = f"2026-01-{number % _DAYS + 1:02}T{number % 24:02}:00:{number % 60:02}.{number:06}Z"
            values = (day, _SERVERS[number % len(_SERVERS)], f"number {number}")
            db.execute("UPDATE sessions SET started_at = ?, server_name = ?, note = ?", values)
    return place
