"""The page of a large cassette in a real browser. Needs playwright and Chromium.

Measures the time from the start of loading until the page is usable; the time of filters by column and by text, the
first of which opens every block; blank rows after a jump; and the size of the file. Of `mcp-tape view`: the time until
rows are on the screen and until all are, and the tab's own memory with all rows and after a search of every text.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

from measure import Bench, Figure

from cassettes import COMMON, RARE, SLOW, make_long
from mcp_tape.cassette.query.filters import EVERYTHING
from mcp_tape.cassette.reader import Cassette
from mcp_tape.viewer.page import export

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_READY, _BLANK, _SIZE = "ready to use", "of 60 jumps, blank", "file / gzip of its texts in base64"
_FILTERS = {
    "filter: a tool": f"tool:{SLOW}",
    "filter: slow ones": "dur:>5 -status:error",
    "filter: a rare word, the first": RARE,
    "filter: a common word": COMMON,
}
_MOST = {20_000: 500.0}  # milliseconds until it is usable; larger ones have _LATE
_LATE, _MOST_FILTER, _MOST_SIZE = 1_000.0, 300.0, 1.3
_ROWS, _ALL, _TAB, _SEARCHED = (
    "view: rows on the screen",
    "view: all rows",
    "view: memory of the tab",
    "and after a search",
)
_MOST_MEMORY = 300.0  # MB
_WAIT = 300_000  # milliseconds

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


def viewing(bench: Bench) -> None:
    """Each size is a separate contestant."""
    from playwright.sync_api import sync_playwright

    program = which("chromium") or which("chromium-browser") or which("google-chrome")
    sizes = bench.pick((20_000, 100_000), (20_000, 100_000), (200,))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for messages in sizes:
            who = f"{messages:,} messages"
            bench.figures += [
                Figure(f"{_READY}, {messages:,}", "ms", _MOST.get(messages, _LATE), who=who),
                *(Figure(f"{name}, {messages:,}", "ms", _MOST_FILTER, who=who) for name in _FILTERS),
                Figure(f"{_BLANK}, {messages:,}", "", 0.0, who=who),
                Figure(f"{_SIZE}, {messages:,}", "×", _MOST_SIZE, who=who),
            ]
            file, ratio = _exported(make_long(bench.place, messages))
            bench.add(f"{_SIZE}, {messages:,}", who, ratio)
            for _ in range(bench.pick(5, 1, 1)):
                for figure, value in _measured(browser, file):
                    bench.add(f"{figure}, {messages:,}", who, value)
            bench.say(who)
        for messages in bench.pick((100_000, 1_000_000), (100_000,), (200,)):
            _view(bench, browser, messages)
        browser.close()


def _view(bench: Bench, browser: Browser, messages: int) -> None:
    who = f"{messages:,} messages"
    rows, whole = (f"{name}, {messages:,}" for name in (_ROWS, _ALL))
    tab, searched = (f"{name}, {messages:,}" for name in (_TAB, _SEARCHED))
    bench.figures += [Figure(rows, "ms", _LATE, who=who), Figure(whole, "ms", who=who)]
    bench.figures += [Figure(name, "MB", _MOST_MEMORY, who=who) for name in (tab, searched)]
    command = [sys.executable, "-m", "mcp_tape", "view", str(make_long(bench.place, messages)), "--no-open"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(_WAIT)
        page.goto(server.stdout.readline().strip())
        page.wait_for_selector("#rows .row")
        bench.add(rows, who, page.evaluate("performance.now()"))
        page.wait_for_selector("#loading", state="hidden")
        bench.add(whole, who, page.evaluate("performance.now()"))
        bench.add(tab, who, _memory())
        page.evaluate(_FILTER, RARE)
        bench.add(searched, who, _memory())
        page.close()
    finally:
        server.terminate()
        server.wait()
    bench.say(f"view of {who}")


def _memory() -> float:
    """The most memory in MB that a renderer of this process's browser shares with no other process."""
    parents = dict[int, int]()
    for number in filter(str.isdecimal, os.listdir("/proc")):
        try:
            parents[int(number)] = int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended
    return max((_private(number) for number in parents if _is_renderer(number, parents)), default=float("nan"))


def _is_renderer(number: int, parents: dict[int, int]) -> bool:
    up = number
    while up in parents and up != os.getpid():
        up = parents[up]
    return up == os.getpid() and b"--type=renderer" in Path(f"/proc/{number}/cmdline").read_bytes()


def _private(number: int) -> float:
    facts = Path(f"/proc/{number}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in facts if line.startswith("Private")) / 1_000


def _exported(tape: Path) -> tuple[Path, float]:
    """The page, and its size relative to its gzipped texts in base64."""
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
