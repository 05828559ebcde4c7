"""diff_one, and the pairs of two directories."""

from __future__ import annotations

import pickle
import shutil
import sys
from pathlib import Path

import pytest

from mcp_tape import diff_one
from mcp_tape.diff.surveys import LiveTarget
from mcp_tape.errors import CassetteError
from mcp_tape.fleet.many.diffing import CassettePair, DiffTask, compare_pair, files_of, name_of, pairs
from mcp_tape.fleet.shards import hash_of
from tests.support.bucket import Bucket
from tests.support.golden import path_of
from tests.support.many import damaged

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "pairs"
OLD, NEW = str(EXAMPLES / "git-old.db"), str(EXAMPLES / "git-new.db")
DEMO = [sys.executable, "-m", "mcp_tape.demo.server"]


@pytest.mark.slow
def test_a_change_at_the_level_that_fails_fails() -> None:
    result = diff_one(OLD, NEW)
    assert (result.command, result.cassette, result.status, result.code) == ("diff", NEW, "failed", 1)
    assert result.counts == {"error": 8, "warn": 2, "info": 50} and len(result.findings) == 60
    assert result.hash == hash_of([OLD, NEW]) and result.details == {"old": OLD, "new": NEW}
    assert diff_one(OLD, NEW, fail_on="never").status == "passed"
    assert diff_one(OLD, OLD).findings == ()


@pytest.mark.slow
def test_options_are_those_of_the_command() -> None:
    assert [one.what for one in diff_one(OLD, NEW, only=["tool-removed"]).findings] == ["tool-removed"]
    assert diff_one(OLD, NEW, parts=["surface"]).counts["error"] < 8
    assert diff_one(OLD, NEW, category="wire").counts["error"] < 8


def test_the_settings_of_a_project_hold_where_it_is_named(tmp_path: Path) -> None:
    (tmp_path / ".mcp-tape-ignore").write_text("tool-removed *\n")
    (tmp_path / "pyproject.toml").write_text('[tool.mcp-tape]\nfail-on = "never"\n')
    assert diff_one(OLD, NEW, project=tmp_path).counts["error"] == 7
    assert diff_one(OLD, NEW, project=tmp_path).status == "passed"
    (tmp_path / "pyproject.toml").write_text("[tool.mcp-tape]\nnonsense = 1\n")
    assert diff_one(OLD, NEW, project=tmp_path).status == "refused"


@pytest.mark.slow
def test_a_live_server_is_asked() -> None:
    result = diff_one(path_of("demo"), command=DEMO)
    assert result.status == "passed" and result.comparisons[0].compared["tools"] == 1
    assert "mcp_tape.demo.server" in result.details["new"]
    gone = diff_one(path_of("demo"), command=["no-such-command-anywhere"])
    assert (gone.status, gone.code, [one.what for one in gone.findings]) == ("unreachable", 4, ["server"])


def test_an_unreadable_cassette_is_a_result(tmp_path: Path) -> None:
    bad = damaged(tmp_path / "damaged.db")
    for old, new in ((OLD, bad), (bad, OLD), (OLD, tmp_path / "missing.db"), ("git:nowhere:a.db", OLD)):
        assert diff_one(old, new).status == "unreadable"


@pytest.mark.parametrize(
    "given",
    [{}, {"new": NEW, "url": "http://127.0.0.1:1/mcp"}, {"command": "python server.py"}]
    + [{"new": NEW} | more for more in ({"only": ["x"]}, {"category": "x"}, {"fail_on": "x"})],
)
def test_arguments_that_make_no_sense_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"one of: new, command, url|list of words|no rule|not a category|not a level"):
        diff_one(OLD, **given)  # type: ignore[arg-type]


def test_losses_of_another_tools_recording_are_notes_of_its_result() -> None:
    other = Path(__file__).parents[2] / "formats/others/recordings/mcp-time-travel/everything/recording.jsonl"
    result = diff_one(other, other)
    assert result.status == "passed" and result.notes and all(note.startswith(f"{other}: ") for note in result.notes)
    assert diff_one(OLD, OLD).notes == ()


def test_all_of_it_can_be_handed_to_another_process() -> None:
    pair, task = pickle.loads(pickle.dumps((CassettePair(OLD, NEW), DiffTask())))
    result = compare_pair(pair, task)
    again = pickle.loads(pickle.dumps(result))
    assert again == result and again.as_dict() == result.as_dict()


# Two directories ----------------------------------------------------------------------------------------


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("old/a.db", "old/deep/b.db", "old/gone.db", "new/a.db", "new/deep/b.db", "new/fresh.db"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path_of("time"), tmp_path / name)
    return tmp_path / "old", tmp_path / "new"


def test_cassettes_of_the_same_name_are_pairs(sides: tuple[Path, Path]) -> None:
    old, new = map(str, sides)
    assert pairs(old, new) == [
        CassettePair(f"{old}/a.db", f"{new}/a.db"),
        CassettePair(f"{old}/deep/b.db", f"{new}/deep/b.db"),
        CassettePair(None, f"{new}/fresh.db"),
        CassettePair(f"{old}/gone.db", None),
    ]


def test_one_that_is_gone_fails_and_one_that_is_new_is_named(sides: tuple[Path, Path]) -> None:
    *same, fresh, gone = (compare_pair(pair, DiffTask()) for pair in pairs(*map(str, sides)))
    assert [one.status for one in same] == ["passed", "passed"]
    assert (fresh.status, [(one.what, one.level) for one in fresh.findings]) == ("passed", [("unknown", "info")])
    assert (gone.status, [(one.what, one.level) for one in gone.findings]) == ("failed", [("unknown", "error")])
    assert fresh.hash and gone.hash


def test_a_directory_and_a_live_server_are_a_pair_for_each(sides: tuple[Path, Path]) -> None:
    found = pairs(str(sides[0]), LiveTarget(("server",)))
    assert [name_of(pair) for pair in found] == [f"{sides[0]}/{name}" for name in ("a.db", "gone.db", "deep/b.db")]
    assert [files_of(pair) for pair in found] == [[name_of(pair)] for pair in found]


def test_two_files_are_one_pair_and_a_session_of_a_file_is_shared_with_it() -> None:
    assert pairs(OLD, f"{NEW}#1") == [CassettePair(OLD, f"{NEW}#1")]
    assert files_of(CassettePair(OLD, f"{NEW}#1")) == [OLD, NEW]


def test_a_directory_and_a_file_are_no_pair(sides: tuple[Path, Path]) -> None:
    with pytest.raises(CassetteError, match=r"is a directory, and .* is not"):
        pairs(str(sides[0]), NEW)


@pytest.mark.slow
def test_cassettes_below_two_prefixes_of_a_bucket_are_compared_by_name(bucket: Bucket) -> None:
    for name, path in {"v1/git.db": OLD, "v2/git.db": NEW, "v1/gone.db": OLD}.items():
        bucket.objects[f"team/{name}"] = Path(path).read_bytes()
    git, gone = (compare_pair(pair, DiffTask()) for pair in pairs("s3://team/v1/", "s3://team/v2/"))
    assert (git.cassette, git.details["old"], git.counts["error"]) == ("s3://team/v2/git.db", "s3://team/v1/git.db", 8)
    assert (gone.cassette, gone.status) == ("s3://team/v1/gone.db", "failed")


@pytest.mark.slow
def test_a_signature_of_a_url_is_in_no_result(bucket: Bucket) -> None:
    bucket.objects["team/old.db"] = bucket.objects["team/new.db"] = path_of("demo").read_bytes()
    signed = [f"{bucket.url}/team/{name}.db?X-Amz-Signature=f00dcafe" for name in ("old", "new", "none")]
    for old, new, status in ((0, 1, "passed"), (0, 2, "unreadable"), (2, 0, "unreadable")):
        result = diff_one(signed[old], signed[new])
        assert result.status == status and "f00dcafe" not in str(result)
