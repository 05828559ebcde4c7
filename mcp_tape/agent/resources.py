"""Sessions as resources: `mcp-tape:///cassettes/time.db/1` is one of them, as Markdown."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote

from ..cassette.query.inventory import server
from ..cassette.reader import Session
from ..errors import CassetteError, replace_control_characters
from ..formats import markdown
from .paging import CURSOR, ToolError, number, numbers, short, window
from .places import ToolCall

_SCHEME = "mcp-tape:///"
_PAGE = 100  # resources
MIME_TYPE = "text/markdown"
TEMPLATE = f"{_SCHEME}{{+file}}/{{session}}{{?{CURSOR}}}"
TEMPLATE_SAYS = f"A session as Markdown, with all of its messages. Long text ends with the {CURSOR} to read on."


class Page(NamedTuple):
    resources: list[dict[str, Any]]
    following: str | None


def list_page(call: ToolCall, cursor: str | None) -> Page:
    """List some of the sessions on all cassettes. Unreadable cassettes are skipped; list_cassettes reports why."""
    first, after = numbers(cursor or "0.0", 2)
    found = list(islice(_sessions(call, first, after), _PAGE + 1))
    following = found[_PAGE - 1][0] if len(found) > _PAGE else None
    return Page([resource for _, resource in found[:_PAGE]], following)


def _sessions(call: ToolCall, first: int, after: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for place, path in enumerate(islice(call.places.cassettes(), first, None), first):
        call.check()
        try:
            with call.open_cassette(path) as cassette:
                for block in cassette.session_blocks(after or None if place == first else None):
                    yield from ((f"{place}.{session.id}", _resource(path, session)) for session in block)
        except CassetteError:
            continue


def _resource(path: str, session: Session) -> dict[str, Any]:
    name = f"{os.path.basename(path)} session {session.id}"
    return {
        "uri": f"{_SCHEME}{quote(path)}/{session.id}",
        "name": replace_control_characters(name),
        "description": replace_control_characters(f"{short(server(session), 80)}, recorded {session.started_at}"),
        "mimeType": MIME_TYPE,
    }


def read_session(call: ToolCall, uri: str) -> str:
    """The text of a session, up to the size of an answer."""
    place, _, asked = uri.removeprefix(_SCHEME).partition("?")
    path, _, session = place.rpartition("/")
    if not uri.startswith(_SCHEME) or not path or not session.isascii() or not session.isdigit():
        raise ToolError(f"{short(uri)} is not the URI of a session, such as {_SCHEME}cassettes/time.db/1")
    cursor = parse_qs(asked).get(CURSOR, [""])[0]
    with call.open_cassette(unquote(path)) as cassette:
        found = cassette.session(int(session))
        text = markdown.dump(cassette, found, cassette.frames(found.id))
        return window(text, number(cursor), f"read {_SCHEME}{place} with")
