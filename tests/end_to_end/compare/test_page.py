"""The HTML page of a diff in a real browser: it makes no requests, fits, folds, prints, and is readable."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.compare.report.test_report import ALL, made
from tests.support.browser import CONTRAST, WIDER

if TYPE_CHECKING:
    from playwright.sync_api import Page


def show(page: Page, tmp_path: Path, name: str = "rich", **media: Any) -> None:
    file = tmp_path / "diff.html"
    file.write_bytes(made(name, "html"))
    page.emulate_media(**media)
    page.goto(file.as_uri())


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 800, 1600])
@pytest.mark.parametrize("name", ALL)
def test_it_fits_the_width_of_the_window(page: Page, tmp_path: Path, name: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    show(page, tmp_path, name)
    assert page.evaluate(WIDER) <= 0


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read(page: Page, tmp_path: Path, scheme: str) -> None:
    show(page, tmp_path, color_scheme=scheme)
    ratio, where = page.evaluate(CONTRAST)
    assert ratio >= 4.5, where


@pytest.mark.slow
def test_breaking_changes_are_open_and_compatible_ones_open_on_a_click(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path)
    assert page.locator("details.error .lines").first.is_visible()
    folded = page.locator("details.info").first
    assert not folded.locator(".lines").is_visible()
    folded.locator("summary").click()
    folded.locator(".lines").wait_for()


@pytest.mark.slow
def test_on_paper_nothing_is_folded(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path, media="print")
    shown = page.locator("details.info .lines").evaluate_all("all => all.map(one => one.checkVisibility())")
    assert shown and all(shown)


@pytest.mark.slow
def test_the_overview_leads_to_each_change(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path)
    page.set_viewport_size({"width": 800, "height": 300})
    last = page.locator(".overview a").last
    place = last.get_attribute("href")
    last.click()
    page.wait_for_function(f"() => document.querySelector('{place}').getBoundingClientRect().top < innerHeight")
    assert page.url.endswith(str(place))


@pytest.mark.slow
def test_recorded_text_is_shown_and_never_runs(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path)
    assert page.locator("script").count() == 0
    assert page.get_by_text("<script>alert(1)</script>").count() > 0
