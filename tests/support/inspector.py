"""The MCP Inspector in a browser, operated through its page. It needs a newer Node than the tests do."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support import provision
from tests.support.running import WAIT, until

if TYPE_CHECKING:
    from playwright.sync_api import Page

PACKAGES = ("@modelcontextprotocol/inspector@2.12.0", "node@22")
NAME = "server"  # of the only server that it knows
SAMPLED = "Hello from the Inspector."


@contextlib.contextmanager
def opened(server: Mapping[str, Any], place: Path, port: int) -> Iterator[Page]:
    """Its page, connected to a server that is described as in `mcpServers`."""
    from playwright.sync_api import sync_playwright

    with _running(server, place, port) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=provision.chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1500, "height": 1000})
        page.set_default_timeout(WAIT * 1000)
        page.goto(url)
        page.get_by_label(f'Connect or disconnect "{NAME}"').click(force=True)
        page.get_by_text("Connected (").wait_for()
        page.get_by_text("Tools", exact=True).first.click()
        yield page
        browser.close()


@contextlib.contextmanager
def _running(server: Mapping[str, Any], place: Path, port: int) -> Iterator[str]:
    (place / "servers.json").write_text(json.dumps({"mcpServers": {NAME: server}}))
    modules = provision.npm(*PACKAGES)
    env = provision.environment() | {
        "PATH": os.pathsep.join([str(modules / "node" / "bin"), provision.environment()["PATH"]]),
        "HOME": str(place), "MCP_STORAGE_DIR": str(place), "MCP_INSPECTOR_SECRET_STORE": "memory",
        "HOST": "127.0.0.1", "CLIENT_PORT": str(port), "MCP_SANDBOX_PORT": "0",
        "MCP_AUTO_OPEN_ENABLED": "false", "DANGEROUSLY_OMIT_AUTH": "true",
    }  # fmt: skip
    command = ["node", str(modules / ".bin" / "mcp-inspector"), "--web", "--config", "servers.json"]
    log = place / "inspector.log"
    with log.open("wb") as said:
        process = subprocess.Popen(command, cwd=place, env=env, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        try:
            until(lambda: "running at" in log.read_text() or process.poll() is not None, "the Inspector to listen")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(WAIT)


def play(page: Page, steps: Sequence[Mapping[str, Any]]) -> None:
    """Call tools one by one, each after the previous one has ended."""
    for step in steps:
        _choose(page, step["name"])
        _fill_in(page, json.dumps(step["arguments"], ensure_ascii=False))
        page.get_by_role("button", name="Execute Tool").click()
        close = page.get_by_role("button", name="Close results").or_(page.get_by_role("button", name="Close error"))
        answer = page.get_by_role("button", name="Send Response")
        close.or_(answer).wait_for()
        if answer.is_visible():
            _answer(page)
            answer.click()
        close.click()


def _answer(page: Page) -> None:
    """Answer the server as its model."""
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").first.fill(SAMPLED)


def _choose(page: Page, tool: str) -> None:
    """Select a tool by its name, which follows its title if it has one."""
    page.get_by_role("button").filter(has=page.get_by_text(tool, exact=True)).click()


def _fill_in(page: Page, arguments: str) -> None:
    switch = page.get_by_label("Edit as JSON")
    if not switch.is_checked():
        switch.click(force=True)
    page.get_by_label("Arguments JSON").focus()
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.insert_text(arguments)


def exported(page: Page, tab: str, out: Path) -> Path:
    """The file that the button above a list of the sidebar writes."""
    page.get_by_text(tab, exact=True).last.click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").last.click()
    download.value.save_as(out)
    return out


def seen(page: Page, place: Path) -> list[Any]:
    """The calls and answers in its list of messages."""
    messages = json.loads(exported(page, "Protocol", place / "seen.json").read_text("utf-8"))
    calls = [one for one in messages if one["message"].get("method") == "tools/call"]
    return [
        {name: one["message"]["params"][name] for name in ("name", "arguments")}
        | {name: value for name, value in one["response"].items() if name in ("result", "error")}
        for one in calls
    ]
