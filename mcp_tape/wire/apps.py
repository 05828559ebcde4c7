"""MCP Apps: pages that servers give to hosts. Separate from `protocol`, because start-up does not need it.

https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx
"""

from __future__ import annotations

from typing import Any

from .protocol import META, member

EXTENSION = META + "ui"  # below `extensions` of the capabilities
PAGE_TYPE = "text/html;profile=mcp-app"
SCHEME = "ui://"  # of the URIs of pages
MODEL, APP = "model", "app"  # values of `visibility`


def ui_of(item: Any) -> dict[str, Any]:
    """`_meta.ui` of a tool, a resource or its contents."""
    found = member(member(item, "_meta"), "ui")
    return found if isinstance(found, dict) else {}


def listed_ui(result: Any) -> dict[str, dict[str, Any]]:
    """`_meta.ui` of listed resources by URI: it counts for pages without their own."""
    listed = member(result, "resources")
    items = listed if isinstance(listed, list) else []
    return {str(member(item, "uri")): ui for item in items if (ui := ui_of(item))}


def visibility_of(tool: Any) -> frozenset[str]:
    """The readers of a tool: by default the model and the pages."""
    given = ui_of(tool).get("visibility")
    return frozenset(map(str, given)) if isinstance(given, list) else frozenset({MODEL, APP})


def domains_of(ui: dict[str, Any]) -> dict[str, frozenset[str]]:
    """The domains of a page's CSP, by directive."""
    csp = ui.get("csp")
    listed = csp.items() if isinstance(csp, dict) else ()
    return {name: frozenset(map(str, value)) for name, value in listed if isinstance(value, list)}


def origins_of(ui: dict[str, Any]) -> frozenset[str]:
    return frozenset(domain.lower() for domains in domains_of(ui).values() for domain in domains)


def permissions_of(ui: dict[str, Any]) -> frozenset[str]:
    """The permissions that a page asks for, such as the camera."""
    given = ui.get("permissions")
    return frozenset(map(str, given)) if isinstance(given, dict | list) else frozenset()
