"""A page in a browser as an MCP client, using only `fetch`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.running import WAIT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SCRIPT = """async ([url, calls]) => {
    const headers = {"content-type": "application/json", accept: "application/json, text/event-stream"};
    const post = async body => {
        const response = await fetch(url, {method: "POST", headers, body: JSON.stringify({jsonrpc: "2.0", ...body})});
        const session = response.headers.get("mcp-session-id");
        if (session) headers["mcp-session-id"] = session;
        if (response.status != 200) return;
        if (!response.headers.get("content-type").includes("event-stream")) return response.json();
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
        let answer, text = "";
        for (let read = await reader.read(); !read.done; read = await reader.read()) {
            text += read.value;
            const events = text.split(/\\r?\\n\\r?\\n/);
            text = events.pop();
            for (const event of events) {
                const data = [...event.matchAll(/^data: ?(.+)$/gm)].map(found => found[1]).join("\\n");
                const said = data.trim() ? JSON.parse(data) : {};
                if ("result" in said || "error" in said) answer = said;
                else if (said.id !== undefined) post({id: said.id, result: {roots: []}});
            }
        }
        return answer;
    };
    const params = {protocolVersion: "2025-11-25", capabilities: {roots: {}}, clientInfo: {name: "page", version: "1"}};
    const seen = [await post({id: 0, method: "initialize", params})];
    await post({method: "notifications/initialized"});
    await fetch(url.replace("/mcp", "/favicon.ico"));
    const call = async (one, id) => {
        const {name, arguments: given, progress} = one;
        const params = {name, arguments: given, ...(progress ? {_meta: {progressToken: id}} : {})};
        seen[id] = await post({id, method: "tools/call", params});
    };
    const last = calls.length - 2;
    for (let at = 0; at < last; at++) await call(calls[at], at + 1);
    await Promise.all([call(calls[last], last + 1), call(calls[last + 1], last + 2)]);
    return seen;
}"""


def called(browser: Browser, url: str, calls: Sequence[Mapping[str, Any]], har: Path | None = None) -> Any:
    """The answers to a page of the same origin, with the last two calls at once. Optionally saves an archive."""
    recorded = {"record_har_path": har, "record_har_content": "embed"} if har else {}
    with browser.new_context(bypass_csp=True, **recorded) as context:  # type: ignore[arg-type]
        context.set_default_timeout(WAIT * 1000)
        page = context.new_page()
        page.goto(url.replace("/mcp", "/nowhere"))
        return page.evaluate(SCRIPT, [url, calls])
