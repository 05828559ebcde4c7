"""The page's filter keeps and refuses the same as the command line's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcp_tape.cassette.query.filters import FilterError, parse
from tests.support.filtering import KEEPS, REFUSES, TALK
from tests.support.reading import Frames, make, message
from tests.support.viewing import numbers, show

if TYPE_CHECKING:
    from playwright.sync_api import Page

# Set at once, not typed: each filter is a single change of the state.
FILTER = """(text) => {
  document.getElementById("count").textContent = "";
  document.getElementById("problem").hidden = true;
  location.hash = new URLSearchParams({ q: text, session: "1", rows: "messages" });
}"""
SETTLED = """() => {
  const count = document.getElementById("count").textContent;
  return (count && !count.startsWith("searching")) || !document.getElementById("problem").hidden;
}"""


@pytest.mark.slow
def test_it_keeps_the_same_rows_as_the_command_line(page: Page, tmp_path: Path) -> None:
    tape = make(tmp_path / "tape.db", TALK, Frames().client(message(id=1, method="ping")))
    page.set_viewport_size({"width": 1280, "height": 1000})
    show(page, tape, tmp_path)
    found = {}
    for text, _ in KEEPS:
        page.evaluate(FILTER, text)
        page.wait_for_function(SETTLED)
        found[text] = numbers(page)
    # `session:` searches all sessions, as on the command line; the second has only frame 1.
    expected = {text: seqs + [1] * (text == "session:>1") for text, seqs in KEEPS}
    assert found == expected


@pytest.mark.slow
def test_it_refuses_the_same_filters_as_the_command_line_with_the_same_errors(page: Page, tmp_path: Path) -> None:
    show(page, make(tmp_path / "tape.db", TALK), tmp_path)
    typed = [text for text, *_ in REFUSES if "\udcff" not in text]  # cannot be typed
    assert len(typed) >= 20
    for text in typed:
        with pytest.raises(FilterError) as refused:
            parse(text)
        page.evaluate(FILTER, text)
        page.wait_for_function(SETTLED)
        shown = page.locator("#problem")
        assert (shown.get_attribute("data-message"), shown.get_attribute("data-position")) == (
            str(refused.value),
            str(refused.value.position),
        )
        assert shown.is_visible()


@pytest.mark.slow
def test_typing_filters_and_counts(page: Page, tmp_path: Path) -> None:
    show(page, make(tmp_path / "tape.db", TALK), tmp_path)
    page.keyboard.press("/")
    page.keyboard.type("tool:search status:error")
    page.get_by_text("2 of 18", exact=True).wait_for()
    assert numbers(page) == [3, 7]
    page.locator("#filter").fill("tool:")
    offered = page.locator("#words option").evaluate_all("all => all.map(one => one.value)")
    assert "tool:search_all" in offered
