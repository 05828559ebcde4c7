"""Calls as rows and as bars, in a real browser: failures are visible first, at every width."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.browser import WIDER
from tests.support.reading import Frames, call, make, message, said
from tests.support.viewing import READY, exported, places, show

if TYPE_CHECKING:
    from playwright.sync_api import Page

FAILED = (5, 17, 33)
SERVERS = [("2026-01-01T00:00:00Z", "weather"), ("2026-01-01T00:00:01Z", "trains")]
# The heights at which a canvas has pixels of a colour of the page: first, last, and the most of them in a line.
BANDS = """([id, name]) => {
  const canvas = document.getElementById(id);
  const { width, height } = canvas;
  const pen = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  pen.fillStyle = getComputedStyle(canvas).getPropertyValue(name).trim();
  pen.fillRect(0, 0, 1, 1);
  const [r, g, b] = pen.getImageData(0, 0, 1, 1).data;
  pen.clearRect(0, 0, 1, 1);
  pen.drawImage(canvas, 0, 0);
  const { data } = pen.getImageData(0, 0, width, height);
  const bands = [];
  for (let y = 0; y < height; y++) {
    let wide = 0;
    for (let at = 4 * y * width; at < 4 * (y + 1) * width; at += 4) {
      if (data[at] === r && data[at + 1] === g && data[at + 2] === b) wide++;
    }
    const last = bands.at(-1);
    if (wide && last?.[1] === y - 1) [last[1], last[2]] = [y, Math.max(last[2], wide)];
    else if (wide) bands.push([y, y, wide]);
  }
  return bands;
}"""
PAINTED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"
STATE = "(wanted) => location.hash.includes(wanted)"


def bands(page: Page, canvas: str, colour: str) -> list[list[int]]:
    page.evaluate(PAINTED)
    found: list[list[int]] = page.evaluate(BANDS, [canvas, colour])
    return found


def greeting(name: str = "weather") -> Frames:
    asked = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "agent", "version": "2"}}
    answer = {"protocolVersion": "2025-11-25", "serverInfo": {"name": name, "version": "1.0"}}
    talk = Frames().client(message(id=0, method="initialize", params=asked), at=0)
    return talk.server(message(id=0, result=answer), at=10_000)


def overlapping(calls: int, failed: Sequence[int]) -> Frames:
    talk = greeting()
    for number in range(1, calls + 1):
        talk.client(call(number, f"tool_{number}"), at=20_000 + number * 100)
    for number in range(1, calls + 1):
        talk.server(said(number, f"answer {number}", isError=number in failed), at=400_000 + number * 7919 % 1000 * 500)
    return talk


def hanging() -> Frames:
    talk = greeting().client(call(1, "quick"), at=20_000).server(said(1, "x"), at=30_000)
    talk.client(call(2, "hangs"), at=40_000).add("server", b"waiting for a lock", "stderr", "stderr", at=50_000)
    return talk.add("client", b'{"event": "close"}', "stdio", "control", at=30_040_000)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 800, 1280, 2560])
def test_every_failure_among_many_calls_is_red(page: Page, tmp_path: Path, width: int, scheme: str) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    show(page, make(tmp_path / "tape.db", overlapping(40, FAILED)), tmp_path, rows="calls")
    red = bands(page, "waterfall", "--red")
    assert len(red) == len(FAILED)
    assert all(last - first >= 2 and wide > width / 4 for first, last, wide in red)
    assert len(bands(page, "minimap", "--red")) == len(FAILED)
    assert page.locator("#lanes").evaluate("one => one.scrollHeight <= one.clientHeight")  # all lanes are on the screen
    odd = page.locator("#rows .row.odd")
    assert odd.first.get_attribute("data-place") == f"1.{FAILED[0] + 2}"
    assert page.evaluate(WIDER) <= 0


@pytest.mark.slow
def test_more_lanes_than_fit_scroll_and_the_minimap_has_every_failure(page: Page, tmp_path: Path) -> None:
    show(page, make(tmp_path / "tape.db", overlapping(400, [1, 200, 400])), tmp_path, rows="calls")
    assert page.locator("#lanes").evaluate("one => one.scrollHeight > 2 * one.clientHeight")
    assert len(bands(page, "minimap", "--red")) == 3
    for number in (1, 200, 400):
        page.keyboard.press("n")
        page.wait_for_selector(f"[data-place='1.{number + 2}'].selected")
        assert len(bands(page, "waterfall", "--red")) == 1  # its lane scrolls into view


@pytest.mark.slow
def test_a_failure_that_is_filtered_out_is_still_seen(page: Page, tmp_path: Path) -> None:
    show(page, make(tmp_path / "tape.db", overlapping(40, FAILED)), tmp_path, rows="calls", q="tool:tool_1")
    assert len(bands(page, "waterfall", "--rosy")) == len(FAILED)
    assert len(bands(page, "minimap", "--amber")) == 1  # the match


@pytest.mark.slow
def test_a_call_without_an_answer_is_the_longest_bar_and_opens_first(page: Page, tmp_path: Path) -> None:
    page.goto(exported(make(tmp_path / "tape.db", hanging()), tmp_path / "tape.html").as_uri())
    page.wait_for_selector("[data-place='1.5'].selected.odd")
    page.locator("#details .badge").get_by_text("unanswered", exact=True).wait_for()
    assert page.locator("[data-place='1.5'] .number").all_inner_texts()[2] == "> 30.00 s"
    ((first, last, wide),) = bands(page, "waterfall", "--red")
    assert last - first >= 10 and wide > 1100  # to the end
    assert page.locator("#facts .wrong").all_inner_texts() == ["1 unanswered"]


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 1280])
def test_a_call_without_an_answer_has_its_age_among_many(page: Page, tmp_path: Path, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    talk = overlapping(40, FAILED).client(call(99, "hangs"), at=300_000)
    show(page, make(tmp_path / "tape.db", talk), tmp_path, rows="calls", at="1.3")
    red = bands(page, "waterfall", "--red")
    high = [last - first + 1 for first, last, _ in red]
    assert len(high) == len(FAILED) + 1
    assert sorted(high)[-2:] == [high[0], 14]  # room for words
    page.evaluate("location.hash = 'at=1.83'")
    page.locator("#details .title").get_by_text("> 587.5 ms").wait_for()


@pytest.mark.slow
def test_a_failure_is_seen_below_the_mark_of_the_selection(page: Page, tmp_path: Path) -> None:
    talk = Frames().client(call(1, "slow"), at=0).server(said(1, "x"), at=30_000_000)
    talk.client(call(2, "fails"), at=31_000_000).server(said(2, "no", isError=True), at=31_000_100)
    talk.client(call(3, "slow"), at=32_000_000).server(said(3, "x"), at=60_000_000)
    page.goto(exported(make(tmp_path / "tape.db", talk), tmp_path / "tape.html").as_uri())
    page.wait_for_selector("[data-place='1.3'].selected")
    ((_, _, wide),) = bands(page, "minimap", "--red")
    assert wide >= 2


@pytest.mark.slow
def test_a_call_unfolds_into_its_messages(page: Page, tmp_path: Path) -> None:
    params = {"name": "ask", "arguments": {"x": 1}, "_meta": {"progressToken": 1}}
    talk = greeting().client(message(method="notifications/initialized"))
    talk.client(message(id=1, method="tools/call", params=params))
    talk.server(message(method="notifications/progress", params={"progressToken": 1, "progress": 1}))
    talk.server(message(id="s", method="roots/list")).client(message(id="s", result={"roots": []})).stderr("hm")
    talk.server(said(1, "forty-two")).stderr("afterwards").stderr("and more")
    page.set_viewport_size({"width": 1600, "height": 800})
    show(page, make(tmp_path / "tape.db", talk), tmp_path, rows="calls")
    assert places(page) == ["1.1", "1.3", "1.4", "1.10"]  # messages without a call are in one row
    row = page.locator("[data-place='1.4']")
    row.locator(".line").get_by_text("forty-two").wait_for()
    assert row.locator(".line").text_content() == '{"x":1} → forty-two'
    assert (row.get_attribute("role"), row.get_attribute("aria-expanded")) == ("treeitem", "false")
    row.locator(".fold").click()
    assert places(page) == ["1.1", "1.3", "1.4", "1.5", "1.6", "1.7", "1.8", "1.9", "1.10"]
    assert page.locator("[data-place='1.8']").get_attribute("aria-level") == "2"
    assert page.locator(".row.odd").count() == 0  # stderr is no error
    page.keyboard.press("ArrowLeft")
    assert places(page) == ["1.1", "1.3", "1.4", "1.10"]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("[data-place='1.5'].selected")
    assert page.locator("[data-place='1.10'] .what").inner_text() == "▸stderr 2"
    page.locator("[data-place='1.10']").click()
    page.wait_for_selector("[data-place='1.11']")
    page.get_by_role("button", name="messages", exact=True).click()
    page.get_by_text("11 messages", exact=True).wait_for()
    assert places(page) == [f"1.{number}" for number in range(1, 12)]


@pytest.mark.slow
def test_a_filter_keeps_calls_and_matches_elsewhere(page: Page, tmp_path: Path) -> None:
    show(page, make(tmp_path / "tape.db", hanging()), tmp_path, rows="calls", q="tool:quick")
    assert places(page) == ["1.3"]
    page.locator("#filter").fill("lock")
    page.get_by_text("0 calls, 1 of 7").wait_for()
    assert places(page) == ["1.6"]
    page.locator("#filter").fill("nowhere")
    page.get_by_text("Nothing matches nowhere.").wait_for()
    page.get_by_role("button", name="clear the filter").click()
    page.get_by_text("3 calls, 7 messages").wait_for()


@pytest.mark.slow
def test_one_line_summarizes_the_recording_with_links(page: Page, tmp_path: Path) -> None:
    show(page, make(tmp_path / "tape.db", overlapping(40, FAILED)), tmp_path, rows="calls")
    facts = page.locator("#facts button")
    assert facts.all_inner_texts()[-4:] == ["887.5 ms", "41 calls", "3 failures", "slowest 865.0 ms"]
    facts.get_by_text("3 failures").click()
    page.get_by_text("3 calls, 6 of 82").wait_for()
    facts.get_by_text("slowest").click()
    page.locator("#details .title").get_by_text("865.0 ms").wait_for()
    facts.get_by_text("stdio").click()
    assert page.get_by_role("tab", selected=True).inner_text() == "Sessions"


@pytest.mark.slow
def test_time_zooms_moves_and_is_measured(page: Page, tmp_path: Path) -> None:
    show(page, make(tmp_path / "tape.db", overlapping(40, FAILED)), tmp_path, rows="calls", at="1.3")
    for key, state in [("+", "range=22187"), ("h", "range=11093"), ("l", "range=22187")]:
        page.keyboard.press(key)
        page.wait_for_function(STATE, arg=state)
    page.keyboard.press("0")
    page.wait_for_function("() => !location.hash.includes('range')")
    page.locator("#waterfall").hover(position={"x": 86, "y": 60})
    page.mouse.wheel(0, -300)
    page.wait_for_function(STATE, arg="range=0-")  # the time under the pointer stays
    page.locator("#minimap").dblclick()
    page.wait_for_function("() => !location.hash.includes('range')")
    for key in "rjr":
        page.keyboard.press(key)
    page.wait_for_function(STATE, arg="marks=20100-")
    assert bands(page, "waterfall", "--accent")
    page.keyboard.press("r")
    page.wait_for_function("() => !location.hash.includes('marks')")
    box = page.locator("#waterfall").bounding_box()
    assert box
    page.keyboard.down("Shift")
    for at, act in [(300, page.mouse.down), (500, page.mouse.up)]:
        page.mouse.move(box["x"] + at, box["y"] + 60, steps=3)
        act()
    page.keyboard.up("Shift")
    page.wait_for_function("() => /marks=\\d+-\\d+/.test(location.hash) && !location.hash.includes('range')")


@pytest.mark.slow
def test_list_and_waterfall_point_at_each_other(page: Page, tmp_path: Path) -> None:
    show(page, make(tmp_path / "tape.db", overlapping(10, [])), tmp_path, rows="calls")
    before = bands(page, "waterfall", "--soft")
    page.locator("[data-place='1.5']").hover()
    assert len(bands(page, "waterfall", "--soft")) > len(before)  # a frame around its bar
    page.locator("#waterfall").hover(position={"x": 300, "y": 27 + 2 * 16})
    page.wait_for_selector("[data-place='1.5'].pointed")
    page.locator("#waterfall").click(position={"x": 300, "y": 27 + 3 * 16})
    page.wait_for_selector("[data-place='1.6'].selected")


@pytest.mark.slow
def test_servers_have_lanes_of_their_own(page: Page, tmp_path: Path) -> None:
    tapes = [
        make(tmp_path / f"{name}.db", greeting(name).client(call(1, name)), started_at=at, server_name=name)
        for at, name in SERVERS
    ]
    page.goto(exported(tapes[0], tmp_path / "both.html", str(tapes[1])).as_uri())
    page.wait_for_selector(READY)
    assert page.locator("#facts button").first.inner_text() == "2 servers"
    assert page.locator("#facts .wrong").inner_text() == "2 unanswered"
    assert len(bands(page, "minimap", "--red")) == 2


@pytest.mark.slow
def test_a_missing_part_is_reported(page: Page, tmp_path: Path) -> None:
    show(page, make(tmp_path / "empty.db", Frames()), tmp_path, rows="")
    page.get_by_text("No messages were recorded in this session.").wait_for()
    show(page, make(tmp_path / "tape.db", hanging()), tmp_path, at="1.99")
    page.get_by_text("This link looks for message 99 of session 1, which is not in tape.db.").wait_for()
    page.get_by_role("button", name="dismiss").click()
    page.locator("#notice").wait_for(state="hidden")
    page.evaluate("location.hash = 'session=7'")
    page.get_by_text("This link looks for session 7").wait_for()
    page.evaluate("location.hash = 'tab=nothing'")
    page.get_by_text('There is no view "nothing" here.').wait_for()
    page.evaluate("location.hash = 'at=1.5&q=tool:quick'")
    page.get_by_text("The selected message 5 is not in the list: the filter leaves it out.").wait_for()
    page.get_by_role("button", name="show it").click()
    page.wait_for_selector("[data-place='1.5'].selected")


@pytest.mark.slow
def test_events_without_data_belong_to_their_stream(page: Page, tmp_path: Path) -> None:
    talk = Frames().posts("post-1", message(id=1, method="initialize"), message(id=1, result={}))
    talk.happened("client", "post-2", event="request", verb="POST", path="/mcp", headers={})
    talk.client(call(2, "x"), channel="post-2")
    talk.happened("server", "post-2", event="response", status=200, headers={"content-type": "text/event-stream"})
    talk.add("server", b"", "post-2", "noise")
    talk[-1] = talk[-1]._replace(head=b"id: 1\ndata: ")
    talk.server(said(2, "y"), channel="post-2")
    show(page, make(tmp_path / "tape.db", talk, transport="http"), tmp_path, rows="calls")
    assert places(page) == ["1.2", "1.7"]
    page.locator("[data-place='1.7'] .fold").click()
    assert places(page) == ["1.2", "1.7", "1.10"]
    page.get_by_role("checkbox", name="HTTP").check()
    page.wait_for_selector("[data-place='1.9']")
    assert places(page) == ["1.2", "1.7", "1.6", "1.8", "1.9", "1.10"]
    assert page.locator("[data-place='1.9'] .what").inner_text() == "primes post-2"
    assert page.locator(".row.odd").count() == 0
