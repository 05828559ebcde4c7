"""The commands diff, breaking and rules, for people and CI."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.compare.rule_table import RULES
from mcp_tape.demo import client
from tests.support.diffs import taped, tool, tools
from tests.support.http_running import replaying
from tests.support.many import comparison
from tests.support.running import MCP_TAPE, WAIT, python, record, run
from tests.support.schemas import AB, STRING, an, of

ROOT = Path(__file__).parents[3]
TAPES = ROOT / "cassettes"
DEMO = [sys.executable, "-m", "mcp_tape.demo.server"]
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of the demo and of its next version; `both.db` has one session of each."""
    place = tmp_path_factory.mktemp("desk")
    client.play(record(place / "old.db", DEMO, "-q"))
    client.play(record(place / "new.db", [*DEMO, "next"], "-q"))
    client.play(record(place / "both.db", DEMO, "-q"))
    client.play(record(place / "both.db", [*DEMO, "next"], "-q"))
    return place


def mcp_tape(place: Path, *words: str, code: int = 0, **environment: str) -> str:
    """A command's output on stdout, or on stderr if it fails."""
    done = run([*MCP_TAPE, *words], cwd=place, env=os.environ | environment)
    assert done.returncode == code, (done.stdout.decode(), done.stderr.decode())
    return (done.stdout if code < 2 else done.stderr).decode()


def rules(place: Path, *words: str, code: int = 0) -> list[str]:
    found = comparison(mcp_tape(place, "diff", "--json", *words, code=code))
    return [change["rule"] for change in found["changes"]]


BREAKING = ["input-required-property-added", "call-ok-to-error", "server-major-not-bumped"]


@pytest.mark.slow
def test_a_breaking_change_is_reported_by_the_exit_code(desk: Path) -> None:
    shown = mcp_tape(desk, "diff", "old.db", "new.db", code=1)
    assert shown.startswith("3 changes: 2 error, 1 info        demo-weather 1.0 → 1.1")
    assert "error [input-required-property-added]  tool forecast" in shown
    gate = mcp_tape(desk, "breaking", "old.db", "new.db", code=1)
    assert gate.splitlines()[:3] == shown.splitlines()[:3]
    assert gate.endswith("Not shown: 1 info; to see them: --level info\nIt can break clients: 2 errors\n")


@pytest.mark.slow
def test_the_same_server_twice_has_no_changes(desk: Path) -> None:
    assert mcp_tape(desk, "breaking", "old.db", "both.db#1").startswith("no changes")


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize(
    ("old", "new"), [("old.db", "both.db"), ("both.db#1", "both.db#2"), ("both.db#1", "both.db#latest")]
)
def test_a_session_is_named_behind_a_hash(desk: Path, old: str, new: str) -> None:
    assert rules(desk, old, new, code=1) == BREAKING


def test_a_file_whose_name_has_a_hash_in_it_is_that_file(desk: Path, tmp_path: Path) -> None:
    (tmp_path / "tape.db#2").write_bytes((desk / "old.db").read_bytes())
    assert rules(tmp_path, "tape.db#2", "tape.db#2") == []


def test_surface_and_calls_can_be_compared_alone(desk: Path) -> None:
    assert rules(desk, "old.db", "new.db", "--surface", code=1) == [BREAKING[0], BREAKING[2]]
    assert rules(desk, "old.db", "new.db", "--calls", code=1) == BREAKING[1:]


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize(("level", "code"), [("error", 1), ("warn", 1), ("info", 1), ("never", 0)])
def test_fail_on_decides_the_exit_code(desk: Path, level: str, code: int) -> None:
    rules(desk, "old.db", "new.db", "--fail-on", level, code=code)


def test_a_warning_fails_only_if_asked_for(tmp_path: Path) -> None:
    # A removed argument, where any are allowed: the server's reaction is unknown.
    taped(tmp_path / "old.db", tools(tool(inputSchema=an(AB))))
    taped(tmp_path / "new.db", tools(tool(inputSchema=of(STRING))))
    assert rules(tmp_path, "old.db", "new.db") == ["input-property-removed"]
    rules(tmp_path, "old.db", "new.db", "--fail-on", "warn", code=1)


def test_a_path_that_is_ignored_does_not_count(desk: Path) -> None:
    ignored = ("--ignore-path", "$.inputSchema.properties.days", "--ignore-path", "$.error")
    assert rules(desk, "old.db", "new.db", *ignored) == []


@pytest.mark.slow
def test_a_parameter_that_is_ignored_does_not_keep_calls_apart(desk: Path, tmp_path: Path) -> None:
    client.play(record(tmp_path / "basel.db", DEMO, "-q"), None, client.ELSEWHERE)
    old = str(desk / "old.db")
    assert "call-missing" in rules(tmp_path, old, "basel.db", "--calls")
    found = rules(tmp_path, old, "basel.db", "--calls", "--ignore-path", "$.params.arguments.city")
    assert found == ["call-missing"]  # only the failing call


# -- settings of a project


def test_a_project_settles_levels_and_accepts_changes(desk: Path, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.mcp-tape.levels]\ncall-ok-to-error = "warn"\n')
    (tmp_path / ".mcp-tape-ignore").write_text("input-required-property-added tool *  # agreed\n")
    below = tmp_path / "below"
    below.mkdir()
    old, new = (str(desk / name) for name in ("old.db", "new.db"))
    shown = mcp_tape(below, "diff", old, new)
    assert "warn  [call-ok-to-error]" in shown
    assert "input-required-property-added" not in shown
    assert "1 change ignored" in shown


def test_an_unused_ignore_line_is_reported(desk: Path, tmp_path: Path) -> None:
    (tmp_path / ".mcp-tape-ignore").write_text("tool-removed tool nowcast\n")
    assert "tool-removed tool nowcast" in mcp_tape(tmp_path, "diff", str(desk / "old.db"), str(desk / "old.db"))


def test_a_line_that_means_nothing_is_wrong_usage(desk: Path, tmp_path: Path) -> None:
    (tmp_path / ".mcp-tape-ignore").write_text("# ours\ntool-remove tool x\n")
    assert ".mcp-tape-ignore, line 2" in mcp_tape(tmp_path, "diff", "a.db", "b.db", code=2)


# -- unknown parts


@pytest.mark.slow
def test_the_gate_fails_if_a_part_is_unknown(desk: Path) -> None:
    no_list = str(TAPES / "cancelled.db")  # its client never asked for the tools
    assert "UNKNOWN tools" in mcp_tape(desk, "breaking", no_list, no_list, code=1)
    assert "UNKNOWN tools" in mcp_tape(desk, "diff", no_list, no_list)
    assert "no changes" not in mcp_tape(desk, "diff", no_list, no_list)


# -- git


@pytest.fixture(scope="module")
def repository(desk: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("repository")
    (place / "tapes").mkdir()
    assert run(["git", "init", "-q", str(place)]).returncode == 0
    for name in ("old.db", "new.db"):
        (place / "tapes" / "demo.db").write_bytes((desk / name).read_bytes())
        (place / "pointer.db").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
        (place / "torn.db").write_bytes((desk / name).read_bytes()[:5000])
        assert run([*GIT, "add", "."], cwd=place).returncode == 0
        assert run([*GIT, "commit", "-q", "-m", name], cwd=place).returncode == 0
    return place


@pytest.mark.slow
def test_a_cassette_is_read_from_a_revision(repository: Path) -> None:
    assert rules(repository, "git:HEAD~1:tapes/demo.db", "tapes/demo.db", code=1) == BREAKING
    assert rules(repository / "tapes", "git:HEAD~1:demo.db", "demo.db#1", code=1) == BREAKING
    assert rules(repository, "git:HEAD:tapes/demo.db#1", "tapes/demo.db") == []


@pytest.mark.slow(quick=3)
@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("git:HEAD~1:none.db", "git has no none.db at HEAD~1"),
        ("git:nope:tapes/demo.db", "invalid object name 'nope'"),
        ("git:HEAD", "write it as git:REVISION:path/tape.db"),
        ("git:--help:tapes/demo.db", "not a git revision"),
        ("git:HEAD:..", "git has no .. at HEAD"),
        ("git:HEAD:.", "git has no . at HEAD"),
        ("git:HEAD:tapes", "git has no tapes at HEAD"),
        (f"git:HEAD:{'x' * 300}", "git has no xxx"),
        ("none.db", "there is no cassette at none.db"),
        ("tapes/demo.db#7", "does not hold session 7"),
        (
            "git:HEAD:tapes/demo.db#7",
            ": git:HEAD:tapes/demo.db does not hold session 7; see: mcp-tape ls git:HEAD:tapes/demo.db",
        ),
        ("pointer.db", "pointer.db is a pointer of git LFS, and not the cassette itself. Try: git lfs pull"),
        ("git:HEAD:torn.db", "to look at it: git show HEAD:torn.db > torn.db"),
        ("git:HEAD:pointer.db", "try: git lfs fetch origin HEAD"),
    ],
)
def test_an_unreadable_cassette_is_reported(repository: Path, reference: str, said: str) -> None:
    assert said in mcp_tape(repository, "diff", reference, "tapes/demo.db", code=3)


# -- live


def test_a_url_can_only_be_the_new_side(desk: Path) -> None:
    assert "a URL can only be NEW" in mcp_tape(desk, "breaking", "https://example.com/mcp", "old.db", code=2)


@pytest.mark.slow
def test_a_started_server_is_asked_for_its_lists(desk: Path) -> None:
    before = (desk / "old.db").read_bytes()
    assert rules(desk, "old.db", "--", *DEMO) == []
    assert rules(desk, "old.db", "--", *DEMO, "next", code=1) == [BREAKING[0], BREAKING[2]]
    assert mcp_tape(desk, "breaking", "old.db", "--", *DEMO).startswith("1 part unknown, no findings in the rest")
    assert (desk / "old.db").read_bytes() == before


@pytest.mark.parametrize("tape", ["time.db", "time-modern.db", "git.db"])
@pytest.mark.slow
def test_a_server_at_a_url_is_asked_for_its_lists_in_its_era(tape: str) -> None:
    with replaying(TAPES / tape, "-q", code=1) as server:  # the tape lacks lists that the server declares
        found = comparison(mcp_tape(TAPES, "diff", tape, server.url, "--json"))
    assert found["changes"] == []
    assert found["compared"]["tools"] > 1


@pytest.mark.slow
def test_a_legacy_server_is_asked_although_the_recording_is_modern() -> None:
    with replaying(TAPES / "time.db", "-q", code=1) as server:
        assert rules(TAPES, "time-modern.db", server.url) == []


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize(
    ("server", "timeout", "said"),
    [
        (["no-such-server"], WAIT, "there is no command 'no-such-server'"),
        (python("import sys; sys.exit('out of order')"), WAIT, "out of order"),
        (python("import sys; sys.stdin.read()"), 0.2, "did not answer initialize within 0.2 s"),
    ],
)
def test_a_server_that_does_not_answer_is_reported(desk: Path, server: list[str], timeout: float, said: str) -> None:
    assert said in mcp_tape(desk, "diff", "old.db", "--timeout", str(timeout), "--", *server, code=4)


def test_a_url_without_a_server_is_reported(desk: Path) -> None:
    assert "cannot reach http://127.0.0.1:9/mcp" in mcp_tape(desk, "diff", "old.db", "http://127.0.0.1:9/mcp", code=4)


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["old.db"], "compare old.db with what? Add another cassette"),
        (["old.db", "--"], "compare old.db with what? Add another cassette"),
        (["old.db", "new.db", "--", "server"], "either with new.db or with the command server, not both"),
    ],
)
def test_exactly_one_new_side_must_be_given(desk: Path, words: list[str], why: str) -> None:
    assert why in mcp_tape(desk, "diff", *words, code=2)


# -- formats and rules


@pytest.mark.slow
def test_each_format_is_printed(desk: Path) -> None:
    starts = {"markdown": "##", "html": "<!doctype html>", "junit": "<?xml", "github": "::error"}
    for form, start in starts.items():
        shown = mcp_tape(desk, "diff", "old.db", "new.db", "--format", form, "--fail-on", "never")
        assert shown.startswith(start), form
        assert "forecast" in shown


def test_there_are_no_colours_without_a_terminal(desk: Path) -> None:
    assert "\x1b" not in mcp_tape(desk, "diff", "old.db", "new.db", code=1)


def test_rules_lists_the_table_for_people_and_programs(tmp_path: Path) -> None:
    shown = mcp_tape(tmp_path, "diff", "--rules")
    listed: list[dict[str, Any]] = [
        json.loads(line) for line in mcp_tape(tmp_path, "diff", "--rules", "--json").splitlines()
    ]
    assert [rule["id"] for rule in listed] == list(RULES)
    for rule in listed:
        assert rule["says"].endswith(".")
        assert f"  {rule['id']} " in shown and rule["says"] in shown


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full disk to write to")
@pytest.mark.slow
def test_an_unwritable_output_is_reported(desk: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*MCP_TAPE, "diff", "old.db", "new.db"], cwd=desk, stdout=full, stderr=subprocess.PIPE, timeout=WAIT
        )
    assert (done.returncode, b"cannot write the output" in done.stderr) == (1, True)
