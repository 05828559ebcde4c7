"""Configurations of clients: read, wrapped and unwrapped as by the command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyjson5

from mcp_tape.clients import config
from mcp_tape.clients.finding import words_for
from mcp_tape.clients.table import BY_NAME, TOML, USER, Client, Place
from mcp_tape.clients.toml import tomllib

FILES = Path(__file__).parent.parent / "clients" / "files"
PROGRAM = "/opt/mcp tape/bin/mcp-tape"


def read(path: Path, client: str = "cursor") -> config.Config:
    row = BY_NAME[client]
    return config.read(Place(row, USER, str(path), row.keys))


def of_text(text: str, client: str = "cursor") -> config.Config:
    """A configuration without a file."""
    row = BY_NAME[client]
    empty = config.Config(Place(row, USER, "nowhere", row.keys), text.encode(), text, None, row.keys[0])
    found = config.with_text(empty, text)
    return found._replace(way=config.way_in(found.value, row.keys))


def server(found: config.Config, name: str) -> config.Server:
    return next(one for one in config.servers(found) if one.name == name)


def wrapped(found: config.Config, name: str, mode: str = "record", cassette: str | None = None) -> config.Config:
    one = server(found, name)
    words = words_for(one.parts, f"client/{name}", mode, cassette)
    return config.with_text(found, config.wrap(found, one, PROGRAM, words))


def unwrapped(found: config.Config, name: str) -> config.Config:
    return config.with_text(found, config.unwrap(found, server(found, name)))


def can_be_wrapped(found: config.Config) -> Iterator[str]:
    return (one.name for one in config.servers(found) if not one.problem)


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
