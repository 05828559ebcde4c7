"""The page of a large cassette in a real browser: `python benchmarks/viewing.py`.

Measures how long it takes until the page can be used, from the start of loading on; how long filters take, by columns
and by texts, the first of which opens every block; whether rows are blank after a jump; and how large the file is,
beside the gzip of its texts. Needs playwright and Chromium.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

from measure import FREE, Bar, Results, at_most, show
from options import conclude, parser, say
from reading_cassettes import COMMON, RARE, SLOW, make
from report import Report, Section, Table

from mcp_tape.cassette.query.filters import EVERYTHING
from mcp_tape.cassette.reader import Cassette
from mcp_tape.viewer.page import export

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_READY, _SIZE, _BLANK = "ready", "file", "blank"
_FILTERS = {
    "filter: a tool": f"tool:{SLOW}",
    "filter: slow ones": "dur:>5 -status:error",
    "filter: a rare word, the first": RARE,
    "filter: a common word": COMMON,
}
_MOST_READY = {20_000: 500.0, 100_000: 2_000.0}  # milliseconds
_MOST_FILTER, _MOST_SIZE = 300.0, 1.3
_WAIT = 60_000  # milliseconds

_WATCH = """new MutationObserver((_, observer) => {
  if (!document.documentElement?.dataset.ready) return;
  window.ready = performance.now();
  observer.disconnect();
}).observe(document, { attributes: true, subtree: true })"""
_FILTER = """async (text) => {
  const count = document.getElementById("count");
  const started = performance.now();
  count.textContent = "";
  location.hash = new URLSearchParams({ q: text });
  const turn = (done) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = done;
    channel.port2.postMessage(0);
  };
  while (!count.textContent || count.textContent.startsWith("searching")) await new Promise(turn);
  return performance.now() - started;
}"""
_SCROLL = """async () => {
  const list = document.getElementById("list");
  let blank = 0;
  for (let i = 0; i < 60; i++) {
    list.scrollTop = (i * 7919 % 60) / 60 * list.scrollHeight;
    for (let frames = 0; frames < 2; frames++) await new Promise(requestAnimationFrame);
    const box = list.getBoundingClientRect();
    const seen = [...document.querySelectorAll("#rows .row")].map((row) => row.getBoundingClientRect());
    const rows = seen.filter(({ top, bottom }) => bottom > box.top && top < box.bottom).length;
    blank += rows < Math.floor(box.height / 24);
  }
  return blank;
}"""


@dataclass(frozen=True, slots=True)
class Size:
    rounds: int
    messages: tuple[int, ...]


FULL = Size(5, (20_000, 100_000))
QUICK = Size(1, (20_000, 100_000))
SMOKE = Size(1, (200,))


def run(size: Size, place: Path, browser: Browser, results: Results) -> None:
    for messages in size.messages:
        file, ratio = _exported(make(place, messages))
        results.add(FREE, _SIZE, f"{messages:,}", ratio)
        for _ in range(size.rounds):
            for figure, value in _measured(browser, file):
                results.add(FREE, figure, f"{messages:,}", value)
        say(f"{messages:,} messages: ready in {results.value(FREE, _READY, f'{messages:,}'):.0f} ms")


def _exported(tape: Path) -> tuple[Path, float]:
    """The page, and its size as a multiple of the gzip of its texts in base64."""
    file = tape.with_suffix(".html")
    with Cassette(tape) as cassette, file.open("wb") as out:
        out.writelines(export(cassette, [1], EVERYTHING, tape.name))
        texts = b"\n".join(frame.text for frame in cassette.frames(1))
    return file, file.stat().st_size / len(b64encode(gzip.compress(texts, 9)))


def _measured(browser: Browser, file: Path) -> Iterator[tuple[str, Any]]:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(_WAIT)
    page.add_init_script(_WATCH)
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-ready]")
    yield _READY, page.evaluate("window.ready")
    for figure, text in _FILTERS.items():
        yield figure, page.evaluate(_FILTER, text)
    page.evaluate(_FILTER, "")
    yield _BLANK, page.evaluate(_SCROLL)
    page.close()


def report(results: Results, size: Size) -> Report:
    names = [f"{messages:,}" for messages in size.messages]
    units = {_READY: "ms", **dict.fromkeys(_FILTERS, "ms"), _BLANK: "", _SIZE: "×"}
    titles = {_READY: "ready to use", _BLANK: "of 60 jumps, blank", _SIZE: "file / gzip of its texts in base64"}
    rows = [
        [titles.get(figure, figure), *(show(results.value(FREE, figure, name), unit) for name in names)]
        for figure, unit in units.items()
    ]
    table = Table(["", *(f"{name} messages" for name in names)], rows)
    return Report(results, table, [Section("Viewing", table)], list(_bars(results, size)), [])


def _bars(results: Results, size: Size) -> Iterator[Bar]:
    for messages in size.messages:
        name = f"{messages:,}"
        most = _MOST_READY.get(messages, max(_MOST_READY.values()))
        yield at_most(f"ready, {name}", results.value(FREE, _READY, name), most, "ms", "after the start of loading")
        for figure in _FILTERS:
            yield at_most(f"{figure}, {name}", results.value(FREE, figure, name), _MOST_FILTER, "ms", "until counted")
        yield at_most(f"blank rows, {name}", results.value(FREE, _BLANK, name), 0, "", "jumps")
        yield at_most(f"size, {name}", results.value(FREE, _SIZE, name), _MOST_SIZE, "×", "gzip of its texts in base64")


def main() -> int:
    options = parser("Measure the page of a large cassette in a real browser.").parse_args()
    size = SMOKE if options.smoke else QUICK if options.quick else FULL
    from playwright.sync_api import sync_playwright

    program, results = which("chromium") or which("chromium-browser") or which("google-chrome"), Results()
    with tempfile.TemporaryDirectory(prefix="mcp-tape-bench-") as place, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        run(size, Path(place), browser, results)
        browser.close()
    return conclude(options, report(results, size))


if __name__ == "__main__":
    sys.exit(main())
