"""Frames as they crossed the wire, and the messages in them, told apart by shape alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from . import jsontext, protocol

Side = Literal["client", "server"]
FrameKind = Literal["message", "batch", "noise", "stderr", "control"]
MessageKind = Literal["request", "response", "notification"]


@dataclass(frozen=True, slots=True)
class Frame:
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


@dataclass(frozen=True, slots=True)
class Message:
    """One JSON-RPC message. `rpc_id` is JSON text, so that `1` and `"1"` stay different."""

    kind: MessageKind
    method: str | None
    rpc_id: str | None
    name: str | None
    status: str | None
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """A message with what the tape derives: the seq of the request it answers, and its match key."""

    message: Message
    answers: int | None
    key: bytes | None


def parse(text: bytes) -> tuple[FrameKind, list[Message]]:
    """What a line is: a message, a batch of them, or noise."""
    body = _object_or_array(text)
    if isinstance(body, dict):
        message = _message(body, text)
        return ("message", [message]) if message else ("noise", [])
    if isinstance(body, list):
        parts = [m for m in (_message(part, None) for part in body) if m is not None]
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
        return _top_level(text.decode("utf-8", "replace"))


def _top_level(text: str) -> Any:
    """The outermost members of an object that is nested too deep to parse whole."""
    body: dict[str, Any] = {}
    for path, start, end in jsontext.values(text):
        if len(path) == 1 and isinstance(path[0], str):
            try:
                body[path[0]] = jsontext.loads(text[start:end])
            except RecursionError:
                body[path[0]] = text[start:end]
            except ValueError:
                return None
    return body


def _message(body: Any, text: bytes | None) -> Message | None:
    if not isinstance(body, dict):
        return None
    rpc_id = _id(body.get("id"), text)
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


def _id(value: Any, text: bytes | None) -> str | None:
    if isinstance(value, str):
        return jsontext.quote(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, float) and abs(value) >= 2**53 and text is not None:
        return _verbatim_id(text)  # beyond what a double tells apart
    return jsontext.number_text(value)


def _verbatim_id(text: bytes) -> str | None:
    source = text.decode("utf-8", "replace")
    span = jsontext.find(source, ("id",))
    return source[slice(*span)] if span else None
