"""The recipes for frameworks run from their cassettes, fail in pytest's words, and match their page."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mcp_tape import Cassette
from tests.support import frameworks
from tests.support.frameworks import FOLDERS, PAGE, RECIPES, changed, copy, difference, run, with_differences

QUICK = [name for name, recipe in RECIPES.items() if recipe.is_quick]
# How each fails on a call that is not on its tape: the first three continue after it.
MISSED = {
    "pydantic-ai": "AssertionError",
    "openai-agents": "An error occurred while running the tool",
    "langchain": "is not on the tape",
    "fastmcp-4": "ToolError",
    "mcp-1": "McpError",
}
COMMANDS = (["mcp-server-time", "--local-timezone", "UTC"], ["python", "-m", "mcp_tape.demo.server"])
PATHS = re.compile(rb"/(?:root|home|Users|tmp|var|work|opt|private)/[^\s\"'\\]*")


def in_seoul(name: str, parent: Path) -> Path:
    """A copy of a recipe whose agent makes a request that is not on its tape."""
    place = copy(RECIPES[name], parent)
    text = (place / "agent.py").read_text("utf-8")
    assert '"Asia/Tokyo"' in text
    (place / "agent.py").write_text(text.replace('"Asia/Tokyo"', '"Asia/Seoul"'), "utf-8")
    return place


def test_every_folder_has_a_recipe() -> None:
    assert {path.name for path in FOLDERS.iterdir() if path.is_dir()} == {each.folder for each in RECIPES.values()}


@pytest.mark.parametrize("name", RECIPES)
def test_a_taped_test_differs_from_the_live_one_by_a_few_lines(name: str) -> None:
    assert 0 < changed(difference(RECIPES[name])) <= frameworks.MOST_LINES


@pytest.mark.parametrize(
    ("lines", "count"), [(["-a", "+b"], 1), (["+a", " b", "-c"], 2), (["-a", "+b", "+c", " d", "+e"], 3), ([], 0)]
)
def test_a_line_that_is_replaced_counts_once(lines: list[str], count: int) -> None:
    assert changed(lines) == count


def test_the_page_shows_the_difference_of_each() -> None:
    page = PAGE.read_text("utf-8")
    assert page == with_differences(page), "run: python -m tests.support.frameworks --page"
    shown = [RECIPES[name].folder for name in re.findall(r"^<!-- difference: (.*) -->$", page, re.M)]
    assert sorted(shown) == sorted({each.folder for each in RECIPES.values()})


@pytest.mark.parametrize("path", sorted(FOLDERS.rglob("*.db")), ids=lambda path: path.relative_to(FOLDERS).parts[0])
def test_a_cassette_of_a_recipe_is_whole_and_names_no_place(path: Path) -> None:
    with Cassette(path) as cassette:
        sessions = cassette.sessions()
    assert sessions and not any(session.incomplete for session in sessions)
    assert all(json.loads(session.target)["command"] in COMMANDS for session in sessions)
    assert PATHS.findall(path.read_bytes()) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_recipe_replays_with_no_server_in_reach(name: str, tmp_path: Path, node: Callable[[], Path]) -> None:
    if RECIPES[name].python is None:
        node()  # skips without Node
    outcome = run(RECIPES[name], copy(RECIPES[name], tmp_path))
    assert (outcome.code, outcome.tests, outcome.inexact) == (0, "1 passed", 0), outcome.said


@pytest.mark.slow
@pytest.mark.parametrize("name", ["openai-agents", "mcp-1"])
def test_the_live_test_of_a_recipe_passes(name: str, tmp_path: Path) -> None:
    outcome = run(RECIPES[name], copy(RECIPES[name], tmp_path), mode="live")
    assert (outcome.code, outcome.tests) == (0, "1 passed"), outcome.said


@pytest.mark.slow
@pytest.mark.parametrize("name", MISSED)
def test_a_miss_comes_first_with_every_framework(name: str, tmp_path: Path) -> None:
    place = in_seoul(name, tmp_path)
    # Native, as Python before 3.11.8 may fail to parse the sources: https://github.com/python/cpython/issues/106905
    outcome = run(RECIPES[name], place, "--junitxml=result.xml", "--tb=native")
    assert outcome.code == 1, outcome.said
    (failure,) = ElementTree.parse(place / "result.xml").iter("failure")
    missed, _, own = failure.attrib["message"].partition("; ")
    assert re.fullmatch(r"1 call missed: (time: )?tools/call convert_time", missed), failure.attrib
    assert MISSED[name] in own
    assert re.search(r"^FAILED test_agent\.py::\w+ - 1 call missed: ", outcome.said, re.M), outcome.said
    assert re.search(r"^    pytest test_agent\.py::\w+ --mcp-record=new_episodes$", failure.text or "", re.M)
    assert "mcp-tape use" not in outcome.said  # not a command that makes sense in pytest


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["new_episodes", "rewrite"])
def test_no_message_names_the_temporary_file_of_a_recording(mode: str, tmp_path: Path) -> None:
    place = in_seoul("mcp-2", tmp_path)
    test = place / "test_agent.py"
    test.write_text(test.read_text("utf-8").replace("server=TIME", 'server=["no-such-server"]'), "utf-8")
    outcome = run(RECIPES["mcp-2"], place, "--junitxml=result.xml", "--tb=native", mode=mode)
    assert outcome.code == 1, outcome.said
    assert "cannot start the server: there is no command 'no-such-server'" in outcome.said
    assert ".part" not in outcome.said + (place / "result.xml").read_text("utf-8")


@pytest.mark.slow
def test_a_tape_of_the_new_sdk_plays_to_the_old_one_with_a_note(tmp_path: Path) -> None:
    place = copy(RECIPES["mcp-1"], tmp_path)
    shutil.copytree(FOLDERS / "mcp-2" / "cassettes", place / "cassettes", dirs_exist_ok=True)
    test = place / "test_agent.py"
    test.write_text(test.read_text("utf-8") + "    print(mcp_tape.notes)\n", "utf-8")
    outcome = run(RECIPES["mcp-1"], place, "-s")
    assert (outcome.code, outcome.tests) == (0, "1 passed"), outcome.said
    assert "the client is older than the tape" in outcome.said


@pytest.mark.slow
def test_answers_that_are_not_exact_are_counted(tmp_path: Path) -> None:
    place = in_seoul("mcp-2", tmp_path)
    test = place / "test_agent.py"
    bent = 'server=TIME, ignore=["$.params.arguments.target_timezone"]'
    test.write_text(test.read_text("utf-8").replace("server=TIME", bent), "utf-8")
    outcome = run(RECIPES["mcp-2"], place)
    assert (outcome.code, outcome.inexact) == (0, 1), outcome.said
