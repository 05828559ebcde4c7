"""`mcp-tape diff --format html` in a real browser: the report, and both recordings side by side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.browser import WIDER
from tests.support.reading import Frames, call, invoke, make, message, said
from tests.support.viewing import READY

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)><style>*{display:none}</style>{{data}}{{report}}"


def listed(*names: str) -> bytes:
    tools = [{"name": name, "description": EVIL if name == "evil" else "Does it", "inputSchema": {}} for name in names]
    return message(id=1, result={"tools": tools})


def talk(answers: dict[str, bytes], *names: str) -> Frames:
    frames = Frames().client(message(id=1, method="tools/list")).server(listed(*names))
    for number, (name, answer) in enumerate(answers.items(), 2):
        frames.client(call(number, name, city="Bern")).server(answer.replace(b'"id": 0', b'"id": %d' % number))
    return frames


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page: a tool with another answer, one that fails, one that is gone, and an untrusted one."""
    place = tmp_path_factory.mktemp("compared")
    old = talk({"same": said(0, "x"), "other": said(0, "warm"), "broken": said(0, "fine")}, "same", "other", "gone")
    new = talk({"broken": said(0, "no", isError=True), "same": said(0, "x"), "other": said(0, "cold")}, "same", "evil")
    tapes = make(place / "old.db", old), make(place / "new.db", new)
    result = invoke("diff", *tapes, "--format", "html")
    assert result.exit_code == 1
    (place / "diff.html").write_text(result.stdout, "utf-8")
    return place / "diff.html"


@pytest.fixture
def compared(page: Page, file: Path) -> Page:
    page.goto(file.as_uri())
    page.wait_for_selector(READY)
    return page


@pytest.mark.slow
def test_it_opens_with_the_report_and_the_calls_with_the_worst_change_first(compared: Page) -> None:
    assert compared.get_by_role("tab", selected=True).inner_text() == "Compare"
    assert compared.locator("#report h1").inner_text().startswith("5 changes: ")
    first = compared.locator("#report .overview tbody tr").first.locator("td").all_inner_texts()
    assert first == ["error", "A tool is gone.", "tool gone, tool other", "2"]
    levels = compared.locator("#report h2").evaluate_all("all => all.map(one => one.className)")
    assert levels == ["error", "info"]
    gone = compared.locator("#report .rule").filter(has_text="tool-removed").locator(".change").last
    assert gone.locator(".calls-of").inner_text() == "calls of this tool: #5 → #7"
    rows = compared.locator("#calls tbody tr").evaluate_all(
        "rows => rows.map(r => [...r.cells].map(c => c.textContent))"
    )
    assert [(row[0], row[1], row[2], row[5]) for row in rows] == [
        ("tools/call broken", "error", "#7", "#3"),
        ("tools/call other", "info", "#5", "#7"),
        ("tools/list", "same", "#1", "#1"),
        ("tools/call same", "same", "#3", "#5"),
    ]
    assert (rows[0][3], rows[0][6]) == ("ok", "tool-error")


@pytest.mark.slow
def test_a_change_leads_to_its_call_on_both_sides(compared: Page) -> None:
    change = compared.locator("#report .rule").filter(has_text="call-ok-to-error")
    change.get_by_role("button", name="#7 → #3").click()
    articles = compared.locator("#details article")
    articles.nth(3).wait_for()
    assert articles.locator("h3").all_text_contents() == ["old request", "new request", "old response", "new response"]
    assert "fine" in articles.nth(2).inner_text() and "no" in articles.nth(3).inner_text()
    assert "call-ok-to-error" in compared.locator("#details .changes").inner_text()
    compared.go_back()
    compared.locator("#report h1").wait_for()
    compared.locator("#calls tbody tr").filter(has_text="same").last.click()
    compared.get_by_text("No change was found in this call.").wait_for()


@pytest.mark.slow
def test_nothing_of_a_stranger_runs_and_links_stay_within_the_page(compared: Page) -> None:
    for change in compared.locator("#report details").all():
        change.evaluate("one => (one.open = true)")
    assert compared.locator("#report").get_by_text("<script>alert(1)</script>").count() > 0
    assert compared.locator("body script:not([type='text/plain'])").count() == 1
    assert compared.locator("img, iframe, form, [onerror]").count() == 0
    compared.set_viewport_size({"width": 360, "height": 300})
    assert compared.evaluate(WIDER) <= 0
    compared.get_by_role("link", name="call tools/call other").click()
    compared.wait_for_function("() => document.querySelector('.change.info').getBoundingClientRect().top < innerHeight")
    assert compared.get_by_role("tab", selected=True).inner_text() == "Compare"


@pytest.mark.slow
def test_the_report_needs_no_script(browser: Browser, file: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    opened = context.new_page()
    opened.goto(file.as_uri())
    assert opened.locator("#report").get_by_text("call-ok-to-error").is_visible()
    context.close()


@pytest.mark.slow
def test_a_live_server_is_compared_by_its_lists(tmp_path: Path) -> None:
    old = make(tmp_path / "old.db", talk({}, "gone"))
    result = invoke("diff", old, "--format", "html", "--fail-on", "never", "--", *server())
    assert result.exit_code == 0, result.output
    assert "tool-removed" in result.stdout and result.stdout.count('class="block"') == 1


def server() -> Iterator[str]:
    import sys

    yield from (sys.executable, "-m", "mcp_tape.demo.server")
