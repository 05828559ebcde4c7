"""Findings of verify for a server that has changed, and none for one that has not."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mcp_tape.demo import client
from tests.support.golden import path_of
from tests.support.http_running import replaying
from tests.support.many import comparison
from tests.support.running import MCP_TAPE, record, run
from tests.support.verifying import changes, play

DEMO = [sys.executable, "-m", "mcp_tape.demo.server"]
BREAKING = ["input-required-property-added", "call-ok-to-error", "server-major-not-bumped"]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`demo.db`, and `both.db` with two sessions of it."""
    place = tmp_path_factory.mktemp("desk")
    for name in ("demo.db", "both.db", "both.db"):
        client.play(record(place / name, DEMO, "-q"))
    return place


def verify(place: Path, *words: str, code: int, **environment: str) -> str:
    done = run([*MCP_TAPE, "verify", *words], cwd=place, env=os.environ | {"CI": "true"} | environment)
    assert done.returncode == code, (done.stdout.decode(), done.stderr.decode())
    return done.stdout.decode()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["demo", "time", "time-modern", "git", "modern", "everything"])
def test_a_golden_cassette_is_verified_over_http_at_its_own_replay(name: str, tmp_path: Path) -> None:
    with replaying(path_of(name), "-q") as server:
        done = play(path_of(name), tmp_path, server.url)
    assert (done.failures, done.skipped) == ((), ())
    assert changes(done) == []


@pytest.mark.slow
def test_the_same_server_passes_and_its_next_version_does_not(desk: Path) -> None:
    same = verify(desk, "demo.db", "--allow-writes", "--", *DEMO, code=0)
    assert same.startswith("no changes        demo.db#1: demo-weather 1.0 → 1.0")
    found = comparison(verify(desk, "demo.db", "--allow-writes", "--json", "--", *DEMO, "next", code=1))
    assert [change["rule"] for change in found["changes"]] == BREAKING
    assert found["cassette"] == "demo.db#1"


@pytest.mark.slow
def test_the_settings_of_the_project_hold_here_too(desk: Path, tmp_path: Path) -> None:
    (tmp_path / ".mcp-tape-ignore").write_text("input-required-property-added tool *\n$.error call *\n")
    tape = str(desk / "demo.db")
    assert "2 changes ignored" in verify(tmp_path, tape, "--allow-writes", "--", *DEMO, "next", code=0)
    assert verify(desk, "demo.db", "--allow-writes", "--fail-on", "never", "--", *DEMO, "next", code=0)


@pytest.mark.slow
def test_several_sessions_are_one_document(desk: Path) -> None:
    words = ("demo.db", "both.db", "--session", "all", "--allow-writes")
    suites = ElementTree.fromstring(verify(desk, *words, "--format", "junit", "--", *DEMO, "next", code=1))
    assert [suite.get("name") for suite in suites] == ["mcp-tape verify: demo.db", "mcp-tape verify: both.db"]
    assert suites.get("failures") == "6"
    page = verify(desk, *words, "--format", "html", "--", *DEMO, code=0)
    assert page.count("<!doctype html>") == 1
    assert page.count("<article>") == 3


@pytest.mark.slow
def test_an_annotation_points_at_its_own_cassette(desk: Path) -> None:
    words = ("demo.db", "both.db", "--allow-writes", "--format", "github")
    errors = [line for line in verify(desk, *words, "--", *DEMO, "next", code=1).splitlines() if "::error" in line]
    assert [line.partition("file=")[2].partition("::")[0] for line in errors] == ["demo.db"] * 2 + ["both.db"] * 2
