"""A server's description: a command, a URL, or an object as in clients' configurations; and its replacement."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import TapeError
from ..values import check_label
from ..wire.channels import HTTP, SSE, STDIO
from ..wire.protocol import SSE_PATH

KEYS = ("mcpServers", "servers")  # of an object with all servers: that of most clients, and VS Code's
_OURS = ("command", "args", "env", "cwd", "url", "headers")  # the keys of an entry that a tape replaces
_KIND = {"mcpServers": "transport", "servers": "type"}  # the key for the transport, if the entry has none
_KINDS = ("transport", "type")
# ${NAME}, ${NAME:-default} and VS Code's ${env:NAME}; other names in braces belong to the client.
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_WEB = ("http://", "https://", "${")  # beginnings of URLs


class ConfiguredServer(NamedTuple):
    """A live server, as given."""

    command: tuple[str, ...] = ()
    url: str | None = None
    env: Mapping[str, Any] = {}
    cwd: str | None = None
    headers: Mapping[str, Any] = {}
    more: Mapping[str, Any] = {}  # other keys for clients

    def client_entry(
        self, key: str, *, command: Sequence[str] = (), url: str | None = None, live: bool
    ) -> dict[str, Any]:
        """The entry for a client, with a tape in the server's place.

        A live server keeps its variables and headers, because the client may have to fill in values. A tape that plays
        needs none.
        """
        made: dict[str, Any] = dict(self.more)
        if not made.keys() & set(_KINDS):
            made[_KIND[key]] = STDIO if command else SSE if _is_sse(url) else HTTP
        made |= {"command": command[0], "args": [*command[1:]]} if command else {"url": url}
        cwd = self.cwd if self.cwd and expand_variables(self.cwd, os.environ) is None else None
        kept = {"env": dict(self.env), "cwd": cwd, "headers": dict(self.headers)}
        return made | {name: value for name, value in kept.items() if value and live}

    def expand(self, environ: Mapping[str, str]) -> ConfiguredServer:
        """The same server, with known variables expanded.

        Values with unknown variables are left out: only the client knows them.
        """
        env, headers = (
            {name: text for name, value in values.items() if (text := expand_variables(value, environ)) is not None}
            for values in (self.env, self.headers)
        )
        words = tuple(word if (text := expand_variables(word, environ)) is None else text for word in self.command)
        cwd = expand_variables(self.cwd, environ) if self.cwd else None
        return ConfiguredServer(words, expand_variables(self.url, environ) or self.url, env, cwd, headers)


def _is_sse(url: str | None) -> bool:
    return (url or "").partition("?")[0].rstrip("/").endswith(SSE_PATH)


def read_entries(servers: object) -> dict[str, ConfiguredServer]:
    """Return the given servers by name; TapeError for an invalid one."""
    if not isinstance(servers, Mapping) or not servers:
        raise TapeError('servers is a dict of at least one, as in {"git": ["mcp-server-git"], "web": "https://…/mcp"}')
    return {_name(name): _read(name, value) for name, value in servers.items()}


def _name(name: object) -> str:
    try:
        check_label(str(name))
    except ValueError as error:
        raise TapeError(str(error)) from None
    return str(name)


def _read(name: str, value: object) -> ConfiguredServer:
    if isinstance(value, str):
        if not value.startswith(_WEB):
            raise TapeError(f"the server {name!r} is neither a URL nor a list of words, as in {value.split()!r}")
        return ConfiguredServer(url=value)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return ConfiguredServer(command=_words(name, value))
    if not isinstance(value, Mapping):
        raise TapeError(f"the server {name!r} must be a list of words, a URL or a dict, not {type(value).__name__}")
    return _entry_of_mapping(name, value)


def _entry_of_mapping(name: str, value: Mapping[str, Any]) -> ConfiguredServer:
    command, url = value.get("command"), value.get("url")
    if bool(command) == bool(url):
        raise TapeError(f"the server {name!r} needs either a command or a url, and not both")
    if url and not (isinstance(url, str) and url.startswith(_WEB)):
        raise TapeError(f"the url of the server {name!r} must be one of http or https, as in https://host/mcp")
    first, more = [command] if isinstance(command, str) else command or [], value.get("args") or []
    for key, words in (("command", first), ("args", more)):
        if not isinstance(words, list | tuple):
            raise TapeError(f"{key} of the server {name!r} must be a list of texts")
    for key in ("env", "headers"):
        if not isinstance(value.get(key) or {}, Mapping):
            raise TapeError(f"{key} of the server {name!r} must be a dict")
    return ConfiguredServer(
        () if url else _words(name, [*first, *more]),
        url,
        value.get("env") or {},
        None if value.get("cwd") is None else os.fspath(value["cwd"]),
        value.get("headers") or {},
        {key: one for key, one in value.items() if key not in _OURS},
    )


def _words(name: str, words: Sequence[Any]) -> tuple[str, ...]:
    if not words:
        raise TapeError(f"the server {name!r} needs a command, as in ['mcp-server-git']")
    texts = [os.fspath(word) if isinstance(word, os.PathLike) else word for word in words]
    if not all(isinstance(word, str) for word in texts):
        raise TapeError(f"the command of the server {name!r} must be a list of texts")
    return tuple(texts)


def expand_variables(text: Any, environ: Mapping[str, str]) -> Any:
    """A text with its variables expanded; None if one is unknown. Other values are returned unchanged."""
    if not isinstance(text, str):
        return text
    names = [found[1] for found in _VARIABLE.finditer(text) if found[2] is None]
    if any(name not in environ for name in names):
        return None
    found = _VARIABLE.sub(lambda found: environ.get(found[1], found[2]), text)
    return None if "${" in found else found
