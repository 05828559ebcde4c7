"""check_one: checks one cassette, and returns a result."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from mcp_tape import Result, check_one
from mcp_tape.cassette.query.integrity import check
from mcp_tape.cassette.reader import Cassette
from mcp_tape.fleet.many.checking import CheckTask, Contract, check_cassette
from mcp_tape.fleet.shards import content_hash
from mcp_tape.redaction.redactor import Redactor
from tests.support.bucket import Bucket
from tests.support.decks import make_cassette
from tests.support.golden import path_of
from tests.support.many import SECRET, damaged, many, rows
from tests.support.reading import invoke
from tests.support.running import MCP_TAPE, run


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    return make_cassette(tmp_path / "secret.db", [("client", SECRET)])


def test_a_cassette_without_faults_passes() -> None:
    result = check_one(path_of("time"))
    assert (result.command, result.cassette, result.status, result.code) == ("check", str(path_of("time")), "passed", 0)
    assert (result.counts, result.findings, result.hash) == ({"findings": 0}, (), content_hash(str(path_of("time"))))


def test_findings_are_those_of_check(secret: Path) -> None:
    result = check_one(secret)
    with Cassette(secret) as cassette:
        found = [(one.what, one.message, one.session, one.seq, one.path) for one in check(cassette, Redactor({}))]
    assert [(one.what, one.message, one.session, one.seq, one.path) for one in result.findings] == found
    assert result.counts == {"findings": 1, "secret": 1} and result.status == "failed" and result.code == 1


def test_losses_of_another_tools_format_are_reported_and_pass() -> None:
    result = check_one(Path(__file__).parents[2] / "formats/others/recordings/mcp-recorder/odd.json")
    assert (result.status, result.counts) == ("passed", {"findings": 0})
    assert {(finding.what, finding.level) for finding in result.findings} == {("import", "info")}


def test_an_unreadable_cassette_is_a_result(tmp_path: Path) -> None:
    for path in (damaged(tmp_path / "damaged.db"), tmp_path / "missing.db", tmp_path):
        result = check_one(path)
        assert (result.status, result.code) == ("unreadable", 3)
        assert [finding.what for finding in result.findings] == ["file"] and str(path) in result.findings[0].message


def test_a_contract_counts() -> None:
    result = check_one(
        path_of("time"), expect="tool:nothing", forbid=["tools/call"], max={"tools/list": 0}, max_duration=1e-6
    )
    assert {finding.what for finding in result.findings} == {"contract"}
    assert len(result.findings) >= 4


def test_rules_of_ones_own_count(tmp_path: Path) -> None:
    tape = make_cassette(
        tmp_path / "tape.db", [("client", '{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"C-1"}}')]
    )
    assert check_one(tape).status == "passed"
    assert check_one(tape, redact_values=["C-[0-9]"]).counts["secret"] == 1


@pytest.mark.parametrize("wrong", [{"expect": ["tool:"]}, {"session": "newest"}])
def test_arguments_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"filter|session"):
        check_one(path_of("time"), **wrong)  # type: ignore[arg-type]


def test_all_of_it_can_be_handed_to_another_process(secret: Path) -> None:
    task = CheckTask(Contract(expect=("tool:a",), limits=(("tools/call", 3),), duration=0.5))
    result = check_cassette(str(secret), pickle.loads(pickle.dumps(task)))
    assert pickle.loads(pickle.dumps(result)) == result
    assert isinstance(result, Result)


# In a bucket ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_processes_and_shares_take_cassettes_of_a_bucket(bucket: Bucket, tmp_path: Path) -> None:
    for path in many(tmp_path / "tapes", 8):
        bucket.objects[f"team/{path.relative_to(tmp_path)}"] = path.read_bytes()
    whole = run([*MCP_TAPE, "check", "s3://team/tapes/", "--jobs", "2", "--json"])
    assert whole.returncode == 3, whole.stderr
    found = {row["cassette"]: row["status"] for row in rows(whole.stdout)}
    assert len(found) == 9 and found.pop("s3://team/tapes/07.db") == "unreadable"
    assert found.pop("s3://team/tapes/04.db") == "failed" and set(found.values()) == {"passed"}
    shares = [rows(invoke("check", "s3://team/tapes/", "--shard", f"{at}/2", "--json").stdout) for at in (1, 2)]
    assert sorted(row["cassette"] for share in shares for row in share) == [
        row["cassette"] for row in rows(whole.stdout)
    ]


def test_a_signed_url_is_shown_without_its_signature(bucket: Bucket) -> None:
    bucket.objects["team/time.db"] = path_of("time").read_bytes()
    for name, status in (("time.db", "passed"), ("missing.db", "unreadable")):
        result = check_one(f"{bucket.url}/team/{name}?X-Amz-Signature=f00dcafe")
        assert result.status == status, result.findings
        assert "f00dcafe" not in str(result) and name in result.cassette
