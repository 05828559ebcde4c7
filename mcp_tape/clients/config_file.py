"""A client's file: its servers, and the file with a tape added to one of them or removed.

An edit is a splice into the text. Before writing, both texts are parsed by a real parser, and only the one entry may
differ. The file is then compared with the bytes that were read, and replaced atomically by one with the same mode
(cassette/replace.py). A copy from before the first tape is kept, readable only by the user.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from time import time
from typing import Any, NamedTuple, Protocol

from ..cassette.replace import beside
from ..errors import CassetteError, TapeError, quote_path
from ..wire.jsontext import Splice, splice
from . import jsonc, toml, url_entry, yaml
from .entry import END, PROGRAM, EntryTape, Parts, parts_of, stranger_in, tape_in, unwrap_command, wrap_command
from .positions import Member, Pairs, TextNode, UnreadableError
from .table import JSON, TOML, YAML, ConfigLocation
from .url_entry import Remote, RemoteTape

BACKUP = ".mcp-tape-backup"
_LANGUAGES: dict[str, Language] = {JSON: jsonc, TOML: toml}
# The lock directory of proper-lockfile: Claude Code waits until it is gone, and then reads the file again. A lock that
# was not touched for some seconds is left over from a killed writer.
# https://github.com/moxystudio/node-proper-lockfile
_LOCK, _STALE = ".lock", 10.0


class Config(NamedTuple):
    """The content of a file, and the way to its servers."""

    place: ConfigLocation
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


class ServerEntry(NamedTuple):
    """An entry of a file: the server it starts, or why it cannot be wrapped."""

    name: str
    parts: Parts | None = None
    tape: EntryTape | RemoteTape | None = None
    problem: str | None = None
    remote: Remote | None = None

    @property
    def url(self) -> str | None:
        return self.remote.url if self.remote else None

    @property
    def is_wrapped(self) -> bool:
        return self.tape is not None


def read(place: ConfigLocation) -> Config:
    """Read a file. TapeError explains why it cannot be used; OSError means that it is missing or unreadable."""
    with open(place.path, "rb") as file:
        data = file.read()
    try:
        text = data.decode("utf-8")
        value = _parse(place.client.kind, text)
    except UnicodeDecodeError:
        raise TapeError(f"{place.path} was not changed: it is not UTF-8") from None
    except UnreadableError as error:
        raise TapeError(f"{place.path} was not changed: it cannot be read: {error}") from None
    return Config(place, data, text, value, find_way(value, place.keys))


def find_way(value: Any, ways: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the way to the servers: the first that exists, else the first of all."""
    if not isinstance(value, Pairs):
        return ways[0]
    return next((way for way in ways if isinstance(value.at(way), Pairs) and (way or _is_map(value))), ways[0])


def _is_map(value: Pairs) -> bool:
    """True if the whole file is one map of servers."""
    starts = ("command", *url_entry.URLS)
    return bool(value) and all(isinstance(inner, Pairs) and any(map(inner.get, starts)) for _, inner in value)


def _parse(kind: str, text: str) -> Any:
    if kind == YAML:
        return yaml.servers(text)
    return (jsonc if kind == JSON else toml).parse(text) if text.strip() else Pairs()


def servers(config: Config) -> Iterator[ServerEntry]:
    """Yield the servers of a file, in order."""
    found = config.value.at(config.way) if isinstance(config.value, Pairs) else None
    for name, entry in dict(found if isinstance(found, Pairs) else ()).items():
        yield _server(name, entry, config)


def find_server(config: Config, name: str) -> ServerEntry:
    """Return a server of a file by its name."""
    for one in servers(config):
        if one.name == name:
            return one
    raise TapeError(f"{name} is no longer in {config.path}")


def _server(name: str, entry: Any, config: Config) -> ServerEntry:
    try:
        if isinstance(entry, Pairs) and any(map(entry.get, url_entry.URLS)):
            return _remote(name, entry, config.place.client.kind)
        parts = parts_of(entry, config.place.client.words)
    except TapeError as error:
        return ServerEntry(name, problem=str(error))
    tape = tape_in(parts) or url_entry.remote_tape_in(entry, PROGRAM)
    stranger = None if tape else stranger_in(parts)
    return ServerEntry(name, parts, tape, f"{stranger} is in front of it already" if stranger else None)


def _remote(name: str, entry: Pairs, kind: str) -> ServerEntry:
    url = next(value for value in map(entry.get, url_entry.URLS) if value)
    try:
        if kind == YAML:
            raise TapeError("it has a URL, in a YAML file; change it by hand to: mcp-tape record --url URL --stdio")
        return ServerEntry(name, remote=url_entry.remote_of(entry))
    except TapeError as error:
        return ServerEntry(name, problem=str(error), remote=Remote("", str(url)))


def wrap(config: Config, server: ServerEntry, program: str, words: Sequence[str]) -> str:
    """Return the text of a file with a tape in one of its servers. TapeError explains why that is impossible."""
    _expect_well(config, server)
    if server.tape:
        return config.text
    entry, language = config.value.at((*config.way, server.name)), config.language
    node = language.scan(config.text).at((*config.way, server.name))
    if server.remote:
        splices = url_entry.put_in(language, config.text, node, server.remote, program, words)
        made = url_entry.wrap_url(entry, server.remote, program, words)
    else:
        assert server.parts
        splices = put_in(language, config.text, node.at(server.parts.owner), server.parts, program, words)
        made = wrap_command(entry, server.parts, program, words)
    text = _check_edit(config, server, splice(config.text, splices), made)
    new = with_text(config, text)
    if unwrap(new, next(one for one in servers(new) if one.name == server.name)) != config.text:
        raise _unsafe(config, server)
    return text


def unwrap(config: Config, server: ServerEntry) -> str:
    """Return the text of a file without the tape in one of its servers."""
    _expect_well(config, server)
    if not server.tape:
        return config.text
    entry, language = config.value.at((*config.way, server.name)), config.language
    node = language.scan(config.text).at((*config.way, server.name))
    if isinstance(server.tape, RemoteTape):
        splices = url_entry.take_out(language, config.text, node, server.tape)
        made = url_entry.unwrap_url(entry, server.tape)
    else:
        assert server.parts
        splices = take_out(language, config.text, node.at(server.parts.owner), server.parts, server.tape)
        made = unwrap_command(entry, server.parts, server.tape)
    return _check_edit(config, server, splice(config.text, splices), made)


def _expect_well(config: Config, server: ServerEntry) -> None:
    if server.problem:
        raise TapeError(f"{server.name} in {config.path} was not changed: {server.problem}")


def _check_edit(config: Config, server: ServerEntry, text: str, entry: Pairs) -> str:
    """Return the new text if it differs in the one entry only; else raise TapeError."""
    expected = config.value.with_((*config.way, server.name), entry)
    try:
        is_right = repr(_parse(config.place.client.kind, text)) == repr(expected)
    except UnreadableError:
        is_right = False
    if not is_right:
        raise _unsafe(config, server)
    return text


def _unsafe(config: Config, server: ServerEntry) -> TapeError:
    return TapeError(
        f"{server.name} in {config.path} was not changed: it is written in a way that cannot be changed safely; "
        "change it by hand"
    )


def with_text(config: Config, text: str) -> Config:
    """Return the config that reading this text would give."""
    return config._replace(text=text, value=_parse(config.place.client.kind, text))


def write(config: Config, text: str) -> None:
    """Replace the file if it still has the bytes that were read; else raise TapeError and change nothing."""
    data = text.encode("utf-8")
    if data == config.data:
        return
    path = os.path.realpath(config.path)
    if not os.access(path, os.W_OK):  # replacing a read-only file would work, but it is protected on purpose
        raise TapeError(
            f"{path} was not changed: it is read-only; if that is not intended, try: chmod u+w {quote_path(path)}"
        )
    try:
        with _lock(path):
            _keep_backup(config)
            _put(path, data, config.data)
            if _content(path + BACKUP) == data:  # the original is restored
                os.unlink(path + BACKUP)
    except CassetteError as error:
        raise TapeError(str(error)) from None


def _keep_backup(config: Config) -> None:
    """Keep a copy of a file from before its first tape."""
    backup = os.path.realpath(config.path) + BACKUP
    if PROGRAM not in config.text or not os.path.exists(backup):
        with suppress(FileNotFoundError):
            os.unlink(backup)  # with its mode; if it is a link, without its target
        _put(backup, config.data)


@contextmanager
def _lock(path: str) -> Iterator[None]:
    """Make other writers of a file wait. TapeError if one of them is writing."""
    lock = path + _LOCK
    with suppress(OSError):
        if time() - os.stat(lock).st_mtime > _STALE:
            os.rmdir(lock)
    try:
        os.mkdir(lock)
    except FileExistsError:
        hint = "end that program, then try again"
        raise TapeError(f"{path} was not changed: {lock} shows that another process is writing it; {hint}") from None
    except OSError as error:
        raise TapeError(f"{path} was not changed: cannot write {lock}: {error.strerror}") from None
    try:
        yield
    finally:
        with suppress(OSError):
            os.rmdir(lock)


def _put(path: str, data: bytes, old: bytes | None = None) -> None:
    """Replace a file in one step; `old`: the bytes that must be there until then."""
    with beside(path) as part:
        with open(part.file, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(data)
        # A change by a writer without a lock between here and the renaming is lost. This check is as late as possible.
        if old is not None and _content(path) != old:
            raise TapeError(f"{path} was not changed: another process has changed it meanwhile; try again")
        part.put()


def _content(path: str) -> bytes | None:
    with suppress(OSError), open(path, "rb") as file:
        return file.read()
    return None


# -- the text of a server's entry, with a tape and without: a few words come or go, the rest stays
#
# Our words come right after the bracket of a list, so that everything after them is original. A space follows ours
# unless the line ends there; so removal can see whether the space was ours.


class Language(Protocol):
    """The operations that jsonc and toml have on their texts."""

    def scan(self, text: str) -> TextNode: ...
    def quote(self, text: str) -> str: ...
    def member_behind(self, text: str, member: Member, key: str, value: str) -> str: ...
    def without(self, text: str, owner: TextNode, member: Member) -> list[Splice]: ...


def put_in(
    language: Language, text: str, owner: TextNode, parts: Parts, program: str, words: Sequence[str]
) -> list[Splice]:
    """Return the splices that put a tape into an entry."""
    members = owner.members or {}
    command = members[parts.command_key].value
    ours = [language.quote(word) for word in (*words, END)]
    if command.items is not None:
        return [_insert_in_front(text, command, [language.quote(program), *ours])]
    ours.append(text[command.start : command.end])
    replaced = (command.start, command.end, language.quote(program))
    if parts.args is not None:
        return [replaced, _insert_in_front(text, members[parts.args_key].value, ours)]
    args = f"[{', '.join(ours)}]"
    more = language.member_behind(text, members[parts.command_key], parts.args_key, args)
    return [(command.start, command.end, replaced[2] + more)]


def _insert_in_front(text: str, array: TextNode, words: Sequence[str]) -> Splice:
    """Insert words before those of an array."""
    at = array.start + 1
    joined = ", ".join(words)
    if array.items:
        joined += "," if text[at] in "\r\n\t" else ", "
    return at, at, joined


def take_out(language: Language, text: str, owner: TextNode, parts: Parts, tape: EntryTape) -> list[Splice]:
    """Return the splices that take a tape out of an entry."""
    members = owner.members or {}
    command = members[parts.command_key].value
    if command.items is not None:
        return _remove_first(text, command, tape.words + 1)
    args = members[parts.args_key].value
    items = args.items or []
    original = items[tape.words]
    back = (command.start, command.end, text[original.start : original.end])
    if len(items) > tape.words + 1 or not tape.is_list_ours:
        return [back, *_remove_first(text, args, tape.words + 1)]
    start = members[parts.args_key].start
    if command.end <= start and not text[command.end : start].replace(",", "", 1).strip():
        return [(command.start, args.end, back[2])]  # where we inserted it
    return [back, *language.without(text, owner, members[parts.args_key])]


def _remove_first(text: str, array: TextNode, number: int) -> list[Splice]:
    """Remove the first items of an array, with their commas; comments between them stay."""
    items = array.items or []
    commas = array.commas[:number]
    start, end = array.start + 1, items[number - 1].end
    if len(commas) == number:  # a comma follows the last of them
        end = commas[-1] + 1
        if len(items) > number and text[end] == " ":
            end += 1
    tokens = sorted([*((item.start, item.end) for item in items[:number]), *((comma, comma + 1) for comma in commas)])
    gaps = [text[a:b] for (_, a), (b, _) in zip([(0, start), *tokens], [*tokens, (end, 0)], strict=True)]
    if all(not gap.strip() for gap in gaps):
        return [(start, end, "")]
    return [(a, b, "") for a, b in tokens]
