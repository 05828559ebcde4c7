"""Match keys: which recorded request a live one is equal to."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from . import jsontext, protocol, secrecy

KEY_VERSION = 1
_HIDDEN = "[redacted]"


def request_key(method: str, params: Any) -> bytes:
    """The same 16 bytes for every request that asks for the same thing."""
    asked = protocol.identifying(method, params)
    try:
        meaning = jsontext.canonical(_without_secrets(asked))
    except RecursionError:
        meaning = repr(asked).encode("utf-8", "surrogatepass")  # deeper than anything can encode
    return sha256(method.encode("utf-8", "surrogatepass") + b"\0" + meaning).digest()[:16]


def _without_secrets(value: Any) -> Any:
    """Any value under a secret key counts as one constant, so that a redacted recording matches."""
    if isinstance(value, dict):
        return {
            k: _HIDDEN if isinstance(v, str) and v and secrecy.is_secret_key(k) else _without_secrets(v)
            for k, v in value.items()
        }
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    return value
