"""The page of an untrusted cassette: recorded content is only text."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.browser import WIDER, as_new
from tests.support.reading import Frames, call, make, message, said
from tests.support.viewing import numbers, show

if TYPE_CHECKING:
    from playwright.sync_api import Page

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)><style>*{display:none}</style>\"'&lt;{{data}}"
UNSEEN = "\x1b[31mred\u202eesrever\u200b\u2066\0"
DEEP = 20_000
TABS = ["messages", "tools", "surface", "sessions", "findings"]


def talk() -> Frames:
    tool = {"name": EVIL, "description": EVIL + UNSEEN, "inputSchema": {EVIL: EVIL}}
    content = [
        {"type": "text", "text": f"# {EVIL}\n[x](javascript:alert(3)) {UNSEEN}"},
        {"type": "image", "data": "PHN2Zy8+", "mimeType": f'image/svg+xml"{EVIL}'},
        {"type": "image", "data": "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIG9ubG9hZD0iYWxlcnQoNCkiLz4=",
         "mimeType": "image/svg+xml"},
        {"type": "image", "data": "x", "mimeType": "text/html"},
        {"type": "resource", "resource": {"uri": f"javascript:{EVIL}", "mimeType": "text/html", "text": EVIL}},
        {"type": "resource_link", "uri": "https://example.com/", "name": EVIL},
    ]  # fmt: skip
    return (
        Frames()
        .client(message(id=EVIL, method="initialize", params={"clientInfo": {"name": EVIL, "version": EVIL}}))
        .server(message(id=EVIL, result={"serverInfo": {"name": EVIL, "version": UNSEEN}, "__proto__": {"x": 1}}))
        .client(message(id=2, method="tools/list"))
        .server(message(id=2, result={"tools": [tool]}))
        .client(call(3, EVIL, **{EVIL: EVIL, "__proto__": EVIL}))
        .server(message(id=3, result={"content": content, "structuredContent": {EVIL: EVIL}}))
        .client(message(id=4, method=EVIL, params={"x": UNSEEN}))
        .server(message(id=4, error={"code": EVIL, "message": EVIL + UNSEEN}))
        .client(
            b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"\\ud800","arguments":{"x":"\\udfff"}}}'
        )
        .server(said(5, "x" * 5_000_000))
        .client(b'{"jsonrpc":"2.0","id":6,"method":"deep","params":{"a":' + b"[" * DEEP + b"]" * DEEP + b"}}")
        .server(b"\xff\xfe\x80 <b>no text</b>", kind="noise")
        .stderr(EVIL + UNSEEN)
        .happened("server", "post-1", event="response", status=500, headers={"content-type": EVIL})
    )


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("hostile")
    return make(directory / "t'<b>&.db", talk(), label=EVIL.replace("/", ""), note=EVIL)


@pytest.mark.slow
@pytest.mark.parametrize("tab", TABS)
def test_nothing_of_it_runs_loads_or_becomes_markup(page: Page, tmp_path: Path, tape: Path, tab: str) -> None:
    show(page, tape, tmp_path, tab=tab)
    for place in numbers(page) if tab == "messages" else [1]:
        if tab == "messages":
            page.evaluate("place => location.hash = `rows=messages&at=1.${place}`", place)
            page.wait_for_selector(f"[data-place='1.{place}'].selected")
            page.locator("#details article").first.wait_for()
            for name in ("tree", "text"):
                for button in page.locator(f"[data-view={name}]").all():
                    button.click()
        assert page.locator("body script:not([type='text/plain'])").count() == 1
        assert page.locator("style").count() == 1
        assert page.locator("a, iframe, object, embed, link, form, [onerror], [onload]").count() == 0
        assert page.evaluate(WIDER) <= 0


@pytest.mark.slow
def test_invisible_characters_are_marked(page: Page, tmp_path: Path, tape: Path) -> None:
    show(page, tape, tmp_path, at="1.13")
    page.locator("#details pre").wait_for()
    marks = page.locator("#details .unseen").all_text_contents()
    assert marks == ["ESC", "U+202E", "U+200B", "U+2066", "U+0000"]
    assert "·[31mred·esrever" in page.locator("[data-place='1.13'] .line").inner_text()
    assert "\u202e" not in page.locator("body").inner_text()


# A family, a heart on fire, a flag of Wales, a keycap, a sign without colours; words of Persian, Arabic, Hindi and
# Sinhala; a variant of Han; a space of French. All have characters without a shape of their own.
WHOLE = ["👨\u200d👩\u200d👧", "❤\ufe0f\u200d🔥", "🏴\U000e0067\U000e0062\U000e0077\U000e006c\U000e0073\U000e007f",
         "1\ufe0f\u20e3", "☎\ufe0e", "می\u200cخواهم", "ه\u200d.", "क्\u200dष", "क्\u200d", "ශ්\u200dරී", "葛\U000e0100",
         "Salut\u202f!"]  # fmt: skip
STRAY = ["ab\u200dcd", "12\u200c34", "👍\u200d ok", "🏴\U000e0068\U000e0069\U000e007f", "x\ufe0ey", "z\ufe0f", "\u3164"]


@pytest.mark.slow
def test_emoji_and_joined_scripts_are_whole_and_stray_characters_are_marked(page: Page, tmp_path: Path) -> None:
    talk = Frames().client(call(1, "x")).server(said(1, " / ".join(WHOLE))).client(call(2, "x"))
    talk.server(said(2, " / ".join(STRAY)))
    show(page, make(tmp_path / "tape.db", talk), tmp_path, at="1.2")
    page.locator("#details pre").wait_for()
    assert page.locator("#details pre").text_content() == " / ".join(WHOLE)
    assert page.locator("[data-place='1.2'] .line").text_content() == " / ".join(WHOLE)
    page.evaluate("location.hash = 'rows=messages&at=1.4'")
    page.locator("#details .unseen").first.wait_for()
    marks = page.locator("#details .unseen").all_text_contents()
    assert marks == ["U+200D", "U+200C", "U+200D", "U+E0068", "U+E0069", "U+E007F", "U+FE0E", "U+FE0F", "U+3164"]
    assert page.locator("[data-place='1.4'] .line").inner_text() == "ab·cd / 12·34 / 👍· ok / 🏴··· / x·y / z· / ·"


@pytest.mark.slow
def test_bytes_that_are_no_text_are_shown_as_bytes(page: Page, tmp_path: Path, tape: Path) -> None:
    show(page, tape, tmp_path, at="1.12")
    page.get_by_role("button", name="bytes").click()
    assert "ff fe 80 20 3c 62 3e" in page.locator("#details pre").inner_text()


@pytest.mark.slow
def test_large_and_deep_ones_open_piece_by_piece(page: Page, tmp_path: Path, tape: Path) -> None:
    show(page, tape, tmp_path, at="1.10")
    page.locator("#details article").nth(1).get_by_role("button", name="text").click()
    pre = page.locator("#details article").nth(1).locator("pre")
    assert len(pre.inner_text()) < 100_000
    pre.get_by_role("button").click()
    assert 100_000 <= len(pre.inner_text()) < 200_000
    page.evaluate("location.hash = 'at=1.11'")
    page.locator("#details h2").get_by_text("deep").wait_for()
    page.get_by_role("button", name="tree").click()
    page.locator(".tree details").first.wait_for()
    assert page.locator(".tree details").count() < 100


@pytest.mark.slow
def test_the_whole_text_is_in_the_file(page: Page, tmp_path: Path, tape: Path) -> None:
    show(page, tape, tmp_path, at="1.3", q=json.dumps("x" * 300))
    page.get_by_text("1 of 14", exact=True).wait_for()
    assert numbers(page) == [10]


APP = """<style>@import "{0}import.css"; body {{ background: url({0}back.png) rgb(1, 2, 3) }}</style>
<link rel="stylesheet" href="{0}link.css"><link rel="preconnect" href="{0}"><base href="{0}">
<meta http-equiv="refresh" content="0;url={0}refresh">
<body onload="parent.postMessage('ran', '*')"><h1 style="color: rgb(4, 5, 6)">An app</h1>
<script>parent.postMessage("ran", "*"); fetch("{0}fetch")</script><img src="{0}pixel.png" srcset="{0}set.png 2x">
<img src="x" onerror="parent.postMessage('ran', '*')"><iframe src="{0}frame"></iframe><video poster="{0}poster"></video>
<svg><image href="{0}svg.png"/><script href="{0}svg.js"></script></svg><a href="{0}link">a link</a>
<form action="{0}form"><button>send</button></form><object data="{0}object"></object>
<math><style><img src="{0}math.png"></style></math><noscript><img src="{0}noscript.png"></noscript>"""


@pytest.mark.slow
@pytest.mark.parametrize("stored", ["text", "blob"])
def test_the_page_of_an_app_is_shown_and_neither_runs_nor_loads(shared_page: Page, tmp_path: Path, stored: str) -> None:
    html = APP.format("http://127.0.0.1:9/")
    content = {"text": html} if stored == "text" else {"blob": b64encode(html.encode()).decode()}
    found = [{"uri": "ui://app/page", "mimeType": "text/html;profile=mcp-app"} | content]
    talk = Frames().client(message(id=1, method="resources/read", params={"uri": "ui://app/page"}))
    talk.server(message(id=1, result={"contents": found}))
    asked: list[str] = []
    # The console has messages about everything that the policy blocks, so this is not the page that allows none.
    with as_new(shared_page, request=lambda one: asked.append(one.url)) as page:
        show(page, make(tmp_path / "tape.db", talk), tmp_path, at="1.2")
        page.evaluate("addEventListener('message', () => (window.ran = true))")
        assert page.locator("#details iframe").get_attribute("sandbox") == ""
        app = page.frame_locator("#details iframe")
        app.get_by_role("heading", name="An app").wait_for()
        assert app.locator("script, style, link, meta[http-equiv=refresh], iframe, [onerror], [onload]").count() == 0
        app.get_by_text("a link").click()
        app.get_by_role("button", name="send").click()
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert page.evaluate("window.ran") is None
        page.locator("#details .app").get_by_role("button", name="source").click()
        assert page.locator("#details .app pre").text_content() == html
    assert [one for one in asked if not one.startswith(("file:", "about:"))] == []
