"""Configurations of clients: read, wrapped and unwrapped as by the command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyjson5

from mcp_tape.clients import config_file
from mcp_tape.clients.discovery import words_for
from mcp_tape.clients.table import BY_NAME, TOML, USER, Client, ConfigLocation
from mcp_tape.clients.toml import tomllib

FILES = Path(__file__).parent.parent / "clients" / "files"
PROGRAM = "/opt/mcp tape/bin/mcp-tape"


def read(path: Path, client: str = "cursor") -> config_file.Config:
    row = BY_NAME[client]
    return config_file.read(ConfigLocation(row, USER, str(path), row.keys))


def of_text(text: str, client: str = "cursor") -> config_file.Config:
    """A configuration without a file."""
    row = BY_NAME[client]
    empty = config_file.Config(ConfigLocation(row, USER, "nowhere", row.keys), text.encode(), text, None, row.keys[0])
    found = config_file.with_text(empty, text)
    return found._replace(way=config_file.find_way(found.value, row.keys))


def server(found: config_file.Config, name: str) -> config_file.ServerEntry:
    return next(one for one in config_file.servers(found) if one.name == name)


def wrapped(
    found: config_file.Config, name: str, mode: str = "record", cassette: str | None = None
) -> config_file.Config:
    one = server(found, name)
    words = words_for(one.parts, f"client/{name}", mode, cassette)
    return config_file.with_text(found, config_file.wrap(found, one, PROGRAM, words))


def unwrapped(found: config_file.Config, name: str) -> config_file.Config:
    return config_file.with_text(found, config_file.unwrap(found, server(found, name)))


def can_be_wrapped(found: config_file.Config) -> Iterator[str]:
    return (one.name for one in config_file.servers(found) if not one.problem)


def parsed(text: str, client: Client) -> Any:
    """The result of another parser for a text."""
    if client.kind == TOML:
        return tomllib.loads(text.removeprefix("\ufeff"))
    return pyjson5.decode(text, maxdepth=1000)


def without(value: Any, way: tuple[str, ...]) -> str:
    """Everything but the one entry, for comparison."""
    copy = json.loads(json.dumps(value, default=repr))
    inner = copy
    for key in way[:-1]:
        inner = inner[key]
    inner[way[-1]] = None
    return json.dumps(copy)
