"""The pictures of a terminal match the current output of the commands."""

from __future__ import annotations

import re
import runpy
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.support.docs import DOCS, PAGES

# Times and durations, with the blanks after them, which differ each time.
TIMES = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d| +\d+\.\d{3}\b|\d+(\.\d+)? (µs|ms|s)\b *")
MADE = runpy.run_path(str(DOCS / "make_terminals.py"))


def timeless(text: str) -> str:
    """The output without times, and without the order in which a server closes its two streams."""
    return TIMES.sub("…", text).replace("closes stderr", "closes")


@pytest.fixture(scope="module")
def today() -> dict[str, str]:
    return dict(MADE["pictures"]())


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("name", MADE["STORIES"])
def test_a_picture_shows_the_output_of_the_commands(today: dict[str, str], name: str) -> None:
    kept = (DOCS / "pictures" / f"{name}.svg").read_text("utf-8")
    shown = timeless(MADE["words"](kept))
    assert shown == timeless(MADE["words"](today[name])), "run: python docs/make_pictures.py"
    assert all(f"$ {command}" in shown for command in MADE["STORIES"][name][1] if not command.startswith("#"))


def test_the_page_for_the_first_minute_has_the_commands_of_its_pictures() -> None:
    first = (DOCS / "clients.md").read_text("utf-8").partition("## Try it on a file first")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```", first, re.S | re.M)
    written = {line.partition("#")[0].strip() for block in blocks for line in block.splitlines()}
    typed = {command for name in ("wrap", "recorded") for command in MADE["STORIES"][name][1]}
    assert written - {"mcp-tape view"} == {command for command in typed if not command.startswith("#")}


def test_no_picture_loads_anything() -> None:
    for picture in (DOCS / "pictures").glob("*.svg"):
        text = picture.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|@import|url\(|<script|<image|href", text), picture.name


def test_every_picture_is_on_a_page() -> None:
    pages = "".join(page.read_text("utf-8") for page in PAGES)
    for picture in (DOCS / "pictures").iterdir():
        assert f"pictures/{picture.name})" in pages, picture.name


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("\x1b[31mred\x1b[0m and not", [("red", ("31",)), (" and not", ())]),
        ("\x1b[1;31mloud\x1b[0m", [("loud", ("1", "31"))]),
        ("plain", [("plain", ())]),
        ("", []),
    ],
)
def test_a_line_keeps_its_colours(line: str, shown: list[Any]) -> None:
    assert list(map(tuple, MADE["runs"](line))) == shown


def test_progress_on_a_busy_machine_is_not_in_a_picture() -> None:
    shown = "$ why\r\n\rreading: 10 %\rreading: 50 %\r\x1b[Kall is well\r\n"
    assert MADE["PROGRESS"].sub("", shown) == "$ why\r\nall is well\r\n"


def test_a_long_line_is_folded_as_a_terminal_does() -> None:
    width = MADE["COLUMNS"]
    folded = list(MADE["folded"]("\x1b[32m" + "x" * (2 * width + 1)))
    assert [[len(run.text) for run in line] for line in folded] == [[width], [width], [1]]
    assert all(run.codes == ("32",) for line in folded for run in line)


def test_text_is_text_in_a_picture() -> None:
    picture = MADE["svg"]('<script> & "this"\n  two  blanks')
    ElementTree.fromstring(picture)
    assert MADE["words"](picture) == '<script> & "this"\n  two  blanks'
