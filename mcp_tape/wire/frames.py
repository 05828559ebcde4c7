"""Frames as they crossed the wire, and the messages in them, told apart by shape alone."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, NamedTuple

from . import jsontext, protocol

Side = Literal["client", "server"]
FrameKind = Literal["message", "batch", "noise", "stderr", "control"]
MessageKind = Literal["request", "response", "notification", "noise"]

KILLED = "mcp-tape was killed; what it had passed on by then is here"
LEFT_OUT = "a frame could not be redacted and was left out"  # why a session is incomplete

_LEVELS = 3  # of a batch: the message, its params, and what names the call in them


class Frame(NamedTuple):
    """One framed unit, verbatim. `at` is microseconds since the session's start, of its last byte."""

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
    """One JSON-RPC message, or noise that has its place among them.

    `rpc_id` is JSON text, so that `1` and `"1"` stay different.
    """

    kind: MessageKind
    method: str | None
    rpc_id: str | None
    name: str | None
    status: str | None
    body: dict[str, Any]


class Entry(NamedTuple):
    """A message with what follows from its place on the tape, each a seq where it is not the match key:

    the request it answers, the client's request whose exchange it belongs to, and its cue, the client
    message that it waits for when played (0: none).
    """

    message: Message
    answers: int | None
    key: bytes | None
    exchange: int | None
    cue: int | None


class Exchange(NamedTuple):
    """A request and what came of it, as plain values. Neither result nor error: it was not answered."""

    session: int | None
    seq: int | None
    sender: Side
    method: str
    name: str | None
    id: str | None  # as JSON text
    params: Any
    result: Any = None
    error: Any = None
    microseconds: int | None = None  # that the answer took


def parse(text: bytes) -> tuple[FrameKind, list[Message]]:
    """What a line is: a message, a batch of them, or noise."""
    body = _object_or_array(text)
    if isinstance(body, dict):
        message = _message(body, text, ())
        return ("message", [message]) if message else ("noise", [])
    if isinstance(body, list):
        parts = [m for m in (_message(part, text, (n,)) for n, part in enumerate(body)) if m is not None]
        if parts and len(parts) == len(body):
            return "batch", parts
    return "noise", []


def _object_or_array(text: bytes) -> Any:
    if text[:1] not in (b"{", b"[") and text.lstrip(b" \t\r\n")[:1] not in (b"{", b"["):
        return None
    try:
        return jsontext.loads(text)
    except ValueError:
        return None
    except RecursionError:
        source = text.decode("utf-8", "replace")
        return _shallow(source, _LEVELS) if jsontext.is_well_formed(source) else None


def _shallow(text: str, levels: int) -> Any:
    """What is nested too deep to parse, with all below the first levels left as text."""
    try:
        return jsontext.loads(text)
    except RecursionError:
        if not levels:
            return text
    inner = [(path[0], text[start:end]) for path, start, end in jsontext.values(text, 1) if path]
    if text.lstrip().startswith("["):
        return [_shallow(part, levels - 1) for _, part in inner]
    return {name: _shallow(part, levels - 1) for name, part in inner}


def _message(body: Any, text: bytes, at: jsontext.Path) -> Message | None:
    if not isinstance(body, dict):
        return None
    rpc_id = _id(body.get("id"), text, at)
    told = body.get("params", body.get("result"))
    if type(told) is dict and ("_meta" in told or "requestId" in told or "progressToken" in told):
        name_exactly(body, text, at)
    method = body.get("method")
    if isinstance(method, str):
        name = protocol.call_name(method, body.get("params"))
        # An id of null, true or {} is none that could be answered.
        kind: MessageKind = "request" if rpc_id is not None else "notification"
        return Message(kind, method, rpc_id, name, None, body)
    if "error" in body:
        return Message("response", None, rpc_id, None, "error", body)
    if "result" in body:
        return Message("response", None, rpc_id, None, protocol.result_status(body["result"]), body)
    return None


def id_text(value: Any) -> str | None:
    """An id or a progress token as JSON text; None when the value cannot be one."""
    if isinstance(value, str):
        return jsontext.quote(value)
    if isinstance(value, _Verbatim):
        return value.text
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return jsontext.number_text(value)


def cancelled(message: Message) -> str | None:
    """The id of the request that a message cancels."""
    return id_text(protocol.member(message.body.get("params"), "requestId"))


def progressed(message: Message) -> str | None:
    """The token under which a message tells of progress."""
    return id_text(protocol.member(message.body.get("params"), "progressToken"))


def token_asked(message: Message) -> str | None:
    """The token under which a request wants to hear of progress."""
    return id_text(protocol.progress_token_asked(message.body))


class _Verbatim(float):
    """A number that no double holds, with its text."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def name_exactly(body: dict[str, Any], text: str | bytes, at: jsontext.Path) -> None:
    """Put ids and tokens that a message names back as they are, where they are wider than what the parser keeps."""
    for path in protocol.NAMING:
        inner: Any = body
        for step in path[:-1]:
            inner = inner.get(step) if type(inner) is dict else None
        if type(inner) is dict and path[-1] in inner:
            inner[path[-1]] = _exact(inner[path[-1]], text, (*at, *path))


def _id(value: Any, text: bytes, at: jsontext.Path) -> str | None:
    return id_text(_exact(value, text, (*at, "id")) if type(value) is float else value)


def _exact(value: Any, text: str | bytes, path: jsontext.Path) -> Any:
    """The same, but of a number beyond what a double tells apart, the text."""
    if type(value) is not float or abs(value) < 2**53:
        return value
    if isinstance(path[0], int):
        source, path = _elements(text)[path[0]], path[1:]
    else:
        source = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    span = jsontext.find(source, path)
    return _Verbatim(source[slice(*span)]) if span else value


@lru_cache(1)  # its messages are asked for one after the other
def _elements(batch: str | bytes) -> list[str]:
    """The messages of a batch, each verbatim."""
    source = batch.decode("utf-8", "replace") if isinstance(batch, bytes) else batch
    return [source[start:end] for path, start, end in jsontext.values(source, 1) if path]
