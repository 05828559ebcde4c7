"""Recorded text fitted to the live conversation: ids and tokens spliced in, the rest verbatim; JSON-RPC responses."""

from __future__ import annotations

from itertools import chain, count

from ..light import pattern
from . import frames, jsontext, match, protocol
from .frames import Message
from .jsontext import Path

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


# In most messages the id directly follows the version, and is found without scanning the rest.
_LEADING_ID = pattern(rb'\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*("[^"\\]*"|-?\d+)(?=\s*[,}])')
_START = '{"jsonrpc":"2.0","id":'
_HEAD = _START.encode()
_SHOWN = 1_000  # characters of a body that is not a message
_SUBSCRIPTION = ("_meta", protocol.META_SUBSCRIPTION)


def free_id(is_used: Callable[[str], bool], *wanted: str, form: Callable[[int], str] = str, first: int = 1) -> str:
    """Return the first free id among those wanted, or else among the numbers in a form."""
    return next(name for name in chain(wanted, map(form, count(first))) if not is_used(name))


def with_id(text: bytes, recorded: str | None, live: str) -> bytes:
    if recorded == live:
        return text
    own = f"{_START}{recorded},".encode("utf-8", "surrogatepass")
    start, end = len(_HEAD), len(own) - 1
    if not text.startswith(own):
        leading = _LEADING_ID.match(text)
        start, end = leading.span(1) if leading else (-1, -1)
    if start >= 0:
        new = text[:start] + live.encode() + text[end:]
        # Parsers take the last of duplicate ids. Most texts contain the name once, counting its escaped forms.
        is_only = text.find(b'"id"', end) < 0 and text.find(b"\\u006", end) < 0
        if is_only or [message.rpc_id for message in frames.parse(new)[1]] == [live]:
            return new
    return with_values(text, {("id",): live})


def answer(text: bytes, recorded: str | None, live: str) -> bytes:
    """Fit a response to a live request. The response to a listen also carries the id as its subscription."""
    if recorded == live:
        return text
    text = with_id(text, recorded, live)
    return with_values(text, {("result", *_SUBSCRIPTION): live}) if text.find(b"subscriptionId") >= 0 else text


def broken_answer(text: bytes, recorded: str | None, live: str) -> bytes:
    """Fit a malformed answer to a live request; other noise stays as it is."""
    span = frames.id_of_broken_answer(text)
    if span is None or text[slice(*span)].decode() != recorded:
        return text
    return text[: span[0]] + live.encode("utf-8", "surrogatepass") + text[span[1] :]


def refusal(text: bytes, live: str) -> bytes:
    """Return an error response for a request that was refused by an HTTP body without a JSON-RPC answer."""
    messages = frames.parse(text)[1]
    found = messages[0].body.get("error") if messages else None
    if not isinstance(found, dict):
        body = text.decode("utf-8", "replace")[:_SHOWN]
        return error_response(live, protocol.SERVER_ERROR, "the recorded server refused this request", body)
    return response(live, "error", jsontext.dumps(found))


def notification(text: bytes, method: str | None, call_id: str | None, token: str | None) -> bytes | None:
    """Fit a notification to a live call; None if this client did not ask for it."""
    if method == protocol.PROGRESS and call_id is not None:
        if token is None or _has_token(text, token.encode("utf-8", "surrogatepass")):
            return None if token is None else text
        return with_values(text, {("params", "progressToken"): token})
    if call_id is not None and b"subscriptionId" in text:
        return with_values(text, {("params", *_SUBSCRIPTION): call_id})
    return text


def _has_token(text: bytes, token: bytes) -> bool:
    """Return whether the text's only progress token is this one, without parsing it."""
    name, _, rest = text.partition(b'"progressToken":')
    return rest.startswith((token + b",", token + b"}")) and b"progressToken" not in name + rest


def with_values(text: bytes, values: dict[Path, str]) -> bytes:
    """Replace the values at these paths, where the text has them."""
    source = text.decode("utf-8", "surrogateescape")
    splices = []
    for path, new in values.items():
        try:
            span = jsontext.find(source, path)
        except (IndexError, ValueError):
            return text  # not ours, and not JSON
        if span is not None and source[slice(*span)] != new:
            splices.append((*span, new))
    return jsontext.splice(source, splices).encode("utf-8", "surrogateescape") if splices else text


def elements(text: bytes) -> list[bytes]:
    """Return the messages of a batch, each verbatim."""
    return [text[start:end] for start, end in jsontext.element_spans(text)]


def with_elements(text: bytes, new: list[bytes]) -> bytes:
    out, done = [], 0
    for (start, end), part in zip(jsontext.element_spans(text), new, strict=True):
        out += [text[done:start], part]
        done = end
    return b"".join([*out, text[done:]])


def describe_ignored_difference(live: Message, then: Any) -> str | None:
    """Describe a difference from the recorded params that a match does not rule out, if there is one."""
    now = live.body.get("params")
    if live.method == protocol.INITIALIZE:
        old, new = (protocol.member(params, "protocolVersion") for params in (then, now))
        if old != new:
            return f"the client offers protocol {new}, the recorded one offered {old}; the answer is as recorded"
    inputs = [protocol.member(params, "inputResponses") for params in (then, now)]
    if inputs[0] != inputs[1]:
        return f"{live.method} {live.name or ''} was given another input than recorded; the answer is as recorded"
    return None


def describe_answer_difference(live: Message, recorded: Message) -> str | None:
    """Describe in a few words how a live answer differs from the recorded one."""
    then, now = recorded.body, live.body
    if ("error" in then) != ("error" in now):
        return "with an error" if "error" in now else "without the error"
    member = "error" if "error" in now else "result"
    first = next(match.differences(then.get(member), now.get(member), (member,)), None)
    if first is None:
        return None
    from .jsonpath import path_text  # imported late: most answers are equal

    return f"{path_text(first[0])} differs"


def single_line(text: bytes) -> bytes:
    """Return text for stdio: line breaks between tokens, which HTTP allows, become spaces."""
    return text.replace(b"\r", b" ").replace(b"\n", b" ")


def response(rpc_id: str | None, member: str, value: str) -> bytes:
    """Return a JSON-RPC response: https://www.jsonrpc.org/specification#response_object

    All arguments are JSON text. `member` is `result` or `error`; an id of None becomes null.
    """
    return f'{{"jsonrpc":"2.0","id":{rpc_id or "null"},"{member}":{value}}}'.encode("utf-8", "surrogatepass")


def error(code: int, message: str, data: Any = None) -> str:
    """Return a JSON-RPC error object: https://www.jsonrpc.org/specification#error_object"""
    body: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        body["data"] = data
    return jsontext.dumps(body)


def error_response(rpc_id: str | None, code: int, message: str, data: Any = None) -> bytes:
    return response(rpc_id, "error", error(code, message, data))


def tool_error(text: str, body: dict[str, Any]) -> str:
    """Return the result of a failed tool call, in the form of the request's era."""
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": True}
    return jsontext.dumps({"resultType": "complete"} | result if protocol.is_modern(body) else result)
