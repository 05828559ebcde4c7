"""Real releases, recorded and compared: docs/examples/pairs matches the current output of `mcp-tape diff`."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from mcp_tape.cassette.reader import Cassette
from tests.support.many import comparison
from tests.support.running import MCP_TAPE, run
from tests.support.viewing import report_of

PAIRS = Path(__file__).resolve().parents[3] / "docs" / "examples" / "pairs"
FORMS = {".txt": "text", ".md": "markdown", ".html": "html"}
KEPT = sorted(path.name for path in PAIRS.iterdir() if path.suffix in FORMS)
TAPES = sorted(PAIRS.glob("*.db"))
# The command of each server, and whether its newest release breaks clients of the older one.
SERVERS = {
    "everything": (["mcp-server-everything"], True),
    "filesystem": (["mcp-server-filesystem", "."], True),
    "git": (["mcp-server-git", "--repository", "repo"], True),
    "time": (["mcp-server-time", "--local-timezone", "UTC"], False),
}
PATHS = re.compile(rb"/(?:root|home|Users|tmp|var|work|opt|private)/[^\s\"'\\]*")
MOST_BYTES, MOST_IN_ALL = 300_000, 2_000_000


def compared(place: Path, name: str, old: str, new: str, *options: str) -> tuple[int, bytes]:
    """The exit code and the output, outside of this project and its settings."""
    for side, recording in (("old", old), ("new", new)):
        shutil.copy(PAIRS / f"{name}-{recording}.db", place / f"{side}.db")
    done = run([*MCP_TAPE, "diff", "old.db", "new.db", *options], cwd=place)
    assert done.stderr == b""
    return done.returncode, done.stdout


def test_each_server_has_its_recordings_and_a_text() -> None:
    assert {path.stem for path in TAPES} == {f"{name}-{which}" for name in SERVERS for which in ("old", "new", "again")}
    assert {f"{name}.txt" for name in SERVERS} <= set(KEPT)


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize("kept", KEPT)
def test_a_kept_output_equals_the_output_of_diff(tmp_path: Path, kept: str) -> None:
    name, ending = kept.split(".")
    _, printed = compared(tmp_path, name, "old", "new", "--format", FORMS[f".{ending}"])
    told = report_of if ending == "html" else str  # the rest of a page is the viewer
    expected = told((PAIRS / kept).read_text("utf-8"))
    assert told(printed.decode()) == expected, "run: python docs/examples/pairs/make.py --diff"


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("name", SERVERS)
def test_the_exit_code_says_whether_a_release_breaks_clients(tmp_path: Path, name: str) -> None:
    code, printed = compared(tmp_path, name, "old", "new", "--json")
    assert (code, bool(comparison(printed)["counts"]["error"])) == ((1, True) if SERVERS[name][1] else (0, False))


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize("order", [("new", "again"), ("again", "new")], ids=" ".join)
@pytest.mark.parametrize("name", SERVERS)
def test_the_same_release_twice_has_nothing_worth_a_warning(tmp_path: Path, name: str, order: tuple[str, str]) -> None:
    code, printed = compared(tmp_path, name, *order, "--json")
    found = comparison(printed)
    assert (code, found["unknown"]) == (0, [])
    assert [change for change in found["changes"] if change["level"] != "info"] == []
    assert found["compared"]["tools"] and found["compared"]["calls"]


@pytest.mark.parametrize("path", TAPES, ids=lambda path: path.stem)
def test_a_recording_is_whole_small_and_names_no_place(path: Path) -> None:
    with Cassette(path) as cassette:
        (session,) = cassette.sessions()
    assert session.incomplete is None
    assert json.loads(session.target)["command"] == SERVERS[path.stem.partition("-")[0]][0]
    assert path.stat().st_size < MOST_BYTES
    assert PATHS.findall(path.read_bytes()) == []


def test_all_of_it_stays_small() -> None:
    assert sum(path.stat().st_size for path in PAIRS.iterdir() if path.is_file()) < MOST_IN_ALL


@pytest.mark.parametrize("name", SERVERS)
def test_the_page_of_a_pair_shows_the_same_as_its_text(name: str) -> None:
    page = (PAIRS.parent.parent / "real-diffs.md").read_text("utf-8")
    section = re.search(rf"^## [^\n]*{name}[^\n]*\n(.*?)(?=^## |\Z)", page, flags=re.S | re.M)
    assert section
    shown = re.findall(r"^```text\n(.*?)^```", section[1], flags=re.S | re.M)
    kept = (PAIRS / f"{name}.txt").read_text("utf-8")
    assert shown
    for block in shown:
        for part in block.split("…\n"):  # such a line marks an omission
            assert part in kept, part
