"""verify_one: plays one cassette's client against a live server, and returns a result."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import shutil
import sys
from functools import partial
from pathlib import Path

import pytest

from mcp_tape import verify_one
from mcp_tape.fleet.many.verifying import VerifyTask, by_file, verify_cassette
from mcp_tape.verify.plan import VerifyOptions, VerifyTarget
from tests.support.bucket import Bucket
from tests.support.golden import path_of
from tests.support.many import damaged
from tests.support.running import WAIT

DEMO = [sys.executable, "-m", "mcp_tape.demo.server"]
demo_again = partial(verify_one, command=DEMO, writes="allow", timeout=WAIT)


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    shutil.copyfile(path_of("demo"), tmp_path / "tape.db")
    return tmp_path / "tape.db"


@pytest.mark.slow
def test_a_server_that_answers_as_it_did_passes_and_nothing_is_left_behind(tape: Path) -> None:
    before = tape.read_bytes()
    result = demo_again(tape)
    assert (result.command, result.cassette, result.status, result.code) == ("verify", str(tape), "passed", 0)
    assert result.counts == {"error": 0, "warn": 0, "info": 0, "sessions": 1, "requests": 4, "left_out": 0}
    assert result.notes == (f"{tape}#1: 4 requests played, 0 left out",)
    assert tape.read_bytes() == before and list(tape.parent.iterdir()) == [tape]


@pytest.mark.slow
def test_changes_are_findings(tape: Path) -> None:
    result = verify_one(tape, command=[*DEMO, "next"], writes="allow", timeout=WAIT)
    assert result.status == "failed"
    assert {finding.what for finding in result.findings} >= {"input-required-property-added", "call-ok-to-error"}
    assert {finding.session for finding in result.findings} == {1}
    assert json.loads(json.dumps(result.as_dict()))["comparisons"][0]["cassette"] == f"{tape}#1"
    assert list(tape.parent.iterdir()) == [tape]


def test_tools_that_write_are_refused(tape: Path) -> None:
    result = verify_one(tape, command=["no-such-command-anywhere"])
    assert (result.status, result.code, [one.what for one in result.findings]) == ("refused", 2, ["options"])
    assert "--allow-writes" in result.findings[0].message


@pytest.mark.slow
def test_a_server_that_does_not_start_is_a_result(tape: Path) -> None:
    result = verify_one(tape, command=["no-such-command-anywhere"], writes="allow")
    assert (result.status, result.code, [one.what for one in result.findings]) == ("unreachable", 4, ["server"])
    assert "no-such-command-anywhere" in result.findings[0].message


def test_an_unreadable_cassette_is_a_result(tmp_path: Path) -> None:
    for path in (damaged(tmp_path / "damaged.db"), tmp_path / "missing.db", tmp_path):
        result = verify_one(path, command=DEMO)
        assert (result.status, result.code, [one.what for one in result.findings]) == ("unreadable", 3, ["file"])


@pytest.mark.parametrize(
    "given", [{}, {"command": ["a"], "url": "b"}, {"command": "a b"}, {"url": "b", "session": "x"}]
)
def test_arguments_that_make_no_sense_are_refused(tape: Path, given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"either the server's command or its url|list of words|session"):
        verify_one(tape, **given)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_process_that_shares_nothing_with_us_can_do_it(tape: Path) -> None:
    paths = [tape, damaged(tape.with_name("damaged.db"))]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.map_async(demo_again, paths).get(WAIT)
    assert [one.status for one in found] == ["passed", "unreadable"]
    assert found[1] == demo_again(paths[1])._replace(seconds=found[1].seconds)


def test_references_to_one_cassette_belong_together(tape: Path) -> None:
    other, again = tape.with_name("other.db"), tape.with_name("again.db")
    shutil.copyfile(tape, other)
    again.symlink_to(tape)
    assert by_file([f"{tape}#1", str(other), f"{again}#2"]) == [(f"{tape}#1", f"{again}#2"), (str(other),)]
    assert by_file(["git:main:tape.db", "git:v1:tape.db"]) == [("git:main:tape.db",), ("git:v1:tape.db",)]


def test_a_task_can_be_handed_to_another_process() -> None:
    task = VerifyTask(
        VerifyTarget(("a",), headers=(("K", "V"),)), VerifyOptions(recording=("--redact-key", "pin")), keeps=True
    )
    assert pickle.loads(pickle.dumps(task)) == task


@pytest.mark.slow
def test_a_cassette_in_a_bucket_is_verified_and_nothing_is_put_beside_it(bucket: Bucket, tape: Path) -> None:
    bucket.objects["team/tape.db"] = tape.read_bytes()
    task = VerifyTask(VerifyTarget((*DEMO, "next")), VerifyOptions(writes="allow", timeout=WAIT), keeps=True)
    result = verify_cassette(("s3://team/tape.db",), task)
    assert (result.status, result.cassette, result.counts["requests"]) == ("failed", "s3://team/tape.db", 4)
    assert not any("review" in note for note in result.notes) and set(bucket.verbs()) == {"GET"}
