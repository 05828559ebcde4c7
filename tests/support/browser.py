"""A real browser, and pages that must not request anything or log errors: fixtures of all tests.

Starting a browser takes a second of CPU, so a process has one for all of its tests. Each file has its own pages.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.running import WAIT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, ViewportSize

SIZE: ViewportSize = {"width": 1280, "height": 720}
# The contrast of each text with its background by WCAG: the lowest, and its element.
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


@pytest.fixture(scope="session")
def started(chromium: Callable[[], str]) -> Iterator[tuple[Browser, asyncio.AbstractEventLoop]]:
    """The browser, and the event loop that drives it."""
    program = chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"], timeout=WAIT * 1000)
        loop = asyncio.get_running_loop()
        with counting_as_running(None):
            yield browser, loop
        browser.close()


@pytest.fixture(scope="module")
def browser(started: tuple[Browser, asyncio.AbstractEventLoop]) -> Iterator[Browser]:
    """The browser, without pages of other files."""
    found, loop = started
    with counting_as_running(loop):
        yield found
        for context in found.contexts:
            context.close()


@contextlib.contextmanager
def counting_as_running(loop: asyncio.AbstractEventLoop | None) -> Iterator[None]:
    """Playwright's loop is always running, and while Python counts it as running, tests cannot run their own."""
    before = asyncio._get_running_loop()
    asyncio._set_running_loop(loop)
    try:
        yield
    finally:
        asyncio._set_running_loop(before)


@pytest.fixture(scope="module")
def shared_page(browser: Browser) -> Iterator[Page]:
    """A page that tests share one after another: opening one takes longer than most tests."""
    opened = browser.new_page(viewport=SIZE)
    opened.set_default_timeout(WAIT * 1000)
    yield opened
    opened.close()


@contextlib.contextmanager
def as_new(page: Page, **listeners: Callable[[Any], object]) -> Iterator[Page]:
    """The page in its initial state, with listeners for events."""
    for event, listener in listeners.items():
        page.on(event, listener)  # type: ignore[call-overload]
    try:
        yield page
    finally:
        page.goto("about:blank")
        for event, listener in listeners.items():
            page.remove_listener(event, listener)
        page.unroute_all()
        page.context.clear_permissions()
        page.set_viewport_size(SIZE)
        page.emulate_media(media="null", color_scheme="light", reduced_motion="no-preference")
        page.mouse.move(-1, -1)


@pytest.fixture
def page(shared_page: Page) -> Iterator[Page]:
    """A page that must not request anything or log errors."""
    wrong: list[str] = []
    with as_new(
        shared_page,
        console=lambda message: wrong.append(message.text),
        pageerror=lambda error: wrong.append(str(error)),
        dialog=lambda dialog: (wrong.append(dialog.message), dialog.dismiss()),
        request=lambda asked: None if asked.url.startswith(("file:", "data:")) else wrong.append(asked.url),
    ):
        yield shared_page
    assert wrong == [], wrong
