"""The manual as a site: every page is in the navigation, links work in both forms, and search finds things."""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.docs import DOCS, ROOT
from tests.support.running import WAIT, in_background, run

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MADE = runpy.run_path(str(DOCS / "make_site.py"))
INDEX = (DOCS / "index.md").read_text("utf-8")
SECTIONS = ["Start", "Record", "Look", "Replay", "Test", "Compare", "Share", "Operate", "Reference"]


def places(index: str) -> dict[str, list[str]]:
    """The pages of each section."""
    sections: list[Any] = MADE["navigation"](index)[1:]  # after the index itself
    return {
        title: [page for entry in pages for page in entry.values()]
        for each in sections
        for title, pages in each.items()
    }


def test_the_pages_come_in_the_order_in_which_people_need_them() -> None:
    assert list(places(INDEX)) == SECTIONS


def test_every_page_has_one_place() -> None:
    placed = [page for pages in places(INDEX).values() for page in pages]
    pages = {path.name for path in DOCS.glob("*.md")} - {"index.md"} | set(MADE["OUTSIDE"])
    assert sorted(placed) == sorted(pages), "list each page under a heading of docs/index.md, as: - [Title](page.md): …"


def test_a_link_that_is_no_entry_of_a_list_gives_no_place() -> None:
    assert places("# A\n\n[x](x.md)\n\n## B\n\n- [One](one.md): and [two](two.md)\n\n## C\n\n[y](y.md)\n") == {
        "B": ["one.md"]
    }


@pytest.mark.parametrize(
    ("source", "text", "on_the_site"),
    [
        ("docs/architecture.md", "[a](../CONTRIBUTING.md#style)", "[a](contributing.md#style)"),
        ("docs/diff.md", "[a](ci.md), ![b](pictures/viewer.png)", "[a](ci.md), ![b](pictures/viewer.png)"),
        ("docs/diff.md", "[a](#exit-codes) [b](https://example.com/x)", "[a](#exit-codes) [b](https://example.com/x)"),
        ("docs/diff.md", "[a](../pyproject.toml)", "[a](../pyproject.toml)"),
        ("CONTRIBUTING.md", "[a](docs/architecture.md)", "[a](architecture.md)"),
        ("docs/recording.md", "[a](../benchmarks/README.md#kills)", "[a](benchmarks.md#kills)"),
    ],
)
def test_a_link_leads_to_where_the_site_has_it(source: str, text: str, on_the_site: str) -> None:
    assert MADE["linked"](text, ROOT / source) == on_the_site


def test_language_models_get_every_page_as_markdown() -> None:
    texts = MADE["for_models"]()
    listed, whole = texts.pop("llms.txt"), texts.pop("llms-full.txt")
    assert texts.keys() == {page for pages in places(INDEX).values() for page in pages}
    assert listed.startswith("# mcp-tape\n\n> A VCR for the [Model Context Protocol]")
    assert [line for line in listed.splitlines() if line.startswith("## ")] == [f"## {title}" for title in SECTIONS]
    for page, text in texts.items():
        assert f"]({page})" in listed and text in whole


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the site."""
    pytest.importorskip("mkdocs", reason="needs the extra docs")
    place = tmp_path_factory.mktemp("site")
    built = run([sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(place)], cwd=ROOT, env=quietly())
    assert built.returncode == 0, built.stderr.decode()
    for name in ("llms.txt", "llms-full.txt", "start.md", "schemas/row.json"):
        assert (place / name).is_file()
    with served(place) as address:
        yield address


def quietly() -> dict[str, str]:
    return os.environ | {"NO_MKDOCS_2_WARNING": "1"}


@contextlib.contextmanager
def served(place: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    files = functools.partial(Quiet, directory=str(place))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), files) as server, in_background(server.serve_forever):
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_search_prefers_guides_to_the_reference() -> None:
    ranks = [MADE["boost"](page) for page in ("concepts.md", "diff.md", "rules.md", "changelog.md")]
    assert ranks == sorted(ranks, reverse=True) and len(set(ranks)) == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "place"),
    [
        ("what is an exchange", "concepts/"),
        ("how do I make a flaky test stable", "troubleshooting/"),
        ("can I use it with agno?", "frameworks/"),
        ("delete a session from a cassette", "keeping/"),
        ("what is a frame", "concepts/"),  # and not a framework
        ("how do I mock an MCP server in pytest", "testing/"),
        ("test hangs", "troubleshooting/"),
        ("upload cassettes to s3", "team/"),
        ("what does exit code 3 mean", "troubleshooting/"),
        ("cassette in git", "text/"),  # and not an example
    ],
)
def test_search_answers_a_question(site: str, browser: Browser, question: str, place: str) -> None:
    page = browser.new_page()
    page.set_default_timeout(WAIT * 1000)
    page.goto(site)
    page.get_by_role("textbox", name="Search").press_sequentially(question)
    found = page.locator(f".md-search-result__item:first-child a[href*='/{place}']").first
    found.wait_for()
    page.close()


@pytest.mark.slow
def test_search_finds_a_page_and_nothing_is_loaded_from_elsewhere(site: str, browser: Browser) -> None:
    page = browser.new_page()
    page.set_default_timeout(WAIT * 1000)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(site)
    page.get_by_role("textbox", name="Search").press_sequentially("byte order mark")
    found = page.locator(".md-search-result__item a[href*='/clients/']").first
    found.wait_for()
    found.click()
    page.wait_for_url(f"{site}clients/**")
    assert page.locator("h1").inner_text().startswith("See what your client really sends")
    assert len(asked) > 5 and [url for url in asked if not url.startswith((site, "data:", "blob:"))] == []
    page.close()
