"""Secrets from the environment in place of a recording's placeholders, for a live server that needs them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..wire import jsontext
from ..wire.frames import Side
from ..wire.secret_names import MARK, PLACEHOLDER, source_of
from .strings import StringValues, is_json

PREFIX = "MCP_TAPE_SECRET_"
_NO_NAME = re.compile(r"[^A-Za-z0-9]+")
# The shortest secret to look for within a text: a server's text may contain a short one by chance.
_SHORTEST: dict[Side, int] = {"client": 4, "server": 8}


def variable(source: str) -> str:
    """Return the environment variable that holds the secret of a source."""
    kind, _, name = source.partition(":")
    return name if kind == "env" and name else PREFIX + _NO_NAME.sub("_", name or kind).strip("_").upper()


def hidden_sources(text: bytes) -> set[str]:
    """Return the sources of the placeholders in a recorded text."""
    return set(map(source_of, PLACEHOLDER.findall(text.decode("utf-8", "replace")))) if MARK.encode() in text else set()


def restore_secrets(text: bytes, environ: Mapping[str, str]) -> bytes:
    """Return a recorded text with its secrets restored, escaped as the surrounding JSON requires."""
    if MARK.encode() not in text:
        return text
    return _document(text.decode("utf-8", "surrogateescape"), environ).encode("utf-8", "surrogateescape")


def find_exposed_secret(said: Iterable[tuple[Side, Any]], secrets: Mapping[str, str]) -> str | None:
    """Return the name of a secret that occurs in the recorded messages, or None."""
    for sender, body in said:
        for text in _strings(body):
            for name, value in secrets.items():
                if value in text and (text == value or len(value) >= _SHORTEST[sender]):
                    return name
    return None


def _document(source: str, environ: Mapping[str, str]) -> str:
    splices = []
    for start, end, *_ in StringValues(source):
        if MARK in source[start:end]:
            value = jsontext.unquote(source[start:end])
            splices.append((start, end, jsontext.quote(_string(value, environ))))
    return jsontext.splice(source, splices)


def _string(value: str, environ: Mapping[str, str]) -> str:
    if is_json(value, deep=False):
        return _document(value, environ)
    return PLACEHOLDER.sub(lambda found: environ.get(variable(source_of(found[0])), found[0]), value)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)
