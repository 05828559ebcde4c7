"""Recordings without content: `--bodies hash` and `--bodies none`.

This module lists what stays in clear; all else is content. So a message of an unknown kind is hidden. In clear are
methods, ids, the names of tools and prompts, error codes, and the server's public offer: its introduction, tools,
prompts, resource templates and skills. Hidden are arguments, results, error messages, logs, resources with their URIs,
cursors, URL queries, headers that the protocol does not need, stderr, and everything that is not JSON-RPC.

`hash` replaces each value by its hash: equal values stay equal, so two recordings can be compared. `none` replaces each
hidden value by its size.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from ..light import pattern
from ..wire import frames, jsontext, protocol
from ..wire.channels import STDERR, is_post
from ..wire.secret_names import PLACEHOLDER
from .redactor import RedactedText, Redactor

HASH_KEY_VARIABLE = "MCP_TAPE_HASH_KEY"  # the environment variable that holds the hash key
_LONGEST_KEY = 64  # the limit of BLAKE2b, in bytes
_NAME = pattern(r"(?:[A-Za-z_$@][A-Za-z0-9_$]{0,39})(?:[-./][A-Za-z_]{1,40}){0,6}")  # of a member, not an address
_WORD = pattern(r"[a-z][a-z_]{0,30}")  # a word that the protocol defines
_EXACT = pattern(rb"[0-9]{16}")  # more digits than a double holds
_MOST_ASKED = 10_000  # requests to remember until they are answered

WHOLE, ID, WORD = (
    "whole",
    "id",
    "word",
)  # values in clear: anything; a name or a number; a word of the protocol
Tree = dict[str, Any]  # by member name, how much of the value is in clear; lists add no level
_META: Tree = {
    "progressToken": ID, "traceparent": ID, protocol.META_VERSION: ID, protocol.META_SUBSCRIPTION: ID,
    protocol.META_CLIENT: WHOLE, protocol.META_SERVER: WHOLE, protocol.META + "clientCapabilities": WHOLE,
    protocol.META_TASK: {"taskId": ID},
}  # fmt: skip
_TASK: Tree = {"taskId": ID, "status": WORD, "pollInterval": ID, "ttl": ID}
_CHAT_MESSAGE: Tree = {"role": WORD, "content": {"type": WORD}}
# In params, by method.
_PARAMS: dict[str, Tree] = {
    protocol.INITIALIZE: dict.fromkeys(("protocolVersion", "capabilities", "clientInfo"), WHOLE),
    protocol.CALL: {"name": ID},
    protocol.GET_PROMPT: {"name": ID},
    protocol.COMPLETE: {"ref": {"type": WHOLE, "name": ID}, "argument": {"name": ID}},
    protocol.SET_LEVEL: {"level": WORD},
    protocol.LOGGED: {"level": WORD},
    protocol.CANCELLED: {"requestId": ID},
    protocol.PROGRESS: {"progressToken": ID, "progress": ID, "total": ID},
    protocol.SAMPLE: {"messages": _CHAT_MESSAGE},
    protocol.TASK_STATUS: _TASK,
}
# In results, by the request's method. Resources are not part of a server's public offer.
_RESULTS: dict[str, Any] = {
    kind.method: {kind.member: WHOLE, "ttlMs": ID, "cacheScope": WORD}
    for kind in protocol.KINDS
    if kind.method != protocol.RESOURCES
}
_RESULTS |= dict.fromkeys(protocol.INTRODUCTIONS, WHOLE) | {
    protocol.CALL: {"isError": ID, "content": {"type": WORD}, "task": _TASK},
    protocol.GET_PROMPT: {"messages": _CHAT_MESSAGE},
    protocol.SAMPLE: _CHAT_MESSAGE,
    protocol.ELICIT: {"action": WORD},
    protocol.TASKS: {"tasks": _TASK},
}
_BY_SERVER = (protocol.ROOTS, protocol.SAMPLE, protocol.ELICIT)
_HEADERS = {
    *"accept accept-encoding allow cache-control content-encoding content-length content-type retry-after".split(),
    protocol.SESSION_HEADER, protocol.VERSION_HEADER, protocol.METHOD_HEADER, protocol.RESUME_HEADER,
}  # fmt: skip
_NAMED = (protocol.CALL, protocol.GET_PROMPT)  # methods whose name is that of a tool or prompt


class Hashes:
    """Replaces each string, number and boolean by its own hash."""

    def __init__(self, key: str = "") -> None:
        data = key.encode("utf-8", "surrogateescape")
        self._key = data if len(data) <= _LONGEST_KEY else blake2b(data).digest()
        # With a key, a fingerprint by which recordings with the same key are recognized.
        self.name = f"hash:{blake2b(b'key', digest_size=4, key=self._key).hexdigest()}" if key else "hash"

    def hide(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self.member(name): self.hide(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.hide(inner) for inner in value]
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bool):
            return self._hash(b"b", str(value).encode())
        return value if value is None else self._hash(b"n", jsontext.number_text(value).encode())

    def text(self, value: str) -> str:
        """Return the hash of a text. Empty and redacted texts stay: they reveal nothing."""
        if not value or PLACEHOLDER.fullmatch(value):
            return value
        return self._hash(b"s", value.encode("utf-8", "surrogatepass"))

    def member(self, name: str) -> str:
        """Return a member's name unchanged, unless it looks like content."""
        return name if _NAME.fullmatch(name) else self.text(name)

    def _hash(self, kind: bytes, data: bytes) -> str:
        return f"[hash:{blake2b(kind + data, digest_size=8, key=self._key).hexdigest()}]"


class Sizes:
    """Replaces each value by its size in bytes."""

    name = "none"

    def hide(self, value: Any) -> Any:
        if value in (None, "", {}, []):
            return value
        if isinstance(value, str):
            return self.text(value)
        return _size_note(len(jsontext.dumps(value).encode("utf-8", "replace")))

    def text(self, value: str) -> str:
        if not value or PLACEHOLDER.fullmatch(value):
            return value
        return _size_note(len(value.encode("utf-8", "surrogatepass")))

    def member(self, name: str) -> str:
        return name if _NAME.fullmatch(name) else self.text(name)


def _size_note(size: int) -> str:
    return f"[left out: {size} bytes]"


class Bodies:
    """A redactor that also hides the content of one session's messages. A tape uses it like a `Redactor`."""

    def __init__(self, redactor: Redactor | None, how: Hashes | Sizes) -> None:
        self._redactor = redactor
        self._how = how
        self._asked: dict[tuple[bool, str, str], str] = {}  # methods, by (asked by the server, channel, id)

    def clears(self, lines: bytes) -> bool:
        """Return False: there is always something to hide."""
        return False

    def redact(self, text: bytes, channel: str = "") -> RedactedText:
        """Hide the secrets and the content in a frame's text."""
        return self._both(text, channel, self._frame)

    def facts(self, text: bytes, channel: str = "") -> RedactedText:
        """Hide the content of a control frame, such as the headers of a request."""
        return self._both(text, channel, self._facts)

    def _both(self, text: bytes, channel: str, hide: Callable[[bytes, str], bytes]) -> RedactedText:
        redacted = RedactedText(text, text, 0) if self._redactor is None else self._redactor.redact(text, channel)
        matched = hide(redacted.matched, channel)
        kept = matched if redacted.matched is redacted.text else hide(redacted.text, channel)
        return RedactedText(kept, matched, redacted.hidden)

    def _frame(self, text: bytes, channel: str) -> bytes:
        body = None if channel == STDERR else _parse_json(text)
        if isinstance(body, dict) and _is_message(body):
            return _bytes(self._message(body, channel))
        if isinstance(body, list) and body and all(isinstance(part, dict) and _is_message(part) for part in body):
            return _bytes([self._message(part, channel) for part in body])
        line = text.rstrip(b"\r\n")
        return self._how.text(line.decode("utf-8", "surrogateescape")).encode() + text[len(line) :]

    def _message(self, body: dict[str, Any], channel: str) -> dict[str, Any]:
        method, number = body.get("method"), frames.id_text(body.get("id"))
        clear: Tree = {"jsonrpc": ID, "id": ID, "method": ID, "error": {"code": ID}}
        if isinstance(method, str):
            if number is not None:
                self._ask(channel, number, method)
            clear["params"] = {"_meta": _META} | _clear_members(method, _PARAMS, {"taskId": ID})
        else:
            found = [_clear_members(asked, _RESULTS, _TASK) for asked in self._answered_methods(channel, number)]
            clear["result"] = WHOLE if WHOLE in found else {"resultType": WORD, "_meta": _META}
            for tree in found if WHOLE not in found else ():
                clear["result"] |= tree
        return self._within(body, clear)  # type: ignore[no-any-return]

    def _ask(self, channel: str, number: str, method: str) -> None:
        place = method in _BY_SERVER, channel, number
        self._asked.pop(place, None)
        if method in _RESULTS or method.startswith(protocol.TASK_PREFIX):
            self._asked[place] = method
            if len(self._asked) > _MOST_ASKED:
                del self._asked[next(iter(self._asked))]

    def _answered_methods(self, channel: str, number: str | None) -> list[str]:
        """Return the methods that a response may answer. Each side has its own ids; a GET stream may answer a POST."""
        if number is None:
            return []
        found = [self._asked[place] for by in (False, True) if (place := (by, channel, number)) in self._asked]
        if found or is_post(channel):
            return found
        return [method for (_, _, asked), method in self._asked.items() if asked == number][-1:]

    def _within(self, value: Any, clear: Any) -> Any:
        """Return a value with all but its clear parts hidden."""
        if clear == WHOLE:
            return value
        if isinstance(clear, str):
            kept = isinstance(value, (str, int, float)) and (clear == ID or _is_word(value))
            return value if kept else self._how.hide(value)
        if isinstance(value, dict):
            return dict(self._member(name, inner, clear) for name, inner in value.items())
        if isinstance(value, list):
            return [self._within(inner, clear) for inner in value]
        return self._how.hide(value)

    def _member(self, name: str, value: Any, clear: Tree) -> tuple[str, Any]:
        if name in clear:
            return name, self._within(value, clear[name])
        return self._how.member(name), self._how.hide(value)

    def _facts(self, text: bytes, channel: str) -> bytes:
        known, hide = frames.facts(text), self._how.text
        for name in ("path", "data"):
            if isinstance(known.get(name), str):
                path, mark, query = known[name].partition("?")
                known[name] = path + mark + hide(query)
        for name in ("text", "body", "base64"):
            if isinstance(known.get(name), str):
                known[name] = hide(known[name])
        headers = known.get("headers")
        if isinstance(headers, dict):
            shown = _HEADERS | ({protocol.NAME_HEADER} if headers.get(protocol.METHOD_HEADER) in _NAMED else set())
            known["headers"] = {name: value if name in shown else hide(str(value)) for name, value in headers.items()}
        return _bytes(known)


def _clear_members(method: str, trees: dict[str, Any], of_task: Tree) -> Any:
    """Return the parts in clear of the params or the result of a method."""
    return trees.get(method, {}) | of_task if method.startswith(protocol.TASK_PREFIX) else trees.get(method, {})


def _is_message(body: dict[str, Any]) -> bool:
    return isinstance(body.get("method"), str) or "result" in body or "error" in body


def _is_word(value: Any) -> bool:
    return not isinstance(value, str) or _WORD.fullmatch(value) is not None


def _parse_json(text: bytes) -> Any:
    """Return a text as JSON; None if it is not JSON, or nested too deep."""
    try:
        if _EXACT.search(text):
            return jsontext.loads_exact(text.decode("utf-8", "replace"))
        return jsontext.loads(text)
    except (ValueError, RecursionError):
        return None


def _bytes(value: Any) -> bytes:
    return jsontext.dumps(value).encode("utf-8", "surrogateescape")
