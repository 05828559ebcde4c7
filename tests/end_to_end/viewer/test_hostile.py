"""The page of an untrusted cassette: recorded content is only text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.browser import WIDER
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
            page.evaluate("place => location.hash = `at=1.${place}`", place)
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
def test_what_nobody_sees_is_marked(page: Page, tmp_path: Path, tape: Path) -> None:
    show(page, tape, tmp_path, at="1.13")
    page.locator("#details pre").wait_for()
    marks = page.locator("#details .unseen").all_text_contents()
    assert marks == ["ESC", "U+202E", "U+200B", "U+2066", "U+0000"]
    assert "·[31mred·esrever" in page.locator("[data-place='1.13'] .line").inner_text()
    assert "\u202e" not in page.locator("body").inner_text()


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
