"""The entry of a server with a URL: turned into a command that connects to the URL, and back.

    {"type": "http", "url": U, "headers": {"X-K": "V"}}
    {"type": "stdio", "command": "mcp-tape", "args": ["record", …, "--was", "url,headers,http", "--url", U, "--stdio",
     "--header-env", "X-K=X_K"], "env": {"X_K": "V"}}

    {"type": "remote", "url": U, "headers": {…}}, where a command is a list with its arguments:
    {"type": "local", "command": ["mcp-tape", "record", …], "environment": {…}}

Headers become variables: their keys change and their values stay in place, so that none is on a command line. A shell
drops variables with invalid names, so - becomes _. `--was` keeps the original keys and type.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..errors import TapeError
from ..redaction.diagnostics import hide_secrets
from ..wire.channels import STDIO
from ..wire.jsontext import Splice
from .positions import Member, Pairs, TextNode

URLS = ("url", "httpUrl", "serverUrl", "uri")
_HEADERS = ("headers", "http_headers")
_TYPE = "type"
_LISTED, _LOCAL = "remote", "local"  # types of clients whose command is a list with its arguments
_NAME = "[A-Za-z_][A-Za-z0-9_-]*"  # of headers that can be variables
_SIGN_IN = ("auth", "oauth", "bearer_token_env_var", "env_http_headers", "headersHelper", "authProviderType")
_WAS, _URL, _HEADER = "--was", "--url", "--header-env"


class Remote(NamedTuple):
    """The server of an entry with a URL, and the entry's keys."""

    url_key: str
    url: str
    headers_key: str = ""
    names: tuple[str, ...] = ()  # of headers
    type: str = ""

    @property
    def words(self) -> list[str]:
        """Our words except those that name the cassette."""
        variables = (name if name == variable else f"{name}={variable}" for name, variable in self.variables.items())
        headers = [word for variable in variables for word in (_HEADER, variable)]
        return [_WAS, f"{self.url_key},{self.headers_key},{self.type}", _URL, self.url, "--stdio", *headers]

    @property
    def is_listed(self) -> bool:
        return self.type == _LISTED

    @property
    def env_key(self) -> str:
        return "environment" if self.is_listed else "env"

    @property
    def local_type(self) -> str:
        """The type of the entry as a command."""
        return _LOCAL if self.is_listed else STDIO

    @property
    def variables(self) -> dict[str, str]:
        """By header, the variable with its value."""
        return {name: re.sub(r"\W", "_", name, flags=re.ASCII) for name in self.names}


class RemoteTape(NamedTuple):
    """A tape in such an entry: the position of its URL in the arguments, and the original entry."""

    at: int
    was: Remote


def remote_of(entry: Pairs) -> Remote:
    """Return the server of an entry without a command; TapeError if it cannot be wrapped."""
    keys = [key for key, _ in entry]
    urls = [key for key in URLS if key in keys]
    url, kind = entry.get(urls[0]) if urls else None, entry.get(_TYPE)
    headers_key = next((key for key in _HEADERS if key in keys), "")
    headers = entry.get(headers_key) if headers_key else Pairs()
    if len(urls) != 1 or not isinstance(url, str) or len(set(keys)) < len(keys):
        raise TapeError("its entry has no command, and not exactly one URL")
    if any(key in keys for key in _SIGN_IN):
        raise TapeError("its client signs in to the server, which mcp-tape cannot do for it")
    if not isinstance(kind, str | None) or (kind is not None and "," in kind):
        raise TapeError("it has a URL and no command, in a form that cannot be changed safely")
    if not isinstance(headers, Pairs) or not all(isinstance(value, str) for _, value in headers):
        raise TapeError("its headers are not made of texts")
    if hide_secrets(url) != url:
        raise TapeError("its URL holds a secret, which would have to move to a command line; put it into a header")
    found = Remote(urls[0], url, headers_key, tuple(name for name, _ in headers), kind or "")
    if (headers_key and found.env_key in keys) or "args" in keys or "command" in keys:
        raise TapeError("its entry has a URL, and parts of a command")
    if len(set(found.variables.values())) < len(headers) or not all(re.fullmatch(_NAME, name) for name in found.names):
        raise TapeError("its headers have names that no variables can have")
    return found


def remote_tape_in(entry: Pairs, program: str) -> RemoteTape | None:
    """Return the tape in an entry that had a URL."""
    command, args = entry.get("command"), entry.get("args")
    if type(command) is list and command:
        command, args = command[0], command  # includes the program, so that indexes count from there
    if not isinstance(command, str) or os.path.basename(command) != program or type(args) is not list:
        return None
    try:
        url_key, headers_key, kind = args[args.index(_WAS) + 1].split(",")
        at = args.index(_URL) + 1
        names = (args[index + 1].partition("=")[0] for index, word in enumerate(args) if word == _HEADER)
        return RemoteTape(at, Remote(url_key, args[at], headers_key, tuple(names), kind))
    except (ValueError, IndexError, AttributeError):
        return None


def wrap_url(entry: Pairs, remote: Remote, program: str, words: Sequence[str]) -> Pairs:
    made = Pairs()
    for key, value in entry:
        if key == remote.url_key and remote.is_listed:
            made.append(("command", [program, *words, *remote.words]))
        elif key == remote.url_key:
            made += [("command", program), ("args", [*words, *remote.words])]
        elif key == remote.headers_key:
            made.append((remote.env_key, _keys(value, remote.variables)))
        else:
            made.append(_set_type(key, value, remote.local_type))
    return made


def unwrap_url(entry: Pairs, tape: RemoteTape) -> Pairs:
    made = Pairs()
    for key, value in entry:
        if key == "command":
            made.append((tape.was.url_key, tape.was.url))
        elif key != "args":
            is_headers = key == tape.was.env_key and tape.was.headers_key
            headers = (tape.was.headers_key, _keys(value, _invert(tape.was.variables))) if is_headers else None
            made.append(headers or _set_type(key, value, tape.was.type))
    return made


def _set_type(key: str, value: Any, kind: str) -> tuple[str, Any]:
    return key, kind if key == _TYPE else value


def _keys(value: Any, new: dict[str, str]) -> Any:
    return Pairs([(new.get(key, key), inner) for key, inner in value]) if isinstance(value, Pairs) else value


def _invert(names: dict[str, str]) -> dict[str, str]:
    return {variable: name for name, variable in names.items()}


def put_in(
    language: Any, text: str, owner: TextNode, remote: Remote, program: str, words: Sequence[str]
) -> list[Splice]:
    """Return the splices that turn an entry with a URL into a command."""
    members = owner.members or {}
    url = members[remote.url_key]
    literal = text[url.value.start : url.value.end]
    ours = [literal if word is remote.url else language.quote(word) for word in (*words, *remote.words)]
    command = language.quote(program)
    if remote.is_listed:
        command = f"[{', '.join([command, *ours])}]"
    else:
        command += language.member_behind(text, url, "args", f"[{', '.join(ours)}]")
    keys = remote.headers_key, remote.env_key
    return [
        _key(language, text, url, "command"),
        (url.value.start, url.value.end, command),
        *_others(language, text, members, keys, remote.variables, remote.local_type),
    ]


def take_out(language: Any, text: str, owner: TextNode, tape: RemoteTape) -> list[Splice]:
    """Return the splices that restore an entry with a URL."""
    members = owner.members or {}
    command = members["command"]
    args = command if tape.was.is_listed else members["args"]
    url = (args.value.items or [])[tape.at]
    literal = text[url.start : url.end]
    keys = (tape.was.env_key, tape.was.headers_key) if tape.was.headers_key else ("", "")
    splices = [
        _key(language, text, command, tape.was.url_key),
        *_others(language, text, members, keys, _invert(tape.was.variables), tape.was.type),
    ]
    if args is command:
        return [*splices, (command.value.start, command.value.end, literal)]
    if command.value.end <= args.start and not text[command.value.end : args.start].replace(",", "", 1).strip():
        return [*splices, (command.value.start, args.value.end, literal)]  # where we inserted it
    return [*splices, (command.value.start, command.value.end, literal), *language.without(text, owner, args)]


def _others(
    language: Any, text: str, members: dict[str, Member], keys: tuple[str, str], names: dict[str, str], kind: str
) -> list[Splice]:
    """Rename the key of the headers and each header, and replace the type."""
    found, (old, new) = list[Splice](), keys
    if old in members:
        found.append(_key(language, text, members[old], new))
        inner = members[old].value.members or {}
        found += [_key(language, text, inner[name], names[name]) for name in inner if names.get(name, name) != name]
    if _TYPE in members:
        found.append((members[_TYPE].value.start, members[_TYPE].value.end, language.quote(kind)))
    return found


def _key(language: Any, text: str, member: Member, new: str) -> Splice:
    """Rename a key, in the quotes of the old one."""
    start = member.start + len(member.prefix)
    is_quoted = text[start] in "\"'"
    return start, member.key_end, language.quote(new) if is_quoted else new
