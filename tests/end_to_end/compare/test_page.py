"""The HTML page of a diff in a real browser: it asks for nothing, fits, folds, prints, and can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.compare.report.test_report import ALL, made
from tests.support.running import WAIT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# The contrast of each text with what is behind it, as WCAG has it: the lowest, and where.
CONTRAST = """() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parts(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const ratio = (element) => {
    const [high, low] = [parts(getComputedStyle(element).color), behind(element)].map(luminance).sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  const texts = [...document.querySelectorAll("body *")].filter((e) => [...e.childNodes].some((n) => n.nodeType === 3));
  return texts.map((e) => [ratio(e), e.outerHTML.slice(0, 80)]).sort((a, b) => a[0] - b[0])[0];
}"""
WIDER = "() => document.scrollingElement.scrollWidth - innerWidth"


@pytest.fixture(scope="module")
def browser(chromium: Callable[[], str]) -> Iterator[Browser]:
    program = chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"], timeout=WAIT * 1000)
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that nothing may be asked for, and that must not complain."""
    opened = browser.new_page()
    opened.set_default_timeout(WAIT * 1000)
    wrong: list[str] = []
    opened.on("console", lambda message: wrong.append(message.text))
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
    opened.on("request", lambda asked: wrong.append(asked.url) if not asked.url.startswith("file:") else None)
    yield opened
    opened.close()
    assert wrong == []


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


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read(page: Page, tmp_path: Path, scheme: str) -> None:
    show(page, tmp_path, color_scheme=scheme)
    ratio, where = page.evaluate(CONTRAST)
    assert ratio >= 4.5, where


def test_what_breaks_is_open_and_what_is_compatible_opens_on_a_click(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path)
    assert page.locator("details.error .pair").first.is_visible()
    folded = page.locator("details.info").first
    assert not folded.locator(".pair").is_visible()
    folded.locator("summary").click()
    folded.locator(".pair").wait_for()


def test_on_paper_nothing_is_folded(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path, media="print")
    shown = page.locator("details.info .pair").evaluate_all("all => all.map(one => one.checkVisibility())")
    assert shown and all(shown)


def test_the_table_leads_to_each_level(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path)
    page.set_viewport_size({"width": 800, "height": 300})
    page.get_by_role("link", name="info").click()
    page.wait_for_function("() => document.querySelector('#info').getBoundingClientRect().top < innerHeight")
    assert page.url.endswith("#info")


@pytest.mark.slow
def test_what_a_cassette_says_is_text_and_never_runs(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path)
    assert page.locator("script").count() == 0
    assert page.get_by_text("<script>alert(1)</script>").count() > 0
