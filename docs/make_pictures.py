"""Make all pictures of the manual, from real runs in a terminal and a browser: `python docs/make_pictures.py`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from shutil import which
from urllib.parse import urlencode

from make_terminals import pictures

from mcp_tape.cassette.query.filters import EVERYTHING
from mcp_tape.cassette.reader import Cassette
from mcp_tape.compare.versions import compare, version_of_sessions
from mcp_tape.viewer.page import export
from mcp_tape.viewer.page import render_comparison as page_of

DOCS = Path(__file__).parent
TAPE = DOCS.parent / "cassettes" / "everything.db"
WIDE, NARROW, TALL = (1280, 720), (360, 720), (1280, 1000)
PAIR = [DOCS / "examples" / "pairs" / f"git-{side}.db" for side in ("old", "new")]
# A name, the size of the window, the colours, and the state of the page; `None`: of the page that compares two.
PICTURES = (
    ("viewer", WIDE, "light", {"at": "1.50"}),
    ("viewer-errors", WIDE, "dark", {"q": "status:error", "at": "1.26"}),
    ("viewer-tools", WIDE, "light", {"tab": "tools"}),
    ("viewer-narrow", NARROW, "dark", {"at": "1.16"}),
    ("viewer-compare", TALL, "light", None),
)
# Every picture is there, and so is the content of every line that has one.
SETTLED = """() => [...document.images].every((image) => image.complete)
  && (document.querySelector('#messages').hidden || document.querySelector('#rows .line:not(:empty)'))"""


def main() -> None:
    for name, picture in pictures():
        (DOCS / "pictures" / f"{name}.svg").write_text(picture, "utf-8")
    of_the_viewer()


def of_the_viewer() -> None:
    from playwright.sync_api import sync_playwright

    program = which("chromium") or which("chromium-browser") or which("google-chrome")
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        file = Path(place) / "tape.html"
        with Cassette(TAPE) as cassette:
            file.write_bytes(b"".join(export(cassette, [1], EVERYTHING, TAPE.name)))
        compared = Path(place) / "compared.html"
        with Cassette(PAIR[0]) as old, Cassette(PAIR[1]) as new:
            before, after = (version_of_sessions(cassette, [1]) for cassette in (old, new))
            compared.write_bytes(b"".join(page_of(compare(before, after), before, after)))
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name, (width, height), scheme, state in PICTURES:
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
            page.goto(compared.as_uri() if state is None else f"{file.as_uri()}#{urlencode(state)}")
            page.wait_for_selector("html[data-ready]")
            page.locator("#details article, #other tbody, #report .change").first.wait_for()
            page.wait_for_function(SETTLED)
            page.screenshot(path=DOCS / "pictures" / f"{name}.png")
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
