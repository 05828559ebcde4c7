"""Frames as they crossed the wire, and the JSON-RPC messages in them, classified by shape alone.

https://modelcontextprotocol.io/specification/2025-11-25/basic
"""

from __future__ import annotations

from functools import lru_cache

from ..light import NamedTuple, pattern
from . import jsontext, protocol
from .channels import STDIO

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from typing import Any, Literal

    Side = Literal["client", "server"]
    FrameKind = Literal["message", "batch", "noise", "stderr", "control"]
    MessageKind = Literal["request", "response", "notification", "noise"]
else:
    Side = FrameKind = MessageKind = str  # only type checkers use these


# Why a session is incomplete.
KILLED = "mcp-tape was killed; what it had passed on by then is here"
LEFT_OUT = "a frame could not be redacted and was left out"

# Builds a named tuple in half the time of calling its class. Used for every frame.
new = tuple.__new__

_OPENING = (b"{", b"[")
_ID = rb'"id"\s*:\s*("[ !#-\[\]-~]*"|-?[0-9]+)'
_FIRST_ID = pattern(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID + rb"\s*[,}]")
_LAST_ID = pattern(_ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?,?\s*\}\s*$')
_LEVELS = 3  # levels of a batch to parse: the message, its params, the call's name in them


class Frame(NamedTuple):
    """One framed unit, verbatim. `at`: microseconds from the start of the session to its last byte."""

    seq: int
    at: int
    sender: Side
    channel: str
    kind: FrameKind
    text: bytes
    eol: bytes = b""
    head: bytes | None = None
    redactions: int = 0


class Message(NamedTuple):
    """One JSON-RPC message, or noise that keeps its place among the messages.

    `rpc_id` is JSON text, so that `1` and `"1"` stay different.
    """

    kind: MessageKind
    method: str | None
    rpc_id: str | None
    name: str | None
    status: str | None
    body: dict[str, Any]


class LedgerEntry(NamedTuple):
    """A message, and the facts that its place on the tape implies (see ledger.py). Other messages are given by number.

    `answers`: the request that this one answers. Each message of a batch has its own number (see `FrameNumbers`).
    `exchange`: the client frame whose request opened the exchange. `cue`: the client frame that a replay waits for
    before it sends this message; 0 for none.
    """

    message: Message
    answers: int | None
    key: bytes | None
    exchange: int | None
    cue: int | None


class Exchange(NamedTuple):
    """A request and its outcome, as plain values. An unanswered request has neither result nor error."""

    session: int | None
    seq: int | None
    sender: Side
    method: str
    name: str | None
    id: str | None  # as JSON text
    params: Any
    result: Any = None
    error: Any = None
    microseconds: int | None = None  # from the request to the answer
    server: str | None = None  # the server's name, when a session uses several


Parsed = tuple[FrameKind, list[Message]]


class FrameNumbers:
    """The numbers of a session's frames. A frame uses one number per message, so each message has its own.

    The response to a posted batch reserves a number for each of its messages, because it may refuse every request in
    it.
    """

    def __init__(self) -> None:
        self.next = 1
        self._posted: dict[str, int] = {}  # by HTTP channel, the number of messages in its batch

    def take(self, sender: Side, channel: str, messages: int, least: int = 0) -> int:
        """Return the next frame's number, not below `least`."""
        number = self.next if self.next >= least else least
        if channel != STDIO:
            if sender == "client" and messages > 1:
                self._posted[channel] = messages
            messages = max(messages, self._posted.get(channel, 1))
        self.next = number + (messages or 1)
        return number


def parse(text: bytes) -> Parsed:
    """Classify a text as a message, a batch or noise, and return its messages."""
    if not text.startswith(_OPENING) and not text.lstrip(b" \t\r\n").startswith(_OPENING):
        return "noise", []
    try:
        body = jsontext.loads(text)
    except ValueError:
        return "noise", []
    except RecursionError:
        source = text.decode("utf-8", "replace")
        body = _parse_shallow(source, _LEVELS) if jsontext.is_well_formed(source) else None
    if type(body) is dict:
        message = _message(body, text, ())
        return ("message", [message]) if message else ("noise", [])
    if isinstance(body, list):
        parts = [m for m in (_message(part, text, (n,)) for n, part in enumerate(body)) if m is not None]
        if parts and len(parts) == len(body):
            return "batch", parts
    return "noise", []


def _parse_shallow(text: str, levels: int) -> Any:
    """Parse the first levels of a text that is nested too deep to parse; leave everything below as text."""
    try:
        return jsontext.loads(text)
    except RecursionError:
        if not levels:
            return text
    inner = [(path[0], text[start:end]) for path, start, end in jsontext.values(text, 1) if path]
    if text.lstrip().startswith("["):
        return [_parse_shallow(part, levels - 1) for _, part in inner]
    return {name: _parse_shallow(part, levels - 1) for name, part in inner}


def _message(body: Any, text: bytes, at: jsontext.Path) -> Message | None:
    if type(body) is not dict:
        return None
    value, method, params = body.get("id"), body.get("method"), body.get("params")
    # Most ids are plain integers and need no closer look.
    rpc_id = repr(value) if type(value) is int else _id_of(value, text, at)
    inner = params if params is not None or "params" in body else body.get("result")
    if type(inner) is dict:
        meta = inner.get("_meta")
        is_rounded = type(meta) is dict and float in map(type, meta.values())
        if is_rounded or "requestId" in inner or "progressToken" in inner:
            name_exactly(body, text, at)
    if type(method) is str:
        if rpc_id is None and "id" in body:
            return None  # "the ID MUST NOT be null", and is a string or a number: neither a request nor a notification
        kind: MessageKind = "request" if rpc_id is not None else "notification"
        return new(Message, (kind, method, rpc_id, protocol.call_name(method, params), None, body))
    if "error" in body:
        return Message("response", None, rpc_id, None, "error", body)
    if "result" in body:
        return new(Message, ("response", None, rpc_id, None, protocol.result_status(body["result"]), body))
    return None


def _id_of(value: Any, text: bytes, at: jsontext.Path) -> str | None:
    return id_text(_exact_value(value, text, (*at, "id")) if type(value) is float else value)


def id_of_broken_answer(text: bytes) -> tuple[int, int] | None:
    """Return the span of the id in malformed JSON that has the form of an answer; None for other noise."""
    if b'"result"' not in text and b'"error"' not in text:
        return None
    found = _FIRST_ID.match(text) or _LAST_ID.search(text)
    return found.span(1) if found else None


def facts(text: str | bytes) -> dict[str, Any]:
    """Return the members of an object, such as the facts in a control frame; an empty dict for any other text."""
    try:
        found = jsontext.loads(text)
    except (ValueError, RecursionError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def id_text(value: Any) -> str | None:
    """Return an id or a progress token as JSON text; None if the value is neither."""
    if isinstance(value, str):
        return jsontext.quote(value)
    if isinstance(value, _Verbatim):
        return value.text
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return jsontext.number_text(value)


def cancelled_request_id(message: Message) -> str | None:
    """The id of the request that a message cancels."""
    return id_text(protocol.member(message.body.get("params"), "requestId"))


def progress_token(message: Message) -> str | None:
    """The token of a progress notification."""
    return id_text(protocol.member(message.body.get("params"), "progressToken"))


def requested_token(message: Message) -> str | None:
    """The progress token that a request asks for."""
    token = protocol.requested_progress_token(message.body)
    return None if token is None else id_text(token)


class _Verbatim(float):
    """A number that no double holds exactly, with its text."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def name_exactly(body: dict[str, Any], text: str | bytes, at: jsontext.Path) -> None:
    """Restore ids and tokens that the parser could not keep exactly."""
    for path, names in protocol.NAMING:
        inner: Any = body
        for step in path:
            inner = inner.get(step) if type(inner) is dict else None
        for name in names if type(inner) is dict else ():
            if type(inner.get(name)) is float:
                inner[name] = _exact_value(inner[name], text, (*at, *path, name))


def _exact_value(value: Any, text: str | bytes, path: jsontext.Path) -> Any:
    """Return the value, or the text of a number that no double holds exactly."""
    if type(value) is not float or abs(value) < 2**53:
        return value
    if isinstance(path[0], int):
        source, path = _elements(text)[path[0]], path[1:]
    else:
        source = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    span = jsontext.find(source, path)
    return _Verbatim(source[slice(*span)]) if span else value


@lru_cache(1)  # the messages of a batch are looked up one after another
def _elements(batch: str | bytes) -> list[str]:
    source = batch.decode("utf-8", "replace") if isinstance(batch, bytes) else batch
    return [source[start:end] for start, end in jsontext.element_spans(source)]
