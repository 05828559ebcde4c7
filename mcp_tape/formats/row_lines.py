"""A row of a session in words: what it is, its content, and whether it needs attention.

Knows nothing of terminals, and cuts nothing that `cassette.query.timeline` has not cut.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import orjson

from ..cassette.query import timeline
from ..cassette.query.timeline import TimelineRow
from ..cassette.reader import Cassette
from ..wire import jsontext
from ..wire.channels import CONTINUED, SIGNALLED, STDIO, TAPE, is_listen_stream

_MARKED = ("unanswered", "cancelled", "retry")  # statuses of a request without an answer to carry them
_ODD_NUMBER = re.compile(r"[\[:,\s](?:-?\d+[.eE]|-?\d{16}|-0)")
_ENDS = {"close": "closes", "abort": "aborts", "open": "leaves open"}  # of a channel
_BODY = re.compile(r'"(?:params|result|error)"\s*:\s*')


class Line(NamedTuple):
    row: TimelineRow
    what: str
    detail: str = ""
    odd: bool = False
    dim: bool = False

    def as_json(self) -> dict[str, Any]:
        row = self.row
        return {
            "session": row.session, "seq": row.seq, "at": row.at, "sender": row.sender, "channel": row.channel,
            "kind": row.kind if row.is_message else row.frame_kind, "id": row.rpc_id if row.is_message else None,
            "what": self.what, "odd": self.odd, "size": row.size, "detail": self.detail, "part": row.part,
            "method": row.method, "name": row.name, "status": row.status, "answers": row.answers,
            "exchange": row.exchange, "microseconds": row.microseconds,
        }  # fmt: skip


def line_of(cassette: Cassette, row: TimelineRow, *, full: bool = False, brief: bool = False) -> Line:
    """Words for a row; its content in full, or as much as fits on any line, or only its main part."""
    if row.frame_kind == "control":
        return _control(row)
    if row.is_message:
        return _message(row, _content(cassette, row, full, brief))
    if row.is_priming:
        return Line(row, f"primes {row.channel}", dim=True)
    what = "unfinished" if row.frame_kind in ("message", "batch") else row.frame_kind
    text = timeline.whole_text(cassette, row) if full else timeline.decode_text(row.excerpt)
    return Line(row, what, text, row.is_odd, dim=row.frame_kind == "stderr")


def _message(row: TimelineRow, detail: str) -> Line:
    if row.kind == "response":
        return Line(row, _words(row.method or "?", row.status, duration(row.microseconds)), detail, row.is_odd)
    marked = row.status if row.kind == "request" and row.status in _MARKED else ""
    return Line(row, _words(row.method, row.name, marked), detail, row.is_odd)


def _words(*words: str | None) -> str:
    return " ".join(filter(None, words))


def _content(cassette: Cassette, row: TimelineRow, full: bool, brief: bool) -> str:
    """The params, the result or the error of a message, on one line."""
    if row.is_cut and not full and row.frame_kind != "batch":
        text = timeline.decode_text(row.excerpt)  # more than fits on any line
        found = _BODY.search(text)
        return text[found.end() :] if found else text
    text = timeline.whole_text(cassette, row)
    if row.frame_kind == "noise":
        return text
    try:
        # Numbers that Python would write differently stay as recorded.
        is_odd = _ODD_NUMBER.search(text)
        message = jsontext.loads_frugally(text, orjson.Fragment) if is_odd else jsontext.loads(text)
        body = message.get("params") if row.kind != "response" else message.get("error", message.get("result"))
        if brief:
            body = _brief(row, body)
        return "" if body is None else body if brief and isinstance(body, str) else jsontext.dumps(body)
    except (ValueError, RecursionError, AttributeError, TypeError):  # TypeError: a lone surrogate beside such a number
        return text


def _brief(row: TimelineRow, body: Any) -> Any:
    """The main part of a body: arguments, the text of a result, the message of an error."""
    if not isinstance(body, dict):
        return body
    if row.kind == "response":
        content = body.get("content")
        first = content[0] if isinstance(content, list) and content else content
        text = first.get("text") if isinstance(first, dict) else body.get("message")
        return text if isinstance(text, str) and text else body
    rest = {name: value for name, value in body.items() if name not in ("_meta", "name", "uri")}
    return (rest.get("arguments", rest) if len(rest) == 1 else rest) or None


def _control(row: TimelineRow) -> Line:
    """Words for a control frame: `closes`, `exits 0`, `POST /mcp`, `200 application/json`."""
    facts = timeline.facts(row)
    text = timeline.decode_text(row.excerpt)
    if not facts:
        return Line(row, "control", text)
    event = facts["event"]
    if event == "exit":
        return Line(row, f"exits {facts.get('code')}", odd=facts.get("code") not in timeline.EXPECTED_CODES)
    if event == SIGNALLED:
        return Line(row, f"the recorder gets signal {facts.get('number')}", dim=True)
    if row.channel == TAPE:
        return Line(row, f"{event}{' in' * (event == CONTINUED)} {facts.get('cassette')}", dim=True)
    if row.channel == STDIO:
        if event == "failed":
            return Line(row, "fails", str(facts.get("why")), odd=True)
        return Line(row, "closes" if event == "close" else event)
    what, detail = _fact(event, facts, text)
    status = facts.get("status")
    # Clients may leave the streams that they listen to at any time.
    odd = event == "failed" or (event == "abort" and not is_listen_stream(row.channel))
    odd = odd or (isinstance(status, int) and status >= 400)
    return Line(row, f"{what} {row.channel}", detail, odd, dim=not odd)


def _fact(event: str, facts: dict[str, Any], text: str) -> tuple[str, str]:
    """Words for an event on an HTTP channel, and its details."""
    headers = facts.get("headers")
    content = str(headers.get("content-type", "")).partition(";")[0] if isinstance(headers, dict) else ""
    match event:
        case "request":
            return f"{facts.get('verb')} {facts.get('path')} on", jsontext.compact_text(headers)
        case "response":
            return f"{facts.get('status')} {content}".rstrip() + " on", jsontext.compact_text(headers)
        case "side":
            what = f"{facts.get('verb')} {facts.get('origin', '')}{facts.get('path')} {facts.get('status')} on"
            return what, str(facts.get("body", facts.get("type", "")))
        case "close" | "abort" | "open":
            return _ENDS[event], ""
        case "failed":
            return "fails on", str(facts.get("why"))
        case "comment" | "endpoint":
            return f"{event} on", str(facts.get("text", facts.get("data"))).strip()
    return event, text


def duration(microseconds: float | None) -> str:
    if microseconds is None:
        return ""
    if microseconds < 1_000:
        return f"{microseconds:.0f} µs"
    if microseconds < 1_000_000:
        return f"{microseconds / 1_000:.1f} ms"
    return f"{microseconds / 1_000_000:.2f} s"


def is_left_out_by_default(row: TimelineRow) -> bool:
    """Return whether a row is left out by default, such as the HTTP events around each message."""
    return row.is_priming or (row.frame_kind == "control" and timeline.is_plumbing(row, timeline.facts(row)))
