"""A file of a client: its servers, and the same file with a tape in one of them or without.

An edit is a splice into the text. Before anything is written, both texts are parsed by a real parser, and nothing but
the one entry may differ. The file is then compared with what was read and replaced by one of the same mode, whole or
not at all (cassette/replace.py). Of the file before its first tape a copy is kept that only the user can read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from time import time
from typing import Any, NamedTuple

from ..cassette.replace import beside
from ..errors import CassetteError, TapeError, pasted
from . import jsonc, remote, toml, yaml
from .entry import PROGRAM, Parts, Tape, parts_of, stranger_in, tape_in, unwrapped, wrapped
from .remote import Remote, RemoteTape
from .spans import Pairs, UnreadableError, spliced
from .splice import Language, put_in, take_out
from .table import JSON, TOML, YAML, Place

BACKUP = ".mcp-tape-backup"
_LANGUAGES: dict[str, Language] = {JSON: jsonc, TOML: toml}
# A directory that the writer of a file makes beside it, as proper-lockfile does: Claude Code waits until it is gone,
# and reads the file anew. One that was not touched for some seconds is what a killed writer left.
# https://github.com/moxystudio/node-proper-lockfile
_LOCK, _STALE = ".lock", 10.0


class Config(NamedTuple):
    """A file as it was read, and the way to its servers."""

    place: Place
    data: bytes
    text: str
    value: Any
    way: tuple[str, ...]

    @property
    def path(self) -> str:
        return self.place.path

    @property
    def language(self) -> Language:
        return _LANGUAGES[self.place.client.kind]


class Server(NamedTuple):
    """An entry of a file: what it starts, or why it cannot be wrapped."""

    name: str
    parts: Parts | None = None
    tape: Tape | RemoteTape | None = None
    problem: str | None = None
    remote: Remote | None = None

    @property
    def url(self) -> str | None:
        return self.remote.url if self.remote else None

    @property
    def is_wrapped(self) -> bool:
        return self.tape is not None


def read(place: Place) -> Config:
    """Read a file; TapeError says why it cannot be used. OSError: it is not there, or not readable."""
    with open(place.path, "rb") as file:
        data = file.read()
    try:
        text = data.decode("utf-8")
        value = _parsed(place.client.kind, text)
    except UnicodeDecodeError:
        raise TapeError(f"{place.path} stays as it is: it is not UTF-8") from None
    except UnreadableError as error:
        raise TapeError(f"{place.path} stays as it is: it cannot be read: {error}") from None
    return Config(place, data, text, value, way_in(value, place.keys))


def way_in(value: Any, ways: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the way to the servers: the first that is there, else the first."""
    if not isinstance(value, Pairs):
        return ways[0]
    return next((way for way in ways if isinstance(value.at(way), Pairs) and (way or _is_map(value))), ways[0])


def _is_map(value: Pairs) -> bool:
    """True if all of a file is one map of servers."""
    starts = ("command", *remote.URLS)
    return bool(value) and all(isinstance(inner, Pairs) and any(map(inner.get, starts)) for _, inner in value)


def _parsed(kind: str, text: str) -> Any:
    if kind == YAML:
        return yaml.servers(text)
    return (jsonc if kind == JSON else toml).parse(text) if text.strip() else Pairs()


def servers(config: Config) -> Iterator[Server]:
    """Yield the servers of a file in their order."""
    found = config.value.at(config.way) if isinstance(config.value, Pairs) else None
    for name, entry in dict(found if isinstance(found, Pairs) else ()).items():
        yield _server(name, entry, config)


def server(config: Config, name: str) -> Server:
    """Return a server of a file by its name."""
    for one in servers(config):
        if one.name == name:
            return one
    raise TapeError(f"{name} is no longer in {config.path}")


def _server(name: str, entry: Any, config: Config) -> Server:
    try:
        if isinstance(entry, Pairs) and any(map(entry.get, remote.URLS)):
            return _remote(name, entry, config.place.client.kind)
        parts = parts_of(entry, config.place.client.words)
    except TapeError as error:
        return Server(name, problem=str(error))
    tape = tape_in(parts) or remote.remote_tape_in(entry, PROGRAM)
    stranger = None if tape else stranger_in(parts)
    return Server(name, parts, tape, f"{stranger} is in front of it already" if stranger else None)


def _remote(name: str, entry: Pairs, kind: str) -> Server:
    url = next(value for value in map(entry.get, remote.URLS) if value)
    try:
        if kind == YAML:
            raise TapeError("it has a URL, in a YAML file; change it by hand to: mcp-tape record --url URL --stdio")
        return Server(name, remote=remote.remote_of(entry))
    except TapeError as error:
        return Server(name, problem=str(error), remote=Remote("", str(url)))


def wrap(config: Config, server: Server, program: str, words: Sequence[str]) -> str:
    """Return the text of a file with a tape in one of its servers. TapeError: why not."""
    _expect_well(config, server)
    if server.tape:
        return config.text
    entry, language = config.value.at((*config.way, server.name)), config.language
    node = language.scan(config.text).at((*config.way, server.name))
    if server.remote:
        splices = remote.put_in(language, config.text, node, server.remote, program, words)
        made = remote.wrapped(entry, server.remote, program, words)
    else:
        assert server.parts
        splices = put_in(language, config.text, node.at(server.parts.owner), server.parts, program, words)
        made = wrapped(entry, server.parts, program, words)
    text = _checked(config, server, spliced(config.text, splices), made)
    new = with_text(config, text)
    if unwrap(new, next(one for one in servers(new) if one.name == server.name)) != config.text:
        raise _unsafe(config, server)
    return text


def unwrap(config: Config, server: Server) -> str:
    """Return the text of a file without the tape in one of its servers."""
    _expect_well(config, server)
    if not server.tape:
        return config.text
    entry, language = config.value.at((*config.way, server.name)), config.language
    node = language.scan(config.text).at((*config.way, server.name))
    if isinstance(server.tape, RemoteTape):
        splices = remote.take_out(language, config.text, node, server.tape)
        made = remote.unwrapped(entry, server.tape)
    else:
        assert server.parts
        splices = take_out(language, config.text, node.at(server.parts.owner), server.parts, server.tape)
        made = unwrapped(entry, server.parts, server.tape)
    return _checked(config, server, spliced(config.text, splices), made)


def _expect_well(config: Config, server: Server) -> None:
    if server.problem:
        raise TapeError(f"{server.name} in {config.path} stays as it is: {server.problem}")


def _checked(config: Config, server: Server, text: str, entry: Pairs) -> str:
    """Return a new text in which nothing but the one entry is another."""
    expected = config.value.with_((*config.way, server.name), entry)
    try:
        is_right = repr(_parsed(config.place.client.kind, text)) == repr(expected)
    except UnreadableError:
        is_right = False
    if not is_right:
        raise _unsafe(config, server)
    return text


def _unsafe(config: Config, server: Server) -> TapeError:
    return TapeError(
        f"{server.name} in {config.path} stays as it is: it is written in a way that cannot be changed safely; "
        "change it by hand"
    )


def with_text(config: Config, text: str) -> Config:
    """Return what reading the file would give if this were its text."""
    return config._replace(text=text, value=_parsed(config.place.client.kind, text))


def write(config: Config, text: str) -> None:
    """Put a text in the place of what was read, if that is still there; else TapeError, and nothing is changed."""
    data = text.encode("utf-8")
    if data == config.data:
        return
    path = os.path.realpath(config.path)
    if not os.access(path, os.W_OK):  # a new file could be put in its place, but somebody has it so
        raise TapeError(f"{path} stays as it is: it is read-only; if that is not meant, try: chmod u+w {pasted(path)}")
    try:
        with _locked(path):
            _keep_backup(config)
            _put(path, data, config.data)
            if _content(path + BACKUP) == data:  # all is as it was
                os.unlink(path + BACKUP)
    except CassetteError as error:
        raise TapeError(str(error)) from None


def _keep_backup(config: Config) -> None:
    """Keep a copy of a file as it was before its first tape."""
    backup = os.path.realpath(config.path) + BACKUP
    if PROGRAM not in config.text or not os.path.exists(backup):
        with suppress(FileNotFoundError):
            os.unlink(backup)  # neither its mode counts nor, if it is a link, where that leads
        _put(backup, config.data)


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Keep other writers of a file waiting. TapeError: one of them does that just now."""
    lock = path + _LOCK
    with suppress(OSError):
        if time() - os.stat(lock).st_mtime > _STALE:
            os.rmdir(lock)
    try:
        os.mkdir(lock)
    except FileExistsError:
        hint = "end that program, then try again"
        raise TapeError(f"{path} stays as it is: {lock} says that somebody is writing it; {hint}") from None
    except OSError as error:
        raise TapeError(f"{path} stays as it is: cannot write {lock}: {error.strerror}") from None
    try:
        yield
    finally:
        with suppress(OSError):
            os.rmdir(lock)


def _put(path: str, data: bytes, old: bytes | None = None) -> None:
    """Put a file in its place, whole; `old`: what must be there until then."""
    with beside(path) as part:
        with open(part.file, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(data)
        # What a writer that knows no lock writes from here to the renaming would be lost; it is as near as it can be.
        if old is not None and _content(path) != old:
            raise TapeError(f"{path} stays as it is: somebody has changed it meanwhile; try again")
        part.put()


def _content(path: str) -> bytes | None:
    with suppress(OSError), open(path, "rb") as file:
        return file.read()
    return None
