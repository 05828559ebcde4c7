"""`mcp-tape view` in a real browser, during a recording."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcp_tape.cassette.reader import Cassette
from tests.support import forked
from tests.support.browser import as_new
from tests.support.filtering import TALK
from tests.support.forked import MCP_TAPE
from tests.support.reading import Frames, Recording, call, make, message, said
from tests.support.running import WAIT, until
from tests.support.viewing import READY, numbers

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return make(tmp_path / "tape.db", TALK)


@pytest.fixture
def url(tape: Path) -> Iterator[str]:
    with viewed(tape) as found:
        yield found


@contextmanager
def viewed(tape: Path) -> Iterator[str]:
    """The URL of a cassette's viewer, ended with Ctrl-C."""
    command = [*MCP_TAPE, "view", str(tape), "--no-open"]
    with forked.start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        yield process.stdout.readline().decode().strip()
        process.send_signal(signal.SIGINT)
        _, said_last = process.communicate(timeout=WAIT)
    assert (process.returncode, b"Traceback" in said_last) == (0, False), said_last


@pytest.fixture
def page(shared_page: Page, url: str) -> Iterator[Page]:
    """The page. It requests only its own server, and logs no errors."""
    wrong: list[str] = []
    with as_new(
        shared_page,
        pageerror=lambda error: wrong.append(str(error)),
        request=lambda asked: None if asked.url.startswith((url, "data:", "blob:")) else wrong.append(asked.url),
    ):
        shared_page.goto(f"{url}#rows=messages")
        shared_page.wait_for_selector(READY)
        yield shared_page
    assert [one for one in wrong if not one.endswith("/favicon.ico")] == [], wrong


@pytest.mark.slow
def test_it_shows_the_recording(page: Page) -> None:
    assert numbers(page) == list(range(1, 19))
    page.locator("[data-place='1.3']").click()
    page.locator("#details article").nth(1).get_by_text("no such city").wait_for()


@pytest.mark.slow
def test_rows_are_there_before_all_have_arrived(shared_page: Page, tmp_path: Path) -> None:
    talk = Frames()
    for number in range(3_000):
        talk.client(call(number, "x"), at=number).server(said(number, f"answer {number}"), at=number)
    waiting: list[Route] = []
    with viewed(make(tmp_path / "tape.db", talk)) as url, as_new(shared_page) as page:
        page.route("**/updates?from=1&*", lambda route: waiting.append(route))
        with page.expect_request("**/updates?from=1&*"):
            page.goto(f"{url}#rows=messages")
        page.wait_for_selector("[data-place='1.1']")
        assert page.get_by_role("progressbar", name="Loading").is_visible()
        page.get_by_text("2,000 messages", exact=True).wait_for()
        for route in waiting:
            route.continue_()
        page.get_by_text("6,000 messages", exact=True).wait_for()
        page.get_by_role("progressbar", name="Loading").wait_for(state="hidden")


@pytest.mark.slow
def test_it_follows_a_recording(page: Page, tape: Path) -> None:
    recording = Recording(tape)
    talk = Frames().client(call(1, "slow"))
    recording.write(talk)
    page.wait_for_selector("[data-place='2.1']")
    assert page.locator(".row.odd").count() == 0  # it may still be answered
    recording.write(talk.server(said(1, "done at last"))[1:])
    page.locator("[data-place='2.2']").get_by_text("done at last").wait_for()
    recording.write(talk.client(call(2, "never"))[2:])
    page.wait_for_selector("[data-place='2.3']")
    recording.end()
    page.wait_for_selector("[data-place='2.3'].odd")  # now it cannot


@pytest.mark.slow
def test_a_call_that_waits_grows_older(page: Page, tape: Path) -> None:
    began = datetime.now(timezone.utc) - timedelta(minutes=2)
    recording = Recording(tape, started_at=began.isoformat())
    recording.write(Frames().client(call(1, "quick"), at=0).server(said(1, "x"), at=10).client(call(2, "hangs"), at=20))
    page.evaluate("location.hash = 'at=2.3'")
    took = page.locator("[data-place='2.3'] > :nth-child(7)")
    took.get_by_text(re.compile(r"^> 1[2-9]\d\.\d\d s$")).wait_for()
    page.locator("#details .title").get_by_text("> 1").wait_for()
    before = took.inner_text()
    page.wait_for_function(
        "before => document.querySelector(\"[data-place='2.3']\").children[6].innerText > before", arg=before
    )
    recording.end(ended_at=datetime.now(timezone.utc).isoformat())
    page.wait_for_selector("[data-place='2.3'].odd")
    page.locator("#facts").get_by_text("1 unanswered").wait_for()


@pytest.mark.slow
def test_new_rows_move_nothing_that_is_read(page: Page, tape: Path) -> None:
    recording = Recording(tape)
    talk = Frames().client(call(0, "x", a={"b": {"c": {"d": {"e": "x" * 300}}}}))
    for number in range(1, 60):
        talk.client(call(number, "x")).server(said(number, "y"))
    recording.write(talk)
    page.evaluate("location.hash = 'rows=messages&at=2.1'")
    page.locator("#details").get_by_role("button", name="tree").click()
    page.locator("#list").evaluate("one => (one.scrollTop = 900)")
    recording.write(talk.server(said(0, "at last"))[-1:])
    page.get_by_text("120 messages", exact=True).wait_for()
    assert page.locator("#list").evaluate("one => one.scrollTop") == 900
    page.locator("#details article").nth(1).wait_for()  # the answer
    page.locator("#details").get_by_role("button", name="unfold").first.click()
    deep = page.locator("#details .name").get_by_text("e:", exact=True)
    deep.wait_for()
    recording.write(talk.stderr("afterwards")[-1:])
    page.get_by_text("121 messages", exact=True).wait_for()
    assert deep.is_visible()
    recording.end()


@pytest.mark.slow
def test_it_follows_several_recorders(page: Page, tape: Path) -> None:
    server = [sys.executable, "-m", "mcp_tape.demo.server"]
    command = [*MCP_TAPE, "record", "-o", str(tape), "--", *server]
    with ExitStack() as running:
        for number in (2, 3):
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            process = running.enter_context(forked.start(command, **pipes))
            assert process.stdin
            process.stdin.write(message(id=1, method="ping") + b"\n")
            process.stdin.flush()
            page.wait_for_selector(f"[data-place='{number}.2']")
        page.keyboard.press("4")
        ends = page.locator("tbody tr td:last-child")
        assert ends.all_text_contents()[1:] == ["goes on", "goes on"]
    page.wait_for_function("() => !document.querySelector('tbody').textContent.includes('goes on')")


@pytest.mark.slow
def test_a_cancelled_request_is_shown_as_cancelled(page: Page, tape: Path) -> None:
    recording = Recording(tape)
    talk = Frames().client(call(1, "slow"))
    recording.write(talk)
    page.wait_for_selector("[data-place='2.1']")
    recording.write(talk.client(message(method="notifications/cancelled", params={"requestId": 1}))[1:])
    page.locator("[data-place='2.1']").get_by_text("cancelled").wait_for()
    recording.end()


@pytest.mark.slow
def test_a_pause_loses_nothing(page: Page, tape: Path) -> None:
    page.get_by_role("button", name="pause").click()
    recording = Recording(tape)
    recording.write(Frames().client(call(1, "x")))
    page.evaluate("fetch('updates?from=0')")  # the server has checked since
    assert page.locator("#session option").count() == 1
    page.get_by_role("button", name="go on").click()
    page.wait_for_selector("[data-place='2.1']")
    recording.end()


@pytest.mark.slow
def test_it_stays_at_the_end_if_chosen(page: Page, tape: Path) -> None:
    page.set_viewport_size({"width": 800, "height": 300})
    page.keyboard.press("f")
    recording = Recording(tape)
    talk = Frames()
    for number in range(60):
        talk.client(call(number, "x")).server(said(number, f"answer {number}"))
    recording.write(talk[:100])
    page.wait_for_selector("[data-place='2.100']")
    recording.write(talk[100:])
    page.locator("[data-place='2.120']").get_by_text("answer 59").wait_for()
    recording.end()


@pytest.mark.slow
def test_a_filter_that_takes_long_says_so(page: Page, tape: Path) -> None:
    waiting: list[Route] = []
    page.route("**/block/*", lambda route: waiting.append(route))
    page.reload()
    page.wait_for_selector(READY)
    page.locator("#filter").fill("Bern")
    page.get_by_text("searching …").wait_for()
    for route in waiting:
        route.continue_()
    page.wait_for_function("() => / of 18$/.test(document.getElementById('count').textContent)")


@pytest.mark.slow
def test_findings_appear_when_a_session_ends(page: Page, tape: Path) -> None:
    before = page.locator("#tab-findings").inner_text()
    recording = Recording(tape)
    recording.write(Frames().client(call(1, "never")))
    page.wait_for_selector("[data-place='2.1']")
    recording.end()
    page.wait_for_selector("[data-place='2.1'].found")
    assert page.locator("#tab-findings").inner_text() != before


@pytest.mark.slow
def test_two_sessions_are_compared(page: Page, tape: Path) -> None:
    assert not page.get_by_role("tab", name="Compare").is_visible()
    recording = Recording(tape)
    recording.write(TALK)
    recording.end()
    page.get_by_role("tab", name="Compare").click()
    page.get_by_role("button", name="compare").click()
    page.locator("#report h1").get_by_text("No findings").or_(page.locator("#report h1")).first.wait_for()
    page.locator("#calls tbody tr").first.wait_for()
    page.go_back()
    page.wait_for_selector(READY)
    page.get_by_label("Old session").wait_for()


@pytest.mark.slow
def test_the_filtered_messages_are_saved_as_a_cassette(page: Page, tmp_path: Path) -> None:
    page.locator("#filter").fill("tool:search")
    page.get_by_text("2 of 18", exact=True).wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="save").click()
    saved = tmp_path / download.value.suggested_filename
    download.value.save_as(saved)
    assert saved.name == "tape-filtered.db"
    with Cassette(saved) as cassette:
        assert [frame.seq for frame in cassette.frames(1)] == [3, 7]


@pytest.mark.slow
def test_the_browser_is_opened_by_default(tape: Path, tmp_path: Path) -> None:
    opened, program = tmp_path / "opened", tmp_path / "browser"
    program.write_text(f'#!/bin/sh\necho "$1" > {opened}.new && mv {opened}.new {opened}\n')
    program.chmod(0o755)
    command = [sys.executable, "-m", "mcp_tape", "view", str(tape)]
    environment = os.environ | {"BROWSER": f"{program} %s"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as viewed:
        try:
            assert viewed.stdout
            url = viewed.stdout.readline().strip()
            until(opened.exists, "the browser")
            assert opened.read_text().strip() == url
        finally:
            viewed.terminate()
