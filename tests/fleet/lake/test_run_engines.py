"""Engines that read a lake: all give the same answers, from a directory and from a bucket."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.support.bucket import Bucket
from tests.support.docs import DOCS
from tests.support.golden import CASSETTES, GOLDEN
from tests.support.lakes import lake, rows, statuses
from tests.support.running import run
from tests.support.warm import WAIT

EXAMPLES = DOCS / "examples" / "lake"
PAIRS = sorted((DOCS / "examples" / "pairs").glob("*.db"))
FAILED = ("error", "tool-error", "refused")


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tapes(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """All golden cassettes, pairs of versions, and a copy of the demo for the next day and version."""
    later = tmp_path_factory.mktemp("tapes") / "later.jsonl"
    text = (CASSETTES / "text" / "demo.jsonl").read_text("utf-8")
    for old, new in ("1.0", "1.1"), ("2026-11-16T", "2026-11-17T"), ("Sunny, 21", "Rain, 12"):
        assert old in text
        text = text.replace(old, new)
    later.write_text(text, "utf-8")
    return [*map(str, GOLDEN), *map(str, PAIRS), str(later)]


@pytest.fixture(scope="module")
def dest(tmp_path_factory: pytest.TempPathFactory, tapes: list[str]) -> Path:
    place = tmp_path_factory.mktemp("lake")
    assert set(statuses(lake(tapes, str(place)))) == {"added"}
    return place


def by_hand(dest: Path) -> list[list[dict[str, Any]]]:
    """The expected answers, counted in Python."""
    calls, definitions = rows(dest, "calls"), rows(dest, "definitions")
    of_tools = [row for row in calls if row["method"] == "tools/call"]
    times: dict[tuple[Any, ...], list[int]] = {}
    given: dict[tuple[Any, ...], set[str]] = {}
    for row in of_tools:
        who = row["server_name"], row["server_version"], row["name"]
        if row["microseconds"] is not None:
            times.setdefault(who, []).append(row["microseconds"])
        if row["server_name"] and row["key"] and row["answer_hash"]:
            given.setdefault((*who, row["key"]), set()).add(row["answer_hash"])
    slowest = sorted(((*who, len(took), max(took)) for who, took in times.items()), key=lambda one: (-one[4], one[2]))
    days = []
    for day in sorted({row["date"] for row in calls}):
        those = [row["status"] in FAILED for row in calls if row["date"] == day]
        days.append((day, len(those), sum(those), round(sum(those) / len(those), 4)))
    changed: dict[tuple[Any, ...], int] = {}
    for (server, old, name, key), answers in given.items():
        for (other, new, _, same), others in given.items():
            if (server, key) == (other, same) and old < new and answers != others:
                changed[server, name, old, new] = changed.get((server, name, old, new), 0) + 1
    sizes: dict[tuple[Any, ...], tuple[int, Any]] = {}
    for row in definitions:
        what = row["kind"], row["server_name"], row["name"]
        sizes[what] = max(sizes.get(what, (0, 0)), (row["bytes"], row["tokens"]))
    largest = sorted(((*what, *size) for what, size in sizes.items()), key=lambda one: (-one[3], one[2], one[1]))
    return [
        named("server_name server_version name number slowest", slowest[:5]),
        named("day number errors rate", days),
        named("server_name name old new questions", [(*what, n) for what, n in sorted(changed.items())]),
        named("kind server_name name size tokens", largest[:5]),
    ]


def named(names: str, found: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [dict(zip(names.split(), row, strict=True)) for row in found]


@pytest.mark.slow
def test_the_questions_are_worth_asking(dest: Path) -> None:
    slowest, days, changed, largest = by_hand(dest)
    assert len(slowest) == len(largest) == 5 and [row["day"] for row in days] == ["2026-11-16", "2026-11-17"]
    assert named("server_name name old new questions", [("demo-weather", "forecast", "1.0", "1.1", 1)])[0] in changed
    assert {row["server_name"] for row in changed} == {"demo-weather", "mcp-git", "mcp-time"}


@pytest.fixture
def duckdb() -> Iterator[Any]:
    """A DuckDB connection that also reads URLs, with an installed extension."""
    import duckdb
    import duckdb_extension_httpfs as httpfs

    (extension,) = Path(next(iter(httpfs.__path__))).glob("extensions/v*/httpfs.duckdb_extension")
    with duckdb.connect(config={"threads": 1, "autoinstall_known_extensions": False}) as db:
        db.execute(f"LOAD '{extension}'")
        yield db


@pytest.mark.slow
def test_duckdb_gives_these_answers(dest: Path, duckdb: Any) -> None:
    asked = example("on_duckdb")
    assert list(asked.answers(asked.connected(dest, duckdb))) == by_hand(dest)


@pytest.mark.slow
def test_polars_gives_these_answers(dest: Path) -> None:
    assert list(example("on_polars").answers(dest)) == by_hand(dest)


@pytest.mark.slow
def test_clickhouse_gives_these_answers(dest: Path) -> None:
    if importlib.util.find_spec("chdb") is None:
        pytest.skip("needs ClickHouse")
    done = run([sys.executable, str(EXAMPLES / "on_clickhouse.py"), str(dest)])
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == by_hand(dest)


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch, bucket: Bucket) -> Iterator[str]:
    """Host and port of an S3 server with the bucket `team`; this process is configured to use it."""
    from moto.server import ThreadedMotoServer  # slow to load, and each process of a run collects this file

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        urlopen(Request(f"http://{host}:{port}/team", method="PUT"), timeout=WAIT).close()
        yield f"{host}:{port}"
    finally:
        server.stop()


@pytest.mark.slow
def test_duckdb_gives_these_answers_from_a_bucket(s3: str, tapes: list[str], dest: Path, duckdb: Any) -> None:
    assert set(statuses(lake(tapes, "s3://team/lake"))) == {"added"}
    duckdb.execute(
        f"CREATE SECRET (TYPE s3, KEY_ID 'key', SECRET 'secret', REGION 'us-east-1', ENDPOINT '{s3}', USE_SSL false,"
        " URL_STYLE 'path')"
    )
    asked = example("on_duckdb")
    assert list(asked.answers(asked.connected("s3://team/lake", duckdb))) == by_hand(dest)
    assert set(statuses(lake(tapes, "s3://team/lake"))) == {"there"}


@pytest.mark.slow
def test_the_recorded_output_of_clusters_equals_duckdbs(tmp_path: Path, duckdb: Any) -> None:
    results = lake(map(str, PAIRS), str(tmp_path))
    asked = example("on_duckdb")
    answers = [json.dumps(answer) for answer in asked.answers(asked.connected(tmp_path, duckdb))]
    added = [
        f"{path.relative_to(DOCS.parent)} {result.status} {result.counts['calls']}"
        for path, result in zip(PAIRS, results, strict=True)
    ]
    assert (EXAMPLES / "on_spark.txt").read_text().splitlines() == [*added, *answers]
    assert (EXAMPLES / "on_ray.txt").read_text().splitlines() == [*added, answers[0]]
