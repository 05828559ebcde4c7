"""Engines that read a lake: the same answers to the same questions, whoever is asked, and from a bucket, too."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from moto.server import ThreadedMotoServer

from tests.support.docs import DOCS
from tests.support.golden import CASSETTES, GOLDEN
from tests.support.lakes import lake, rows, statuses
from tests.support.running import run

EXAMPLES = DOCS / "examples" / "lake"
FAILED = ("error", "tool-error", "refused")


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def dest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of all golden cassettes, and of the demo as it might be a day and a version later."""
    place = tmp_path_factory.mktemp("lake")
    text = (CASSETTES / "text" / "demo.jsonl").read_text("utf-8")
    for old, new in ("1.0", "1.1"), ("2026-11-16T", "2026-11-17T"), ("Sunny, 21", "Rain, 12"):
        assert old in text
        text = text.replace(old, new)
    (place / "later.jsonl").write_text(text, "utf-8")
    tapes = [*GOLDEN, *(DOCS / "examples" / "pairs").glob("*.db"), place / "later.jsonl"]
    assert set(statuses(lake(map(str, tapes), str(place / "lake")))) == {"added"}
    return place / "lake"


def by_hand(dest: Path) -> list[list[dict[str, Any]]]:
    """The answers as anybody would count them."""
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


def test_the_questions_are_worth_asking(dest: Path) -> None:
    slowest, days, changed, largest = by_hand(dest)
    assert len(slowest) == len(largest) == 5 and [row["day"] for row in days] == ["2026-11-16", "2026-11-17"]
    assert named("server_name name old new questions", [("demo-weather", "forecast", "1.0", "1.1", 1)])[0] in changed
    assert {row["server_name"] for row in changed} == {"demo-weather", "mcp-git", "mcp-time"}


@pytest.fixture
def duckdb() -> Iterator[Any]:
    """A connection of DuckDB that reads URLs, too, with an extension that was installed."""
    import duckdb
    import duckdb_extension_httpfs as httpfs

    (extension,) = Path(next(iter(httpfs.__path__))).glob("extensions/v*/httpfs.duckdb_extension")
    with duckdb.connect(config={"threads": 1, "autoinstall_known_extensions": False}) as db:
        db.execute(f"LOAD '{extension}'")
        yield db


def test_duckdb_gives_these_answers(dest: Path, duckdb: Any) -> None:
    asked = example("on_duckdb")
    assert list(asked.answers(asked.connected(dest, duckdb))) == by_hand(dest)


def test_polars_gives_these_answers(dest: Path) -> None:
    assert list(example("on_polars").answers(dest)) == by_hand(dest)


@pytest.mark.slow
def test_clickhouse_gives_these_answers(dest: Path) -> None:
    if importlib.util.find_spec("chdb") is None:
        pytest.skip("needs ClickHouse")
    done = run([sys.executable, str(EXAMPLES / "on_clickhouse.py"), str(dest)])
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == by_hand(dest)


@pytest.mark.slow
def test_duckdb_gives_these_answers_from_a_bucket(dest: Path, duckdb: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        upload(dest, f"http://{host}:{port}")
        duckdb.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID 'key', SECRET 'secret', REGION 'us-east-1',"
            f" ENDPOINT '{host}:{port}', USE_SSL false, URL_STYLE 'path')"
        )
        asked = example("on_duckdb")
        assert list(asked.answers(asked.connected("s3://team/lake", duckdb))) == by_hand(dest)
    finally:
        server.stop()


def upload(dest: Path, url: str) -> None:
    import boto3

    client = boto3.client("s3", endpoint_url=url, region_name="us-east-1")
    client.create_bucket(Bucket="team")
    for path in dest.rglob("*.parquet"):
        client.upload_file(str(path), "team", os.path.join("lake", path.relative_to(dest)))


def test_what_clusters_have_printed_is_what_duckdb_answers(tmp_path: Path, duckdb: Any) -> None:
    tapes = sorted((DOCS / "examples" / "pairs").glob("*.db"))
    results = lake(map(str, tapes), str(tmp_path))
    asked = example("on_duckdb")
    answers = [json.dumps(answer) for answer in asked.answers(asked.connected(tmp_path, duckdb))]
    added = [
        f"{path.relative_to(DOCS.parent)} {result.status} {result.counts['calls']}"
        for path, result in zip(tapes, results, strict=True)
    ]
    assert (EXAMPLES / "on_spark.txt").read_text().splitlines() == [*added, *answers]
    assert (EXAMPLES / "on_ray.txt").read_text().splitlines() == [*added, answers[0]]
