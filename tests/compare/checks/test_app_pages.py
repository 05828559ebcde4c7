"""MCP Apps: rules for the rights of pages and the visibility of tools, each both ways; and the audit of a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_tape.cassette.reader import Cassette
from mcp_tape.compare.judging import JudgingSettings
from mcp_tape.contracts.audit import audit
from mcp_tape.model.pages import allows, origin_of, read_page
from tests.support.diffs import Case, Talk, exchange, expect, hello, listing, name_of, rules, taped, tool, tools

URI = "ui://cart/view.html"
PLAIN = "<html><body><button>Buy</button></body></html>"


def seen(*visibility: str) -> Talk:
    return tools(tool(_meta={"ui": {"resourceUri": URI, "visibility": list(visibility)}}))


def listed(**ui: Any) -> Talk:
    item = {"uri": URI, "name": "cart", "mimeType": "text/html;profile=mcp-app", "_meta": {"ui": ui}}
    return [hello(capabilities={"resources": {}}), listing("resources/list", item)]


def page(text: str, **ui: Any) -> Talk:
    content = {"uri": URI, "mimeType": "text/html;profile=mcp-app", "text": text, "_meta": {"ui": ui}}
    return [hello(capabilities={"resources": {}}), exchange("resources/read", {"uri": URI}, {"contents": [content]})]


def csp(*domains: str) -> dict[str, Any]:
    return {"connectDomains": ["https://api.example.com"], "resourceDomains": list(domains)}


CASES = [
    Case("tool-hidden-from-model", seen("model", "app"), seen("app"), True),
    Case("tool-hidden-from-model", tools(tool()), seen("app"), True),
    Case("tool-hidden-from-model", tools(tool()), seen("app", "model"), False),
    Case("tool-hidden-from-page", seen("model", "app"), seen("model"), True),
    Case("tool-hidden-from-page", seen("model"), seen("model"), False),
    Case("tool-visibility-widened", seen("app"), seen("app", "model"), True),
    Case("tool-visibility-widened", seen("app", "model"), seen("app"), False),
    Case("tool-meta-changed", seen("model", "app"), seen("app"), False),
    Case("page-origin-allowed", listed(csp=csp()), listed(csp=csp("https://cdn.example")), True),
    Case("page-origin-allowed", listed(csp=csp("https://cdn.example")), listed(csp=csp()), False),
    Case("page-origin-allowed", page(PLAIN), page(PLAIN, csp=csp()), True),
    Case("page-restricted", listed(csp=csp("https://cdn.example")), listed(csp=csp()), True),
    Case("page-restricted", listed(csp=csp()), listed(csp=csp()), False),
    Case("page-permission-added", listed(permissions={}), listed(permissions={"camera": {}}), True),
    Case("page-permission-added", listed(permissions={"camera": {}}), listed(permissions={}), False),
    Case("page-script-added", page(PLAIN), page(PLAIN + '<script src="https://evil.example/x.js"></script>'), True),
    Case("page-script-added", page("<script>1</script>"), page("<script>2</script>"), False),
    Case("page-form-added", page(PLAIN), page(PLAIN + "<form action='/pay'></form>"), True),
    Case("page-form-added", page("<form action=/pay>"), page("<FORM ACTION='/pay'>"), False),
    Case("page-origin-added", page(PLAIN), page(PLAIN + "<p>https://evil.example/a</p>"), True),
    Case("page-origin-added", page("https://a.example/1"), page("https://A.example/2"), False),
]


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_a_rule_finds_its_change_and_no_other(case: Case) -> None:
    expect(case)


@pytest.mark.parametrize("case", [case for case in CASES if case.expected], ids=name_of)
def test_new_rights_of_a_page_are_in_category_security(case: Case) -> None:
    found = rules(case.old, case.new, JudgingSettings(category="security"))
    assert (case.rule in found) is (
        case.rule not in ("page-restricted", "tool-hidden-from-model", "tool-hidden-from-page")
    )


# Pages --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "scripts", "forms"),
    [
        ("<script src=//a.example/x></script>", {"//a.example/x"}, set()),
        ("<!-- <script src=x></script> -->", set(), set()),
        ("<iframe src=' x '><button formaction=/b><form>", {"x"}, {"/b", ""}),
        ("<script>if (a<b) document.write('<form action=y>')</script>", {"inline"}, set()),
        ("<script src=a", set(), set()),
    ],
)
def test_a_page_is_read(text: str, scripts: set[str], forms: set[str]) -> None:
    found = read_page(text)
    assert (found.scripts, found.forms) == (scripts, forms)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://A.example:8/x", "https://a.example:8"),
        ("//a.example/x", "https://a.example"),
        ("/x", ""),
        ("data:x", ""),
    ],
)
def test_the_origin_of_a_url(url: str, origin: str) -> None:
    assert origin_of(url) == origin


@pytest.mark.parametrize(
    ("source", "origin", "expected"),
    [
        ("https://A.example/lib/", "https://a.example", True),
        ("https://*.a.example", "https://b.a.example", True),
        ("https://*.a.example", "https://a.example", False),
        ("https://*.a.example", "https://evil-a.example", False),
        ("a.example", "https://a.example", True),
        ("*", "https://a.example", True),
        ("http://a.example", "https://a.example", False),
        ("https://a.example:8", "https://a.example", False),
    ],
)
def test_a_source_of_a_policy_allows_an_origin(source: str, origin: str, expected: bool) -> None:
    assert allows(source, origin) is expected


EVIL = '<script src="https://evil.example/x.js"></script>'


@pytest.mark.parametrize(
    ("talk", "expected"),
    [
        (page(EVIL), ["page-loads-foreign-code"]),
        (page("<form action='https://evil.example/'>"), ["page-loads-foreign-code"]),
        (page(EVIL, csp=csp("https://evil.example")), []),
        (page(EVIL, csp=csp("https://*.example")), []),
        (page(EVIL, csp=csp("https://*.other.example")), ["page-loads-foreign-code"]),
        ([*listed(csp=csp("https://evil.example")), page(EVIL)[-1]], []),
        ([*listed(csp=csp("https://evil.example")), page(EVIL, csp=csp())[-1]], ["page-loads-foreign-code"]),
        (page(PLAIN, permissions={"camera": {}}), ["page-asks-for-permission"]),
        (page("<script>1</script><script src='/app.js'></script><form action='/pay'></form>"), []),
    ],
)
def test_the_audit_reads_pages(talk: Talk, expected: list[str], tmp_path: Path) -> None:
    with Cassette(str(taped(tmp_path / "tape.db", talk))) as cassette:
        assert [suspect.rule for suspect in audit(cassette, [1])] == expected
