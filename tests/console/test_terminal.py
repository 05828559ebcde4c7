"""The output of the commands that read, change and keep cassettes: in a narrow terminal, in a wide one without colours,
and into a pipe.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from mcp_tape.cli import cli
from tests.cli.test_show import columns_of, on_terminal
from tests.support import forked
from tests.support.reading import Frames, call, invoke, make, message, said
from tests.support.running import MCP_TAPE, WAIT

FITTED = [
    ["ls"], ["show", "tape.db"], ["show", "tape.db", "--filter", "tool:* -kind:stderr"], ["stats", "tape.db"],
    ["search", "tape.db", "needle"], ["query", "tape.db", "SELECT * FROM tool_calls"],
]  # fmt: skip
# Output in sentences, or as a text for an editor, git or a program, is never cut: the terminal wraps it.
WHOLE = [
    ["show", "tape.db", "4"], ["stats", "tape.db", "--json"], ["convert", "tape.db"],
    ["convert", "--to", "txt", "tape.db"], ["convert", "tape.db", "--to", "md"], ["convert", "tape.jsonl", "new.db"],
    ["edit", "tape.db", "--editor", "perl -pi -e s/needle/pin/"], ["git-setup"],
    ["query", "tape.db", "SELECT tool, arguments FROM tool_calls", "--csv"], ["check", "tape.db", "none.db"],
    ["redact", "tape.db"], ["rm", "tape.db", "--session", "1"], ["merge", "tape.db", "-o", "new.db"],
]  # fmt: skip
IN_ITS_PLACE = ["sh", "-c", 'cd "$0" && exec "$@"']


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cassette with long and wide texts, conspicuous rows, and a secret."""
    frames = Frames().client(call(1, "find_" + "many_" * 12, where="hay " * 20 + "needle " + "hay " * 60))
    frames.stderr("no needle yet " * 9).server(said(1, "針 needle 日本語 " * 30, isError=True))
    frames.client(call(2, "login", password="hunter2hunter2")).server(
        message(id=2, error={"code": -1, "message": "no"})
    )
    frames.client(call(3, "find", where="\x1b[31mneedle\x07")).add("server", b"\x1b]0;noise\x07 needle", kind="noise")
    place = tmp_path_factory.mktemp("original")
    tape = make(place / "tape.db", frames, frames, server_name="a server with a name " * 3)
    command = [*MCP_TAPE, "convert", str(tape), "--session", "all"]
    (place / "tape.jsonl").write_bytes(subprocess.run(command, capture_output=True, check=True, timeout=WAIT).stdout)
    return place


@pytest.fixture
def desk(original: Path, tmp_path: Path) -> Path:
    return tmp_path / "desk"


def fresh(desk: Path, original: Path, words: list[str]) -> list[str]:
    """The command line, in a new directory."""
    shutil.rmtree(desk, ignore_errors=True)
    shutil.copytree(original, desk)
    if words[0] == "git-setup":
        subprocess.run(["git", "init", "-q", str(desk)], check=True, timeout=WAIT)
    return [*IN_ITS_PLACE, str(desk), f"{forked.scripts()}/mcp-tape", *words]


def piped(command: list[str]) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=WAIT)
    return done.stdout.decode()


def settled(output: str) -> str:
    """The final screen: progress comes and goes on a busy machine."""
    return re.sub(r"(\r[^\r\n]*)+\r\x1b\[K", "", output).replace("\r\n", "\n")


def plain(output: str) -> str:
    """The visible text of a terminal, without colours; other control characters are an error."""
    text = re.sub(r"\x1b\[\d*m", "", settled(output))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text), text
    return text


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize("words", FITTED, ids=" ".join)
def test_lines_fit_80_and_200_columns_and_pipes(desk: Path, original: Path, words: list[str]) -> None:
    command = fresh(desk, original, words)
    narrow = on_terminal(command, 80)
    assert "\x1b[" in narrow
    assert max(map(columns_of, plain(narrow).split("\n"))) in range(70, 81)
    wide = on_terminal(command, 200, NO_COLOR="1")
    assert "\x1b" not in settled(wide)
    assert max(map(columns_of, plain(wide).split("\n"))) in range(100, 201)
    assert plain(wide) == piped(command) != plain(narrow)


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize("words", WHOLE, ids=" ".join)
def test_output_that_is_not_cut_is_the_same_everywhere(desk: Path, original: Path, words: list[str]) -> None:
    expected = piped(fresh(desk, original, words))
    assert expected
    assert plain(on_terminal(fresh(desk, original, words), 80)) == expected
    assert settled(on_terminal(fresh(desk, original, words), 200, NO_COLOR="1")) == expected


@pytest.mark.parametrize("columns", [40, 80])
def test_search_shows_the_hit_however_narrow_the_terminal(desk: Path, original: Path, columns: int) -> None:
    output = plain(on_terminal(fresh(desk, original, ["search", "tape.db", "needle"]), columns, NO_COLOR="1"))
    assert output.count("«needle»") >= 10
    assert max(map(columns_of, output.split("\n"))) <= columns


@pytest.mark.slow
def test_a_narrow_terminal_has_the_name_of_a_tool_rather_than_its_method(desk: Path, original: Path) -> None:
    output = plain(on_terminal(fresh(desk, original, ["stats", "tape.db"]), 80))
    assert "→  find_many_man…\n" in output
    assert "→  tools/call find_many_" in piped(fresh(desk, original, ["stats", "tape.db"]))


def test_a_filter_without_matches_is_reported(original: Path, tmp_path: Path) -> None:
    shown = invoke("show", original / "tape.db", "--filter", "tool:nobody")
    assert (shown.exit_code, shown.stdout) == (0, "")
    assert shown.stderr.endswith("tape.db matches the filter\n")
    tape = make(tmp_path / "http.db", Frames().posts("post-1", call(1, "find"), said(1, "x")), transport="http")
    assert "add --all" in invoke("show", tape, "--filter", "kind:control").stderr
    assert invoke("show", tape, "--filter", "kind:control", "--all").stderr == ""


def test_a_cassette_in_place_of_json_lines_is_reported(original: Path, tmp_path: Path) -> None:
    loaded = invoke("convert", "-", tmp_path / "new.db", input=(original / "tape.db").read_bytes())
    assert loaded.exit_code == 3
    assert "this is a database, not JSON lines" in loaded.stderr


@pytest.mark.parametrize("words", [[], *([name] for name in cli.list_commands(click.Context(cli)))], ids=str)
def test_no_help_is_wider_than_80_columns(words: list[str]) -> None:
    text = invoke(*words, "--help", terminal_width=80).stdout
    assert [line for line in text.splitlines() if len(line) > 80] == []


# Started by a small process: a process's own peak memory counts for its children.
PEAK = """if True:
    import os, subprocess, sys
    process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    print(status, used.ru_maxrss)
    process.returncode = 0
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 11), reason="its regular expressions take memory for each escape")
@pytest.mark.parametrize("words", [["show", 2], ["convert", "--to", "txt"], ["convert", "--to", "md"]], ids=str)
def test_a_large_message_is_not_in_memory_many_times(tmp_path: Path, words: list[Any]) -> None:
    size = 16 << 20
    tape = make(tmp_path / "tape.db", Frames().client(call(1, "big")).server(said(1, "line\n" * (size // 6))))
    command = [sys.executable, "-c", PEAK, *MCP_TAPE, words[0], tape, *map(str, words[1:])]
    code, peak = map(int, subprocess.check_output(command, timeout=WAIT).split())
    assert code == 0
    assert peak * (1 if sys.platform == "darwin" else 1024) < 5 * size + (24 << 20)
