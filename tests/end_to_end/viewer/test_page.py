"""The page of a recording in a real browser: list, details, keys, state, views; it makes no requests and is
readable."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from mcp_tape.cassette.query.timeline import session_rows
from mcp_tape.cassette.reader import Cassette
from mcp_tape.errors import replace_control_characters
from mcp_tape.formats.row_lines import line_of
from mcp_tape.viewer.pack import LONGEST_LINE
from tests.support import provision
from tests.support.browser import CONTRAST, WIDER
from tests.support.filtering import TALK
from tests.support.reading import GOLDEN, Frames, call, invoke, lines, make, message, said
from tests.support.viewing import READY, exported, numbers, show

if TYPE_CHECKING:
    from playwright.sync_api import Page

MANY = 100_000  # messages
EVERYTHING = next(path for path in GOLDEN if path.stem == "everything")


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return make(tmp_path / "tape.db", TALK)


@pytest.mark.slow
@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_it_lists_the_same_rows_as_show(page: Page, tmp_path: Path, golden: Path) -> None:
    page.set_viewport_size({"width": 1600, "height": 6000})
    show(page, golden, tmp_path)
    printed = [int(found[1]) for line in lines("show", golden) if (found := re.match(r" *(\d+) ", line))]
    assert numbers(page) == printed


SAID = ["plain words", "long " * 99, "Grüezi 😀 \\u00e9", 'with "quotes"', "two\nlines", "\u202eodd", "😀" * 200]


@pytest.mark.slow
def test_a_line_equals_the_line_of_show(page: Page, tmp_path: Path) -> None:
    talk = Frames()
    for number, words in enumerate(SAID):
        spaced = call(number, "a", text=words, more=[1, {"x": 2.50}])
        talk.client(spaced).client(json.dumps(json.loads(spaced), separators=(",", ":")).encode())
        talk.server(said(number, words))
    side = {"event": "side", "verb": "GET", "path": "/icon.png", "status": 200, "type": "image/png"}
    talk.add("server", json.dumps(side).encode(), "side-1", "control")
    assert lines_of(page, make(tmp_path / "tape.db", talk), tmp_path)[-1] == "image/png"
    assert "GET /icon.png 200 on side-1" in page.locator("#rows .row").last.inner_text()


@pytest.mark.slow
@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_a_line_equals_the_line_of_show_for_real_recordings(page: Page, tmp_path: Path, golden: Path) -> None:
    assert lines_of(page, golden, tmp_path)


def lines_of(page: Page, tape: Path, directory: Path) -> list[str]:
    """The contents of all lines, which are those of `show` up to the length at which the page cuts."""
    page.set_viewport_size({"width": 1600, "height": 6000})
    show(page, tape, directory, session=1, all=1)
    page.wait_for_function("() => [...document.querySelectorAll('#rows .line')].some(line => line.textContent)")
    shown: list[str] = page.locator("#rows .row").evaluate_all(
        "rows => rows.sort((a, b) => a.dataset.at - b.dataset.at).map(row => row.querySelector('.line').textContent)"
    )
    with Cassette(tape) as cassette:
        details = [line_of(cassette, row, brief=True).detail for row in session_rows(cassette, 1)]
    assert shown == [replace_control_characters(detail[:LONGEST_LINE]) for detail in details]
    return shown


TABS = {"messages": "#details article", "tools": "#other tbody", "surface": "#other .offer",
        "sessions": "#other tbody", "findings": "#other .finding", "compare": "#compare article"}  # fmt: skip
VIEWS = {  # of a recording, of one with findings, and of a comparison: together they show everything
    "everything": ("messages", "tools", "surface", "sessions"),
    "cancelled": ("messages", "tools", "sessions", "findings"),
    "compared": ("messages", "tools", "surface", "sessions", "compare"),
}
NAMELESS = """all => all.filter(e => !(e.ariaLabel || e.textContent.trim() || e.closest('label')?.textContent.trim()))
    .map(e => e.outerHTML)"""
AXE = """async () => (await axe.run({ resultTypes: ["violations"] })).violations
    .map(({ impact, id }) => `${impact} ${id}`)"""
TURN = "address => (document.getElementById('other').replaceChildren(), location.hash = address)"
GITS = [EVERYTHING.parents[1] / "docs" / "examples" / "pairs" / f"git-{side}.db" for side in ("old", "new")]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The URLs of the pages with these views."""
    place = tmp_path_factory.mktemp("pages")
    files = {name: place / f"{name}.html" for name in VIEWS}
    for name in ("everything", "cancelled"):
        exported(EVERYTHING.with_name(f"{name}.db"), files[name])
    files["compared"].write_text(invoke("diff", *GITS, "--format", "html").stdout, "utf-8")
    return {name: file.as_uri() for name, file in files.items()}


def each_view(page: Page, pages: dict[str, str]) -> Iterator[str]:
    """Show every view of a page in turn, without reloading it for each."""
    for name, tabs in VIEWS.items():
        page.goto(f"{pages[name]}#at=1.4")
        page.wait_for_selector(READY)
        for tab in tabs:
            page.evaluate(TURN, urlencode({"tab": tab, "at": "1.4"}))
            page.locator(f"#tab-{tab}[aria-selected=true]").wait_for()
            page.locator(TABS[tab]).first.wait_for()
            yield f"{name} {tab}"


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 1280, 2560])
def test_it_fits_the_width_of_the_window(page: Page, pages: dict[str, str], width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    for view in each_view(page, pages):
        assert page.evaluate(WIDER) <= 0, view


def faults(page: Page) -> list[str]:
    """What axe finds on the page, of every weight: https://github.com/dequelabs/axe-core"""
    if not page.evaluate("'axe' in window"):
        page.evaluate((provision.npm("axe-core@4.14.1") / "axe-core" / "axe.min.js").read_text("utf-8"))
    found: list[str] = page.evaluate(AXE)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read(page: Page, pages: dict[str, str], scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    for view in each_view(page, pages):
        ratio, where = page.evaluate(CONTRAST)
        assert ratio >= 4.5, (view, where)
        assert faults(page) == [], view
    page.locator("#report").evaluate("one => one.append(document.createElement('button'))")
    assert faults(page) == ["critical button-name"]  # it looks


@pytest.mark.slow
def test_visible_elements_have_a_role_and_a_name(page: Page, pages: dict[str, str]) -> None:
    for view in each_view(page, pages):
        selected = page.get_by_role("tab", selected=True)
        panel = page.get_by_role("tabpanel")  # the only visible one
        assert panel.get_attribute("aria-labelledby") == selected.get_attribute("id"), view
        controls = page.locator("button:visible, select:visible, input:visible")
        assert controls.evaluate_all(NAMELESS) == [], view
    page.goto(f"{pages['everything']}#at=1.4")
    chosen = page.locator("#list").get_by_role("treeitem", selected=True)
    chosen.wait_for()
    assert page.get_by_role("tree", name="Messages").get_attribute("aria-activedescendant") == chosen.get_attribute(
        "id"
    )
    assert re.match(
        r"Waterfall of \d+\.\d ms: \d+ calls, .*stderr", page.locator("#waterfall").get_attribute("aria-label") or ""
    )


@pytest.mark.slow
def test_on_paper_there_is_the_selection_and_no_button(page: Page, pages: dict[str, str]) -> None:
    page.emulate_media(media="print")
    page.goto(f"{pages['everything']}#at=1.4")
    page.locator("#details article").first.wait_for()
    assert page.locator("#rows .row").first.is_visible()
    for hidden in ("nav", "#filter", ".copy", ".close", "#help-button", ".zoom", "#as-calls"):
        assert not page.locator(hidden).first.is_visible(), hidden
    page.goto(pages["compared"])
    page.locator("#compare article").wait_for()
    notes = page.locator("#report details.change.info .lines")
    shown = notes.evaluate_all("all => all.map(one => one.checkVisibility())")
    assert shown and all(shown)
    assert page.evaluate("document.getElementById('compare').scrollHeight <= document.body.scrollHeight")


@pytest.mark.slow
def test_a_row_opens_its_call_side_by_side(page: Page, tmp_path: Path, tape: Path) -> None:
    show(page, tape, tmp_path)
    page.locator("[data-place='1.3']").click()
    articles = page.locator("#details article")
    articles.nth(1).wait_for()
    assert articles.locator("h3").all_text_contents() == ["request", "response"]
    assert "Bern" in articles.nth(0).inner_text()
    assert "no such city" in articles.nth(1).inner_text()
    assert page.locator("#details h2").inner_text().split() == ["tools/call", "search", "tool-error"]
    between = page.locator(".between button").all_text_contents()
    assert [one.split()[0] for one in between] == ["4", "5", "6"]
    articles.nth(0).get_by_role("button", name="text").click()
    assert articles.nth(0).locator("pre").inner_text() == call(2, "search", city="Bern").decode()


@pytest.mark.slow
def test_json_folds_and_is_searched(page: Page, tmp_path: Path) -> None:
    deep = {"a": {"b": {"c": {"d": {"needle": "x" * 300}}}}}
    show(page, make(tmp_path / "tape.db", Frames().client(call(1, "x", **deep))), tmp_path, at="1.1")
    page.locator("#details").get_by_role("button", name="tree").click()
    assert page.locator(".leaf").get_by_text("needle").count() == 0
    page.get_by_label("Find in this message").fill("NEEDLE")
    page.locator(".hit").get_by_text("needle").wait_for()
    page.get_by_role("button", name="fold", exact=True).click()
    assert not page.locator(".hit").is_visible()


@pytest.mark.slow
def test_a_whole_message_is_searched(page: Page, tmp_path: Path) -> None:
    items = [{"text": f"item {number}"} for number in range(500)] + [{"text": "y" * 9_000 + 'far "away"' + "z" * 900}]
    answer = message(id=1, result={"structuredContent": {"items": items}})
    talk = Frames().client(call(1, "x")).server(answer).server(b"no message, " * 9_000 + b"at last", kind="noise")
    show(page, make(tmp_path / "tape.db", talk), tmp_path, at="1.2")
    box, hit = page.get_by_label("Find in this message"), page.locator("#details .hit")
    for wanted, count, shown in [
        ("item 499", "1 of 1", "item 499"),  # beyond the members that are shown at first
        ('far "away"', "1 of 1", "away"),  # written with escapes, beyond the characters that are shown at first
        ("item 4", "1 of 111", "item 4"),
        ("structuredContent", "1 of 1", "structuredContent"),
        ("item 500", "not in this message", None),
    ]:
        box.fill(wanted)
        page.locator("#details [role=status]").get_by_text(count, exact=True).wait_for()
        if shown:
            hit.get_by_text(shown).first.wait_for()
    box.fill("item 4")
    box.press("Enter")
    hit.get_by_text("item 40").wait_for()
    box.press("Shift+Enter")
    box.press("Shift+Enter")
    page.get_by_text("111 of 111", exact=True).wait_for()
    hit.get_by_text("item 499").wait_for()
    page.evaluate("location.hash = 'rows=messages&at=1.3'")
    page.locator("#details h2").get_by_text("noise").wait_for()
    box.fill("at last")
    hit.get_by_text("at last").wait_for()


@pytest.mark.slow
def test_odd_and_redacted_parts_are_marked(page: Page, tmp_path: Path) -> None:
    talk = Frames().client(call(1, "x", password="[redacted:key:password]")).server(said(1, "no", isError=True))
    talk.client(call(2, "y")).server(message(id=2, error={"code": 1, "message": "no"})).client(call(3, "z"))
    talk.server(b"Traceback", kind="noise").stderr("oh")
    show(page, make(tmp_path / "tape.db", talk), tmp_path, at="1.1")
    odd = page.locator(".row.odd").evaluate_all("rows => rows.map(row => row.dataset.place).sort()")
    assert odd == ["1.2", "1.4", "1.5", "1.6"]  # and not stderr
    assert page.locator(".row.redacts").get_attribute("data-place") == "1.1"
    page.locator("#details .redacted").last.wait_for()


@pytest.mark.slow
def test_keys_move_through_messages_and_errors(page: Page, tmp_path: Path, tape: Path) -> None:
    show(page, tape, tmp_path)
    chosen = page.locator(".row.selected")
    for key, place in [
        ("j", 1),
        ("j", 2),
        ("k", 1),
        ("G", 18),
        ("g", 1),
        ("n", 7),
        ("n", 9),
        ("p", 7),
        ("ArrowDown", 8),
        ("ArrowUp", 7),
    ]:
        page.keyboard.press(key)
        assert chosen.get_attribute("data-place") == f"1.{place}", key
    page.keyboard.press("?")
    assert page.locator("dialog").get_by_text("next and previous that needs attention").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("dialog").is_visible()
    page.keyboard.press("Escape")
    assert page.locator("#details").is_hidden()


@pytest.mark.slow
def test_the_address_keeps_the_state(page: Page, tmp_path: Path, tape: Path) -> None:
    show(page, tape, tmp_path, q="tool:search", at="1.7", range="0-165000")
    page.keyboard.press("k")
    page.wait_for_selector("[data-place='1.3'].selected")
    page.reload()
    page.wait_for_selector("[data-place='1.3'].selected")
    assert (numbers(page), page.locator("#filter").input_value()) == ([3, 7], "tool:search")
    assert page.locator("#chips button").inner_text() == "0.000 – 0.165 s ×"
    show(page, make(tmp_path / "two.db", TALK, Frames().client(call(1, "x"))), tmp_path, session=1)
    assert len(numbers(page)) == 18
    page.keyboard.press("2")
    page.locator("tbody tr").first.wait_for()
    page.reload()
    page.locator("tbody tr").first.wait_for()
    assert (page.get_by_role("tab", selected=True).inner_text(), page.locator("#session").input_value()) == (
        "Tools",
        "1",
    )


@pytest.mark.slow
def test_a_range_of_the_waterfall_filters(page: Page, tmp_path: Path, tape: Path) -> None:
    show(page, tape, tmp_path)
    box = page.locator("#waterfall").bounding_box()
    assert box
    for at, act in [(box["width"] - 60, page.mouse.down), (box["width"] - 160, page.mouse.up)]:
        page.mouse.move(box["x"] + at, box["y"] + 24, steps=4)
        act()
    page.get_by_text("2 of 18", exact=True).wait_for()
    assert numbers(page) == [8, 9]  # the call in progress
    page.locator("#chips button").click()
    page.get_by_text("18 messages", exact=True).wait_for()


@pytest.mark.slow
def test_results_are_shown_by_their_type(page: Page, tmp_path: Path) -> None:
    silence = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
    dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    content = [
        {"type": "image", "data": dot, "mimeType": "image/png"},
        {
            "type": "audio",
            "data": silence,
            "mimeType": "audio/wav",
        },
        {"type": "text", "text": "# A title\n\n- one **bold**\n- [a link](https://example.com/x)"},
        {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "plain words"}},
    ]
    answer = message(id=1, result={"content": content, "structuredContent": {"degrees": 21}})
    show(page, make(tmp_path / "tape.db", Frames().client(call(1, "x")).server(answer)), tmp_path, at="1.2")
    page.wait_for_function("() => document.querySelector('#details img')?.naturalWidth === 1")
    assert page.locator("#details audio").count() == 1
    assert page.locator(".markdown h3").inner_text() == "A title"
    assert page.locator(".markdown a").count() == 0
    assert page.locator(".markdown").get_by_text("https://example.com/x").is_visible()
    assert page.get_by_text("plain words").is_visible()
    assert page.get_by_text("structured content").is_visible()


@pytest.mark.slow
def test_a_message_is_copied_in_several_ways(page: Page, tmp_path: Path, tape: Path) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    show(page, tape, tmp_path, at="1.3")
    page.locator("#details article").nth(1).wait_for()
    copied = {}
    for way in ("message", "curl", "mcp-tape show", "pytest test", "Markdown"):
        page.get_by_label("Copy as").select_option(way)
        page.get_by_text("copied", exact=True).wait_for()
        copied[way] = page.evaluate("navigator.clipboard.readText()")
        page.evaluate("document.getElementById('live').textContent = ''")
    request = call(2, "search", city="Bern").decode()
    assert copied["message"] == request
    assert copied["mcp-tape show"] == "mcp-tape show 'tape.db' --session 1 3"
    assert f"```json\n{request}\n```" in copied["Markdown"] and "no such city" in copied["Markdown"]
    assert shlex.split(copied["curl"])[-1] == request
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.locator("#details h2").get_by_text("initialize").wait_for()
    page.keyboard.press("c")
    page.get_by_text("copied", exact=True).wait_for()
    assert json.loads(page.evaluate("navigator.clipboard.readText()"))["method"] == "initialize"


@pytest.mark.slow
def test_tools_surface_and_sessions(page: Page, tmp_path: Path) -> None:
    listed = message(id=2, result={"tools": [{"name": "x", "description": "Does it", "inputSchema": {}}]})
    talk = Frames().client(message(id=2, method="tools/list")).server(listed)
    for number in range(10, 15):
        talk.client(call(number, "x")).server(said(number, "y", isError=number == 10))
    show(page, make(tmp_path / "tape.db", talk, talk), tmp_path)
    page.get_by_role("tab", name="Tools").click()
    first = page.locator("tbody tr").first
    first.wait_for()
    assert first.locator("th, td").all_text_contents()[:4] == ["→ tools/call x", "5", "1", "–"]
    assert (first.locator("svg").get_attribute("aria-label") or "").startswith("from ")
    page.get_by_role("button", name="what").click()
    assert page.locator("th[aria-sort]").inner_text() == "what ↓"
    page.keyboard.press("3")
    page.locator(".offer summary").click()
    page.locator(".offer .name").get_by_text("inputSchema").wait_for()
    page.keyboard.press("4")
    page.locator("tbody tr").first.click()
    page.wait_for_selector("[data-place='1.1']")
    page.keyboard.press("2")
    assert page.locator("th[aria-sort]").inner_text() == "what ↓"  # as it was left
    page.locator("tbody tr").filter(has_text="tools/call x").click()
    page.wait_for_function("() => document.getElementById('count').textContent === '10 of 12'")


@pytest.mark.slow
def test_only_rows_on_the_screen_of_many_are_in_the_document(page: Page, tmp_path: Path) -> None:
    talk = Frames()
    for number in range(MANY // 2):
        talk.client(call(number, "x"), at=number).server(said(number, f"answer {number}"), at=number)
    show(page, make(tmp_path / "tape.db", talk), tmp_path)
    page.get_by_text(f"{MANY:,} messages", exact=True).wait_for()
    assert page.locator("#rows .row").count() < 100
    page.keyboard.press("G")
    page.locator(f"[data-place='1.{MANY}']").get_by_text(f"answer {MANY // 2 - 1}").wait_for()
    assert page.locator("#rows .row").count() < 100
    page.locator("#filter").fill(f'"answer {MANY // 4}"')
    page.get_by_text(f"1 of {MANY:,}", exact=True).wait_for()
    assert numbers(page) == [MANY // 2 + 2]
