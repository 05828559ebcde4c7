"""Commands on many cassettes: in processes that may die, in shares, with one bad cassette among them."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from xml.etree import ElementTree

import pytest

from tests.support.docs import example
from tests.support.golden import path_of
from tests.support.many import damaged, many, rows, timeless
from tests.support.reading import invoke
from tests.support.running import MCP_TAPE, WAIT, alive, children, python, run, started, until

DEMO = [sys.executable, "-m", "mcp_tape.demo.server"]
# A server that reports its start, and waits for permission to begin.
GATED = python(
    "import os, sys, runpy, threading\n"
    "place, pause = sys.argv.pop(), threading.Event()\n"
    "open(os.path.join(place, f'{os.getpid()}.started'), 'w').close()\n"
    "for _ in range(6000):\n"
    "    if os.path.exists(os.path.join(place, 'go')): break\n"
    "    pause.wait(0.01)\n"
    "runpy.run_module('mcp_tape.demo.server', run_name='__main__')"
)


@pytest.fixture(scope="module")
def tapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("tapes")
    many(place / "tapes")
    return place


def told(place: Path, *words: str) -> tuple[int, str, str]:
    """The exit code and output of a command, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        done = invoke(*words)
    return done.exit_code, done.stdout, done.stderr


# One bad among many -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_one_that_is_damaged_is_a_finding_among_twenty(tapes: Path) -> None:
    code, out, _ = told(tapes, "check", "tapes", "--jobs", "1", "--json")
    found = {row["cassette"]: row["status"] for row in rows(out)}
    assert code == 3
    assert len(found) == 21 and list(found) == sorted(found, key=lambda name: (name.count("/"), name))
    assert {name: status for name, status in found.items() if status != "passed"} == {
        "tapes/04.db": "failed",
        "tapes/07.db": "unreadable",
    }


@pytest.mark.slow
def test_one_is_printed_as_many_are(tapes: Path) -> None:
    code, out, err = told(tapes, "check", "tapes")
    assert code == 3 and err == "mcp-tape: 21 cassettes: 19 passed, 1 failed, 1 unreadable\n"
    assert [line.partition(":")[0] for line in out.splitlines()] == ["tapes/04.db", "tapes/07.db"]
    for words in (["check"], ["redact", "--dry-run"], ["diff", "tapes/01.db"], ["breaking", "tapes/01.db"]):
        (of_one,) = rows(told(tapes, *words, "tapes/04.db", "--json")[1])
        (of_many,) = rows(told(tapes, *words, "tapes/04.db", "--shard", "1/1", "--jobs", "2", "--json")[1])
        assert set(of_one) == set(of_many) and of_one["findings"] == of_many["findings"], words


@pytest.mark.parametrize("words", [["redact", "--dry-run"], ["redact", "--dry-run", "--jobs", "1"]])
def test_redact_goes_on_after_one_that_is_damaged(tapes: Path, words: list[str]) -> None:
    code, out, err = told(tapes, *words, "tapes")
    assert code == 3 and out.split() == ["1", "[redacted:key:password]"]
    assert err.count("nothing to hide in ") == 19 and "tapes/07.db" in err


@pytest.mark.slow
def test_diff_of_two_directories_goes_on_after_one_that_is_damaged(tapes: Path, tmp_path: Path) -> None:
    shutil.copytree(tapes / "tapes", tmp_path / "new")
    (tmp_path / "new" / "05.db").unlink()
    code, out, err = told(tapes, "diff", "tapes", str(tmp_path / "new"))
    assert code == 3 and err.count("cannot read") == 1
    assert "tapes/05.db → gone" in out
    code, out, _ = told(tapes, "diff", "tapes", str(tmp_path / "new"), "--json", "--jobs", "1")
    assert {row["status"] for row in rows(out)} == {"passed", "failed", "unreadable"}
    assert [row["old"] for row in rows(out) if row["status"] == "failed"] == ["tapes/05.db"]


def test_a_directory_without_cassettes_is_an_error(tmp_path: Path) -> None:
    code, out, err = told(tmp_path, "check", ".")
    assert (code, out) == (3, "") and "is a directory without cassettes" in err


@pytest.mark.parametrize("words", [["--shard", "0/4"], ["--shard", "half"], ["--jobs", "many"], ["--jobs", "-1"]])
def test_options_that_make_no_sense_are_refused(tapes: Path, words: list[str]) -> None:
    code, _, err = told(tapes, "check", "tapes", *words)
    assert code == 2 and words[1] in err and ("e.g." in err or "the first of 4 is 1/4" in err)


# Shares -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["check", "redact --dry-run", "diff tapes"])
def test_shares_are_everything_and_nothing_twice(tapes: Path, command: str) -> None:
    name, *options = command.split()
    found = [rows(told(tapes, name, *options, "tapes", "--json", "--shard", f"{at}/3")[1]) for at in (1, 2, 3)]
    names = [row["cassette"] for share in found for row in share]
    assert len(names) == len(set(names)) == 21 and all(found)
    assert {row["of"] for share in found for row in share} == {21}
    assert [{row["shard"] for row in share} for share in found] == [{"1/3"}, {"2/3"}, {"3/3"}]


def test_a_share_that_is_empty_is_no_failure(tmp_path: Path) -> None:
    shutil.copyfile(path_of("time"), tmp_path / "a.db")
    found = [told(tmp_path, "check", "a.db", "--shard", f"{at}/2") for at in (1, 2)]
    assert [code for code, *_ in found] == [0, 0]
    assert sorted(err for *_, err in found) == [
        f"mcp-tape: 0 cassettes of 1, share {'1' if '0 cass' in found[0][2] else '2'}/2: nothing to do\n",
        f"mcp-tape: 1 cassette of 1, share {'2' if '0 cass' in found[0][2] else '1'}/2: 1 passed\n",
    ]


# Processes ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "json", "junit"])
def test_it_makes_no_difference_how_many_processes_there_are(tapes: Path, form: str) -> None:
    words = [*MCP_TAPE, "check", "tapes", "--format", form, "--shard", "1/1", "--forbid", "tools/call"]
    one, three = (run([*words, "--jobs", jobs], cwd=tapes) for jobs in ("1", "3"))
    assert one.returncode == three.returncode == 3
    assert timeless(one.stdout) == timeless(three.stdout) and one.stderr == three.stderr
    assert one.stdout.count(b"07.db")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "json", "junit", "sarif"])
def test_it_makes_no_difference_to_diff_either(tapes: Path, tmp_path: Path, form: str) -> None:
    pairs = Path(__file__).parents[2] / "docs" / "examples" / "pairs"
    for side in ("old", "new"):
        (tmp_path / side).mkdir()
        shutil.copyfile(pairs / f"git-{side}.db", tmp_path / side / "git.db")
        shutil.copyfile(path_of("demo"), tmp_path / side / "demo.db")
    damaged(tmp_path / "new" / "demo.db")
    shutil.copyfile(path_of("time"), tmp_path / "old" / "time.db")
    words = [*MCP_TAPE, "diff", "old", "new", "--format", form]
    one, three = (run([*words, "--jobs", jobs], cwd=tmp_path) for jobs in ("1", "3"))
    assert one.returncode == three.returncode == 3, one.stderr
    assert timeless(one.stdout) == timeless(three.stdout) and one.stderr == three.stderr
    assert b"tool-removed" in one.stdout


@contextmanager
def verifying(place: Path, *words: str) -> Iterator[Popen[bytes]]:
    """verify, with two servers that have started and wait."""
    for name in ("a.db", "b.db", "c.db"):
        shutil.copyfile(path_of("demo"), place / name)
    command = [*MCP_TAPE, "verify", "a.db", "b.db", "c.db", "--jobs", "2", "--allow-writes", "--no-keep", "--json"]
    with started([*command, *words, "--", *GATED, str(place)], cwd=place) as process:
        until(lambda: len(begun(place)) == 2, "two servers")
        yield process


def begun(place: Path) -> list[int]:
    """The servers that have started, by process."""
    return [int(path.stem) for path in place.glob("*.started")]


@pytest.mark.slow
def test_a_process_that_is_killed_is_a_finding_and_the_others_go_on(tmp_path: Path) -> None:
    with verifying(tmp_path) as process:
        workers = children(process.pid)
        assert len(workers) == 2
        os.kill(min(workers), signal.SIGKILL)
        until(lambda: not alive(min(workers)), "its end")
        (tmp_path / "go").touch()
        out, err = process.communicate(timeout=WAIT)
    found = rows(out)
    assert process.returncode == 1, err
    assert [row["cassette"] for row in found] == ["a.db", "b.db", "c.db"]
    assert sorted(row["status"] for row in found[:2]) == ["crashed", "passed"] and found[2]["status"] == "passed"
    (crashed,) = [row for row in found if row["status"] == "crashed"]
    assert "killed by signal 9 (SIGKILL)" in crashed["findings"][0]["message"]
    assert "killed by signal 9 (SIGKILL)" in err.decode()


@pytest.mark.slow
def test_a_closed_reader_of_stdout_ends_it(tmp_path: Path) -> None:
    with verifying(tmp_path) as process:
        assert process.stdout and process.stderr
        workers = children(process.pid)
        process.stdout.close()
        (tmp_path / "go").touch()
        assert process.wait(WAIT) == 0, process.stderr.read()  # nothing was found until then
        until(lambda: not any(map(alive, [*workers, *begun(tmp_path)])), "the end of all")
        assert process.stderr.read() == b""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_processes(tmp_path: Path, number: int) -> None:
    with verifying(tmp_path) as process:
        workers = children(process.pid)
        process.send_signal(number)
        out, err = process.communicate(timeout=WAIT)
        until(lambda: not any(map(alive, [*workers, *begun(tmp_path)])), "the end of all")
    assert (process.returncode, out) == (128 + number, b""), err
    assert b"Traceback" not in err
    assert len(begun(tmp_path)) == 2  # none started after that


@pytest.mark.slow
def test_a_server_that_does_not_start_is_a_finding_of_each(tmp_path: Path) -> None:
    for name in ("a.db", "b.db"):
        shutil.copyfile(path_of("demo"), tmp_path / name)
    damaged(tmp_path / "c.db")
    words = ["verify", ".", "--allow-writes", "--jobs", "2", "--json", "--", "no-such-command-anywhere"]
    done = run([*MCP_TAPE, *words], cwd=tmp_path)
    assert [row["status"] for row in rows(done.stdout)] == ["unreachable", "unreachable", "unreadable"]
    assert done.returncode == 4


@pytest.mark.slow
def test_several_that_are_verified_one_after_the_other_are_as_patient(tmp_path: Path) -> None:
    """Without the options of a run over many: one row for each, even for an unreadable one."""
    shutil.copyfile(path_of("demo"), tmp_path / "a.db")
    damaged(tmp_path / "b.db")
    words = ["--allow-writes", "--no-keep", "--format"]
    done = run([*MCP_TAPE, "verify", ".", *words, "json", "--", *DEMO], cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert [(row["cassette"], row["status"]) for row in rows(done.stdout)] == [
        ("a.db", "passed"),
        ("b.db", "unreadable"),
    ]
    done = run([*MCP_TAPE, "verify", ".", *words, "junit", "--", *DEMO], cwd=tmp_path)
    suites = ElementTree.fromstring(done.stdout)
    assert [(suite.get("errors"), suite.get("name")) for suite in suites] == [
        ("0", "mcp-tape verify: a.db"),
        ("1", "mcp-tape verify: b.db"),
    ]


@pytest.mark.slow
def test_a_missing_requirement_of_one_cassette_starts_nothing_for_it(tmp_path: Path) -> None:
    shutil.copyfile(path_of("demo"), tmp_path / "writes.db")
    server = ["--", *GATED, str(tmp_path)]
    for jobs in ("1", "2"):
        done = run([*MCP_TAPE, "verify", "writes.db", "--json", "--jobs", jobs, *server], cwd=tmp_path)
        assert [row["status"] for row in rows(done.stdout)] == ["refused"] and done.returncode == 2
        assert b"--allow-writes" in done.stderr and not begun(tmp_path)


# Examples in the manual ------------------------------------------------------------------------------------


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    (tmp_path / "tapes").mkdir()
    for name in ("a.db", "b.db"):
        shutil.copyfile(path_of("demo"), tmp_path / "tapes" / name)
    return tmp_path


@pytest.mark.slow
def test_the_functions_run_in_workers_of_xdist(shelf: Path) -> None:
    example("docs/team.md", "test_recordings.py", shelf, lambda text: text.replace('"python"', repr(sys.executable)))
    words = ["-m", "pytest", "-q", "-p", "xdist", "-n", "2", "-p", "no:cacheprovider", "."]
    done = run([sys.executable, *words], cwd=shelf, env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    assert done.returncode == 0, done.stdout
    assert b"2 passed" in done.stdout


@pytest.mark.slow
def test_the_functions_run_in_processes_that_share_nothing(shelf: Path) -> None:
    example("docs/team.md", "spread.py", shelf)
    done = run([sys.executable, "spread.py"], cwd=shelf)
    assert done.stdout.decode().splitlines() == [f"tapes/{name}.db passed {{'findings': 0}}" for name in "ab"], (
        done.stderr
    )


@pytest.mark.slow
def test_the_manual_names_every_member_of_a_row(tapes: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "api.md").read_text("utf-8")
    found = [rows(told(tapes, *words, "--json", "--jobs", "1")[1])[0] for words in (
        ["check", "tapes"], ["redact", "tapes", "--dry-run"], ["diff", "tapes", "tapes"],
    )]  # fmt: skip
    assert {name for row in found for name in row if f"`{name}`" not in page} == set()


# What many cassettes are, in every command that takes several


MANY = [
    ["ls"], ["check"], ["redact", "--dry-run"], ["lake", "lake"], ["merge", "-o", "merged.db"],
    ["convert", "both.html"], ["review", "--list"],
]  # fmt: skip


@pytest.mark.parametrize("words", MANY, ids=lambda words: words[0])
@pytest.mark.parametrize("places", [["tapes"], ["tapes/*.db"], ["tapes/a.db", "tapes/b.db"]], ids=str)
def test_many_cassettes_are_named_the_same_way_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], places: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tapes = tmp_path / "tapes"
    tapes.mkdir()
    for name in ("a.db", "b.db"):
        shutil.copyfile(path_of("demo" if name == "a.db" else "time"), tapes / name)
    name, *more = words
    before = more if name in ("check", "redact", "merge", "review") else []
    after = more if name in ("lake", "convert") else []
    result = invoke(name, *before, *places, *after)
    assert result.exit_code == 0, result.output
    if name not in ("check", "lake", "convert", "review"):
        assert all(f"tapes/{one}" in result.output for one in ("a.db", "b.db"))
    assert name != "convert" or "2 sessions" in result.stderr
