"""HTTP archives of sessions: as recorded over HTTP, or mapped from stdio."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mcp_tape.cassette.query.filters import EVERYTHING, parse
from mcp_tape.cassette.reader import Cassette
from mcp_tape.formats import har
from tests.support.provision import ROOT
from tests.support.running import WAIT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MITM = ROOT / "tests/formats/others/recordings/mitmproxy/everything.har"


def archive(path: Path, kept: str = "") -> dict[str, Any]:
    with Cassette(path) as cassette:
        return json.loads("".join(har.dump(cassette, cassette.sessions(), parse(kept) if kept else EVERYTHING)))["log"]


def said(path: Path) -> list[tuple[str, bytes]]:
    with Cassette(path) as cassette:
        return [(frame.sender, frame.text) for frame in cassette.frames(1) if frame.kind == "message"]


@pytest.mark.slow
def test_http_requests_come_back_unchanged(tmp_path: Path) -> None:
    (tmp_path / "again.har").write_text(json.dumps({"log": archive(MITM)}))
    assert said(tmp_path / "again.har") == said(MITM)


@pytest.mark.parametrize("name", ["time", "everything"])
def test_calls_on_stdio_are_mapped_and_say_so(name: str) -> None:
    path = ROOT / "cassettes" / f"{name}.db"
    log = archive(path)
    with Cassette(path) as cassette:
        assert len(log["entries"]) == len(cassette.exchanges(1))
    assert {entry["comment"] for entry in log["entries"]} == {"mapped: recorded on stdio"}
    assert {entry["request"]["url"].split("/")[0] for entry in log["entries"]} == {"mcp:"}


def test_a_filter_chooses_entries() -> None:
    (entry,) = archive(ROOT / "cassettes" / "everything.db", "tool:get-sum")["entries"]
    assert json.loads(entry["request"]["postData"]["text"])["params"]["name"] == "get-sum"
    assert "The sum" in entry["response"]["content"]["text"]
    assert entry["time"] == entry["timings"]["wait"] > 0


FETCH = """async ([url, body]) => {
    const response = await fetch(url, {method: "POST", body, headers: {"content-type": "application/json"}});
    return [response.status, response.headers.get("content-type"), await response.text()];
}"""


@pytest.mark.slow
def test_a_browser_answers_requests_from_it(browser: Browser, tmp_path: Path) -> None:
    log = archive(ROOT / "tests/formats/others/recordings/chromium/odd.har")
    (tmp_path / "odd.har").write_text(json.dumps({"log": log}))
    context = browser.new_context()
    context.route_from_har(tmp_path / "odd.har", not_found="abort")  # there is no server
    context.set_default_timeout(WAIT * 1000)
    page = context.new_page()
    url = log["entries"][0]["request"]["url"]
    page.route("**/blank", lambda route: route.fulfill(body="<p>", content_type="text/html"))
    page.goto(url.replace("/mcp", "/blank"))
    posts = {entry["request"]["postData"]["text"]: entry["response"] for entry in log["entries"]}
    assert len(posts) == 9
    for body, response in posts.items():
        status, kind, text = page.evaluate(FETCH, [url, body])
        content = response["content"]
        assert (status, kind or "", text) == (response["status"], content["mimeType"], content.get("text", ""))
    context.close()
