"""Pages of MCP Apps: the sources that a page loads, its targets, and its permissions.

Untrusted HTML, read by Python's own parser.

https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ..wire import apps, protocol
from ..wire.jsontext import Path
from .steering import Suspicion

FOREIGN, PERMISSION = "page-loads-foreign-code", "page-asks-for-permission"
SAYS = {  # the meaning of each rule
    FOREIGN: "A page has a script, a frame or a form of an origin that its CSP does not declare.",
    PERMISSION: "A page asks for the camera, the microphone or the like.",
}
_ORIGIN = re.compile(r"(?:https?|wss?)://[\w.-]{1,253}(?::\d{1,5})?", re.I)
_LOADING = {"script": "src", "iframe": "src", "frame": "src", "object": "data", "embed": "src"}
_INLINE = "inline"


class AppPage(NamedTuple):
    """The sources of a page's scripts and frames, the targets of its forms, and all origins that it names."""

    scripts: frozenset[str]
    forms: frozenset[str]
    origins: frozenset[str]


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.scripts: set[str] = set()
        self.forms: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in _LOADING:
            self.scripts.add((given.get(_LOADING[tag]) or "").strip() or _INLINE)
        elif tag == "form":
            self.forms.add((given.get("action") or "").strip())
        self.forms.update(action.strip() for name, action in attrs if name == "formaction" and action)


def read_page(text: str) -> AppPage:
    parser = _Parser()
    parser.feed(text)
    parser.close()
    origins = frozenset(found[0].lower() for found in _ORIGIN.finditer(text))
    return AppPage(frozenset(parser.scripts), frozenset(parser.forms), origins)


def origin_of(url: str) -> str:
    """The origin of a URL; empty for a relative or inline one."""
    try:
        parts = urlsplit(url if not url.startswith("//") else f"https:{url}")
    except ValueError:
        return url
    return f"{parts.scheme}://{parts.netloc}".lower() if parts.netloc else ""


def is_page(content: Any) -> bool:
    """Return whether contents of a resource are a page for hosts."""
    uri, kind = (protocol.member(content, name) for name in ("uri", "mimeType"))
    is_ours = isinstance(uri, str) and uri.startswith(apps.SCHEME)
    return isinstance(protocol.member(content, "text"), str) and (is_ours or kind == apps.PAGE_TYPE)


def allows(source: str, origin: str) -> bool:
    """Return whether a source of a CSP includes an origin: https://www.w3.org/TR/CSP3/#match-url-to-source-expression"""
    scheme, _, host = (origin_of(source) or source.lower()).rpartition("://")
    its_scheme, _, its_host = origin.partition("://")
    is_within = its_host.endswith(host[1:]) if host.startswith("*.") else host in ("*", its_host)
    return is_within and scheme in ("", its_scheme)


def in_contents(result: Any, listed: Mapping[str, dict[str, Any]], path: Path = ("result",)) -> Iterator[Suspicion]:
    """Yield suspicions in pages: code and forms of origins that their CSP does not declare, and permissions.

    `listed`: `_meta.ui` of listed resources by URI, for pages without their own.
    """
    contents = protocol.member(result, "contents")
    for at, content in enumerate(contents if isinstance(contents, list) else ()):
        if is_page(content):
            place: Path = (*path, "contents", at)
            ui = apps.ui_of(content) or listed.get(str(content.get("uri")), {})
            page, declared = read_page(content["text"]), apps.origins_of(ui)
            for url in sorted(page.scripts | page.forms):
                if (origin := origin_of(url)) and not any(allows(source, origin) for source in declared):
                    why = f"loads from or sends to {origin!a}, which its CSP does not declare"
                    yield Suspicion(FOREIGN, (*place, "text"), why)
            for name in sorted(apps.permissions_of(ui)):
                yield Suspicion(PERMISSION, (*place, "_meta", "ui", "permissions", name), f"asks for {name!a}")
