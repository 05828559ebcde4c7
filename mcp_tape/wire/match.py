"""Match keys: which recorded request a live one equals; rules that narrow keys; differences between two requests."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from ..light import sha256
from . import jsontext, protocol, secret_names
from .frames import Message
from .jsontext import Path
from .secret_names import MARK, PLACEHOLDER

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from .jsonpath import JsonPath

KEY_VERSION = 1
_HIDDEN = "[redacted]"
_PLACE = MARK + "path:"
_ABSENT = object()
_NO_HEADERS: frozenset[tuple[str, str]] = frozenset()

Rule = Callable[[Path], bool]  # whether the value at a path counts
StatedFacts = tuple[object, frozenset[tuple[str, str]]]  # beside the params: a protocol version, and MCP headers


def request_key(method: str, params: Any) -> bytes:
    """Return 16 bytes that are the same for equal requests."""
    return _digest(method, request_identity(method, params))


def request_identity(method: str, params: Any) -> Any:
    """Return the identity of a request that its key is made of, with secrets made equal."""
    what = protocol.identifying_params(method, params)
    return what if _is_plain(what) else _without_secrets(what)


def stated_facts(message: Message, headers: Mapping[str, str]) -> StatedFacts | None:
    """Return the version and headers that tell equal requests of different clients apart; None without any."""
    version = protocol.stated_version(message.body)
    if not headers:
        return None if version is None else (version, _NO_HEADERS)
    named = (item for item in headers.items() if item[0].startswith("mcp-") and item[0] != protocol.SESSION_HEADER)
    own, version = frozenset(named), version or headers.get(protocol.VERSION_HEADER)
    return (version, own) if own or version is not None else None


def message_key(message: Message, text: bytes, part: int = 0) -> bytes:
    """Return the key of a request whose text is available: numbers count by their exact value."""
    return params_key(message.method or "", message.body.get("params"), text, part)


def params_key(method: str, params: Any, text: bytes, part: int = 0) -> bytes:
    return plain_key(method, params) or request_key(method, _exact_params(params, text, part))


def plain_key(method: str, params: Any) -> bytes | None:
    """Return the key of a request without its text; None if exact numbers or secrets require the text."""
    what = protocol.identifying_params(method, params)
    return _digest(method, what) if _is_plain(what) else None


def exact_params(message: Message, text: bytes, part: int = 0) -> Any:
    """Return the params of a message, with exact numbers."""
    return _exact_params(message.body.get("params"), text, part)


def _exact_params(params: Any, text: bytes, part: int) -> Any:
    if _is_plain(params) or not _has_float(params):
        return params
    try:
        body = (_exact_batch if text.lstrip().startswith(b"[") else _parse_exact)(text)
    except RecursionError:
        return params
    return (body[part] if isinstance(body, list) else body).get("params")


def _parse_exact(text: bytes) -> Any:
    return jsontext.loads_exact(text.decode("utf-8", "replace"))


_exact_batch = lru_cache(1)(_parse_exact)  # the messages of a batch are looked up one after another


def _is_plain(value: Any) -> bool:
    """Return whether a value has neither floats nor secret keys. Most values have none."""
    if type(value) is dict:
        for key, item in value.items():
            kind = type(item)
            if kind is dict:
                if not _is_plain(item):
                    return False
            elif kind is str or kind is list:
                if (item and _is_secret(key)) or (kind is list and not _is_plain(item)):
                    return False
            elif kind is float:
                return False
        return True
    return all(map(_is_plain, value)) if type(value) is list else type(value) is not float


def _has_float(value: Any) -> bool:
    inner = value.values() if type(value) is dict else value if type(value) is list else ()
    return type(value) is float or any(map(_has_float, inner))


def rule(ignored: Sequence[JsonPath], named: Sequence[JsonPath] = ()) -> Rule | None:
    """Return a rule by which only named places count, and ignored ones do not; None if both are empty."""
    if not ignored and not named:
        return None

    def counts(path: Path) -> bool:
        if any(place.covers(path) for place in ignored):
            return False
        return not named or any(place.covers(path) for place in named)

    return counts


def key_under(counts: Rule, method: str, params: Any) -> bytes:
    return _digest(method, counted_part(counts, request_identity(method, params)))


def counted_part(counts: Rule, what: Any) -> Any:
    """Return the part of a request's identity that counts. Paths start at the message, as in `$.params.name`."""
    kept = _keep_counted(what, ("params",), counts)
    return {} if kept is _ABSENT else kept


def fits_redacted(recorded: Any, live: Any) -> bool:
    """Return whether a live value equals the recorded one, where a placeholder matches any non-empty text.

    A path's placeholder matches any value, because redaction by path hides values of every type.
    """
    if isinstance(recorded, dict):
        return (
            isinstance(live, dict)
            and recorded.keys() == live.keys()
            and all(fits_redacted(value, live[key]) for key, value in recorded.items())
        )
    if isinstance(recorded, list):
        return isinstance(live, list) and len(recorded) == len(live) and all(map(fits_redacted, recorded, live))
    if isinstance(recorded, str) and PLACEHOLDER.search(recorded):
        is_place = recorded.startswith(_PLACE) and PLACEHOLDER.fullmatch(recorded) is not None
        return is_place or (isinstance(live, str) and _fits(PLACEHOLDER.split(recorded), live))
    return type(recorded) is type(live) and bool(recorded == live)


def _fits(pieces: list[str], live: str) -> bool:
    """Return whether a text consists of these pieces with text between them, in linear time."""
    first, *inner, last = pieces
    if not live.startswith(first) or not live.endswith(last):
        return False
    at, end = len(first), len(live) - len(last)
    for piece in inner:
        at = live.find(piece, at + 1, end)
        if at < 0:
            return False
        at += len(piece)
    return at < end


def differences(recorded: Any, live: Any, path: Path = ()) -> Iterator[tuple[Path, Any, Any]]:
    """Yield each leaf where two values differ: path, recorded value, live value (see is_absent)."""
    if isinstance(recorded, dict) and isinstance(live, dict):
        for key in [*recorded, *(k for k in live if k not in recorded)]:
            yield from differences(recorded.get(key, _ABSENT), live.get(key, _ABSENT), (*path, key))
    elif isinstance(recorded, list) and isinstance(live, list):
        for at in range(max(len(recorded), len(live))):
            one, other = (v[at] if at < len(v) else _ABSENT for v in (recorded, live))
            yield from differences(one, other, (*path, at))
    elif recorded != live or type(recorded) is not type(live):
        yield path, recorded, live


_is_secret = lru_cache(4096)(secret_names.is_secret_key)  # the same few keys recur in traffic


def is_absent(value: Any) -> bool:
    return value is _ABSENT


def _digest(method: str, what: Any) -> bytes:
    digest: bytes = sha256(
        b"%b\0%b" % (method.encode("utf-8", "surrogatepass"), jsontext.canonical_bytes(what))
    ).digest()
    return digest[:16]


def _without_secrets(value: Any) -> Any:
    """Replace strings under secret keys by one constant, so that a redacted recording matches."""
    if isinstance(value, dict):
        return {k: _hide_strings(v) if _is_secret(k) else _without_secrets(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    return value


def _hide_strings(value: Any) -> Any:
    """Replace a string, or the strings directly in a list, as redaction does."""
    if isinstance(value, list):
        return [_hide_strings(item) for item in value]
    return (_HIDDEN if value else value) if isinstance(value, str) else _without_secrets(value)


def _keep_counted(value: Any, path: Path, counts: Rule) -> Any:
    """Return a copy with only the leaves that count, and no empty containers."""
    if isinstance(value, dict) and value:
        inner = {k: _keep_counted(v, (*path, k), counts) for k, v in value.items()}
        return {k: v for k, v in inner.items() if v is not _ABSENT} or _ABSENT
    if isinstance(value, list) and value:
        items = (_keep_counted(item, (*path, n), counts) for n, item in enumerate(value))
        return [item for item in items if item is not _ABSENT] or _ABSENT
    return value if counts(path) else _ABSENT
