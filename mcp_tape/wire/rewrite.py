"""Recorded text fitted to the live conversation: ids and tokens spliced in, all else verbatim; JSON-RPC responses."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain, count

from ..light import pattern
from . import frames, jsontext, match, protocol
from .frames import Message
from .jsontext import Path

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


# In most messages the id directly follows the version: found without scanning the rest.
_LEADING_ID = pattern(rb'\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*("[^"\\]*"|-?\d+)(?=\s*[,}])')
_START, _LAST_ID = '{"jsonrpc":"2.0","id":', ',"id":'
_HEAD, _TAIL = _START.encode(), _LAST_ID.encode()
_META, _TOKEN, _LAST_MEMBER, _MEMBER_BEFORE_VERSION = b'"_meta":', b'"progressToken":', b"}}", b'},"jsonrpc":"2.0"'
_ZERO, _QUOTE, _QUOTES = ord("0"), ord('"'), b'""'
_UNESCAPED = bytes(code for code in range(128) if chr(code).isalnum()) + b"-_.:/"  # some that no one writes otherwise
_SHOWN = 1_000  # characters of a body that is no message
_SUBSCRIPTION = ("_meta", protocol.META_SUBSCRIPTION)


def free_id(is_used: Callable[[str], bool], *wanted: str, form: Callable[[int], str] = str, first: int = 1) -> str:
    """Return the first id that is not in use: of those wanted, else of the numbers in some form."""
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
        # Parsers take the last of duplicate ids. Most texts have the name nowhere else, spelled out or escaped.
        is_only = text.find(b'"id"', end) < 0 and text.find(b"\\u006", end) < 0
        if is_only or [message.rpc_id for message in frames.parse(new)[1]] == [live]:
            return new
    return with_values(text, {("id",): live})


def is_usual_id(token: bytes) -> bool:
    """Return whether a JSON text is an integer or a string that can be written in one way only."""
    if token.isdigit():
        return token[0] != _ZERO or len(token) == 1
    is_quoted = token.translate(None, _UNESCAPED) == _QUOTES and token[0] == token[-1] == _QUOTE
    return is_quoted and token != _QUOTES


def without_names(text: bytes) -> tuple[bytes, bytes] | None:
    """Return the text of a request without its id and progress token, and that id, where it stands first or last.

    There it mostly stands. Texts of which the rest is the same are the same request under two ids, if the rest of a
    recorded one `may_have_other_id`, and the live one `is_usual_id`.
    """
    if text.startswith(_HEAD):
        end = text.find(b",", len(_HEAD))
        own, rest = text[len(_HEAD) : end], text[end:]
    else:
        at = text.rfind(_TAIL)
        if at < 0 or not text.endswith(b"}"):
            return None
        own, rest = text[at + len(_TAIL) : -1], text[:at]
    at = rest.rfind(_TOKEN)
    return (rest if at < 0 else _without_token(rest, at)), own


def may_have_other_id(rest: bytes) -> bool:
    """Return whether an id in the place of that of a valid request, given without names, would be that of the request.

    Parsers take the last of duplicate ids: there must be none behind the first, whose name may be escaped.
    """
    if not rest.startswith(b",") or (rest.rfind(b'"id"') < 0 and rest.rfind(b"\\u") < 0):
        return True
    return [message.rpc_id for message in frames.parse(_HEAD + b"0" + rest)[1]] == ["0"]


def _without_token(rest: bytes, at: int) -> bytes:
    """Return the text of a request, without its id, also without the progress token at a place, if that ends `_meta`.

    A `_meta` of nothing else goes with it. It stands last in a member of the request, mostly `params`: neither there
    nor in other members of a request does it count what requests are found by; within the arguments of a call it would.
    """
    end = _LAST_MEMBER if rest.startswith(b",") else _MEMBER_BEFORE_VERSION
    meta = rest.rfind(_META, 0, at)
    if meta < 0 or not rest.endswith(b"}" + end) or not is_usual_id(rest[at + len(_TOKEN) : -len(end) - 1]):
        return rest
    before, others = rest[meta - 2 : meta], rest[meta + len(_META) : at]
    if others == b"{":
        return rest[: meta - 1] + end if before.endswith(b",") and before != b"{," else rest
    return rest[: at - 1] + b"}" + end if before.endswith((b",", b"{")) and _are_members(others) else rest


@lru_cache(maxsize=16)  # a client mostly sends the same `_meta` with each request
def _are_members(text: bytes) -> bool:
    """Return whether a text is an object of some members that lacks the last one."""
    return text.endswith(b",") and bool(frames.facts(text[:-1] + b"}"))


def answer(text: bytes, recorded: str | None, live: str) -> bytes:
    """Fit a response to a live request; that to a listen names it as its subscription, too."""
    if recorded == live:
        return text
    text = with_id(text, recorded, live)
    return with_values(text, {("result", *_SUBSCRIPTION): live}) if text.find(b"subscriptionId") >= 0 else text


def plain_answer(text: bytes, recorded: bytes, live: bytes) -> bytes:
    """Do the same for a response like most: its id follows the version, and nothing else in it is a name."""
    own = _HEAD + recorded + b","
    rest = text[len(own) - 1 :]
    is_only = rest.rfind(b'"id"') < 0 and rest.rfind(b"\\u006") < 0 and rest.rfind(b"subscriptionId") < 0
    if is_only and text.startswith(own):
        return _HEAD + live + rest
    return answer(text, recorded.decode(), live.decode())


def refusal(text: bytes, live: str) -> bytes:
    """Return the error response for a live request whose recorded answer was an HTTP body without one."""
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
    """Return whether the only progress token in a text is this one, without parsing it."""
    name, _, rest = text.partition(b'"progressToken":')
    return rest.startswith((token + b",", token + b"}")) and b"progressToken" not in name + rest


def with_values(text: bytes, values: dict[Path, str]) -> bytes:
    """Return the text with other values at these paths, where it has them."""
    source = text.decode("utf-8", "surrogateescape")
    splices = []
    for path, new in values.items():
        try:
            span = jsontext.find(source, path)
        except (IndexError, ValueError):
            return text  # not ours, and no JSON
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


def may_be_noteworthy(live: Message) -> bool:
    """Return whether a difference of a request that matches is worth a remark."""
    asked = live.body.get("params")
    return live.method == protocol.INITIALIZE or protocol.member(asked, "inputResponses") is not None


def noteworthy(live: Message, then: Any) -> str | None:
    """Describe such a difference, if there is one."""
    now = live.body.get("params")
    if live.method == protocol.INITIALIZE:
        old, new = (protocol.member(params, "protocolVersion") for params in (then, now))
        if old != new:
            return f"the client offers protocol {new}, the recorded one offered {old}; the answer is as recorded"
    inputs = [protocol.member(params, "inputResponses") for params in (then, now)]
    if inputs[0] != inputs[1]:
        return f"{live.method} {live.name or ''} was given another input than recorded; the answer is as recorded"
    return None


def different_answer(live: Message, recorded: Message) -> str | None:
    """Describe how a live answer differs from the recorded one, in a few words."""
    then, now = recorded.body, live.body
    if ("error" in then) != ("error" in now):
        return "with an error" if "error" in now else "without the error"
    member = "error" if "error" in now else "result"
    first = next(match.differences(then.get(member), now.get(member), (member,)), None)
    if first is None:
        return None
    from .jsonpath import path_text  # most answers are equal

    return f"{path_text(first[0])} differs"


def single_line(text: bytes) -> bytes:
    """Return text for stdio: line breaks between tokens, which HTTP allows, become spaces."""
    return text.replace(b"\r", b" ").replace(b"\n", b" ")


def response(rpc_id: str | None, member: str, value: str) -> bytes:
    """Return a JSON-RPC response: https://www.jsonrpc.org/specification#response_object

    All arguments are JSON text; `member` is `result` or `error`, an id of None is null.
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
    """Return the result of a tool call that failed, in the form of the request's era."""
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": True}
    return jsontext.dumps({"resultType": "complete"} | result if protocol.is_modern(body) else result)
