"""The clients on this machine, and the servers that the user asks for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..errors import TapeError
from .config_file import Config, ServerEntry, read, servers
from .entry import Parts
from .table import BY_NAME, CLIENTS, JSON, LOCAL, PROJECT, TOML, USER, YAML, ConfigLocation, places

_ENDINGS = {".toml": TOML, ".yaml": YAML, ".yml": YAML}


class ClientFile(NamedTuple):
    """A file that exists: its content, or why it cannot be read."""

    place: ConfigLocation
    config: Config | None
    problem: str | None = None

    def servers(self) -> list[ServerEntry]:
        return list(servers(self.config)) if self.config else []


class ServerChoice(NamedTuple):
    """A server of a file."""

    found: ClientFile
    server: ServerEntry


def find(
    project: str, environ: Mapping[str, str], client: str | None = None, scope: str | None = None
) -> Iterator[ClientFile]:
    """Yield the existing files of clients, each once: some belong to several clients."""
    seen = set[tuple[str, str]]()
    for place in places(project, environ):
        wanted = scope is None or place.scope == scope or (scope == USER and place.scope == LOCAL)
        is_new = (place.scope, place.path) not in seen
        if wanted and is_new and client in (None, place.client.name) and os.path.isfile(place.path):
            seen.add((place.scope, place.path))
            found = _read_place(place)
            if place.scope != LOCAL or found.servers():
                yield found


def find_file(path: str, project: str, environ: Mapping[str, str], client: str | None = None) -> ClientFile:
    """Return a file by its path: a client's, or one in the form of a client's."""
    if not os.path.isfile(path):
        raise TapeError(f"there is no file {path}; mcp-tape wrap --list shows those that are there")
    same = [place for place in places(project, environ) if _is_same(place.path, path) and place.scope != LOCAL]
    if client:
        row = BY_NAME[client]
        scope = same[0].scope if same else USER
        return _read_place(ConfigLocation(row, scope, path, row.keys))
    if same:
        return _read_place(same[0]._replace(path=path))
    kind = _ENDINGS.get(os.path.splitext(path)[1].lower(), JSON)
    like = next(row for row in CLIENTS if row.kind == kind)
    keys = tuple(dict.fromkeys(way for row in CLIENTS if row.kind == kind for way in row.keys))
    return _read_place(ConfigLocation(like._replace(name="config", title=path), USER, path, keys))


def _is_same(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def _read_place(place: ConfigLocation) -> ClientFile:
    try:
        return ClientFile(place, read(place))
    except OSError as error:
        return ClientFile(place, None, f"{place.path} cannot be read: {error.strerror}")
    except TapeError as error:
        return ClientFile(place, None, str(error))


def choose(found: Iterable[ClientFile], names: Sequence[str], *, several: bool) -> list[ServerChoice]:
    """Return the servers with these names, or all; TapeError for a name that is missing or ambiguous."""
    there = [ServerChoice(one, server) for one in found for server in one.servers()]
    if not names:
        return there
    chosen = []
    for name in dict.fromkeys(names):
        same = [choice for choice in there if choice.server.name == name]
        if not same:
            known = ", ".join(dict.fromkeys(choice.server.name for choice in there))
            others = f"there are: {known}" if known else "no client has any"
            raise TapeError(f"no client has a server {name}; {others}; to see the clients: mcp-tape wrap --list")
        if len(same) > 1 and not several:
            where = ", ".join(f"{choice.found.place.client.name} ({choice.found.place.path})" for choice in same)
            raise TapeError(f"{name} is in several places: {where}; choose with --client or --config, or add --all")
        chosen += same
    return chosen


def name_of(choice: ServerChoice) -> str:
    """Return a name for a server's cassette: client and server, without characters that an argument cannot hold."""
    name = choice.server.name.encode("utf-8", "replace").decode().replace("\0", "?")
    return f"{choice.found.place.client.name}/{name}"


def words_for(parts: Parts | None, name: str, mode: str, cassette: str | None) -> list[str]:
    """Return our words for a server. `name` identifies it, unless there is a cassette.

    The last option and its value are one word if the entry has no list of arguments yet (see entry.py). `parts` is None
    for a server with a URL.
    """
    if mode == "use":
        words, option = ["use", cassette or ""], ("--mode", "once")
    else:
        words, option = ["record"], ("--output", cassette) if cassette else ("--for", name)
    return [
        *words,
        *(
            option
            if parts is None or parts.args is not None or isinstance(parts.command, list)
            else ("=".join(option),)
        ),
    ]


def is_shared(place: ConfigLocation) -> bool:
    """Return whether a file belongs to a project, and may be shared."""
    return place.scope == PROJECT
