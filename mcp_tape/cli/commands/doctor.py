"""mcp-tape doctor"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import click

from ...api import check_writable
from ...cassette.query import integrity
from ...cassette.query.inventory import describe_open, is_open
from ...cassette.reader import Cassette
from ...clients.config_file import ServerEntry
from ...clients.discovery import ClientFile, find, is_shared
from ...clients.entry import PROGRAM, EntryTape
from ...clients.positions import Pairs
from ...clients.table import BY_NAME, path_of
from ...clients.url_entry import Remote, RemoteTape
from ...console import say
from ...console.terminal import echo, echo_json, writable_text
from ...contracts.reasons import reasons
from ...errors import CassetteError, count, replace_control_characters
from ...redaction.diagnostics import hide_secrets
from ...start.cassette_names import data_cassettes
from ...system import processes
from ...testing.entries import expand_variables
from ...transports.process import Around
from ...verify.probe import Probe, probe, probe_url
from ...wire.channels import SSE
from ..click_options import SECONDS, changed_place, json_option

_SLOW = 5.0  # seconds; clients begin to give up at ten
# By whether this is macOS: the command that prints the PATH of the desktop, and the default PATH.


class Diagnosis(NamedTuple):
    """The result of one check, with advice if it failed."""

    what: str
    ok: bool
    found: str
    advice: str = ""


@click.command(
    "doctor",
    epilog="\b\nExamples:\n"
    "  mcp-tape doctor\n"
    "  mcp-tape doctor cursor\n"
    "  mcp-tape doctor cassettes/time.db\n"
    "  mcp-tape doctor cursor --timeout 30 --json",
)
@click.argument("about", metavar="[CLIENT|CASSETTE]", required=False, callback=changed_place)
@click.option("--timeout", type=SECONDS, default=15.0, show_default=True,
              metavar="SECONDS", help="The time limit for a server to start and answer.")  # fmt: skip
@json_option
def command(about: str | None, timeout: float, as_json: bool) -> None:
    """Find out why a client or a recording does not work, and what to do about it.

    Without a name, checks that recordings can be written, that each client's file can be read, and that its commands
    exist. With the name of a client, also starts each of its servers, or connects to its URL, and checks that it
    answers, how soon, and that it writes nothing else to stdout. With a cassette, checks that it can be read and
    written, that its file system can hold it, and runs mcp-tape why. The exit code is 1 if something is wrong.
    """
    if about in BY_NAME:
        seen = _check_clients(about, timeout)
    elif about is not None:
        if not os.path.exists(about):
            raise click.UsageError(f"{about} is neither a client (mcp-tape wrap --list shows them) nor a cassette")
        seen = _check_cassette(about)
    else:
        seen = _check_all()
    wrong = 0
    for one in seen:
        wrong += not one.ok
        _print(one, as_json)
    if not as_json:
        say(f"{count(wrong, 'problem')} found" if wrong else "all is well")
    raise SystemExit(1 if wrong else 0)


def _print(one: Diagnosis, as_json: bool) -> None:
    if as_json:
        echo_json(one._asdict() | {"found": hide_secrets(one.found)})
        return
    line = f"{'ok ' if one.ok else 'BAD'} {one.what}: {one.found}"
    echo(writable_text(replace_control_characters(hide_secrets(line))), fg=None if one.ok else "red")
    if one.advice:
        echo(writable_text(replace_control_characters(f"    {one.advice}")))


def _check_all() -> Iterator[Diagnosis]:
    yield _check_place(data_cassettes())
    yield _check_program()
    yield from _check_clients(None, None)


def _check_place(directory: str) -> Diagnosis:
    """Check that SQLite can write there."""
    there = directory
    while not os.path.exists(there):
        there = os.path.dirname(there)
    what = f"recordings in {directory}"
    if not os.access(there, os.W_OK):
        return Diagnosis(what, False, f"{there} may not be written", "record elsewhere: mcp-tape wrap -o FILE")
    if not integrity.can_hold_wal(there):
        return Diagnosis(
            what, False, "its file system cannot hold a write-ahead log", "record onto a local disk with -o FILE"
        )
    return Diagnosis(what, True, "can be written")


def _check_program() -> Diagnosis:
    found = shutil.which(PROGRAM)
    if found is None:
        advice = "install it with pipx or uv tool; files of projects name it without a directory"
        return Diagnosis(PROGRAM, False, "is not on the PATH", advice)
    return Diagnosis(PROGRAM, True, f"is {found}")


def _check_clients(name: str | None, timeout: float | None) -> Iterator[Diagnosis]:
    there = list(find(os.getcwd(), os.environ, name))
    if name and not there:
        paths = ", ".join(path_of(pattern, os.environ) for pattern in BY_NAME[name].user)
        yield Diagnosis(name, False, "has no file here", f"it would be at {paths}; see mcp-tape wrap --list")
    for found in there:
        what = f"{found.place.client.name} ({found.place.path})"
        yield Diagnosis(what, not found.problem, found.problem or f"has {count(len(found.servers()), 'server')}")
        for server in found.servers():
            if server.remote is not None:
                yield from _check_url(found, server, server.remote, timeout)
            elif server.parts is not None:
                yield from _check_server(found, server, timeout)


def _check_server(found: ClientFile, server: ServerEntry, timeout: float | None) -> Iterator[Diagnosis]:
    assert server.parts and found.config
    what = f"{found.place.client.name}: {server.name}"
    words = server.parts.words
    entry = found.config.value.at((*found.config.way, server.name))
    env = _env(entry)
    if env is not None and found.place.client.desktop and "PATH" not in dict(env):
        env = (*env, ("PATH", _desktop_path()))
    path = dict(env or ()).get("PATH")
    missing = _find_missing_program(found, words[0], path)
    if missing is None and isinstance(server.tape, RemoteTape):
        yield from _check_url(found, server, server.tape.was, timeout)
        return
    if missing is None and isinstance(server.tape, EntryTape):
        words = words[server.tape.words + 1 :]
        missing = _find_missing_program(found, words[0], path)
    if missing:
        yield missing._replace(what=what)
        return
    if timeout is None:
        yield Diagnosis(what, True, f"{'is wrapped, and ' * server.is_wrapped}starts {words[0]}, which is there")
        return
    if env is None or any("${" in word for word in words):
        yield Diagnosis(what, True, "was not started: only the client knows all of its variables")
        return
    yield from _check_command(what, words, timeout, Around(env, None, ()))


def _check_url(found: ClientFile, server: ServerEntry, remote: Remote, timeout: float | None) -> Iterator[Diagnosis]:
    """Check that the server at a URL answers. `remote` is the entry, without the wrapping."""
    assert found.config
    what = f"{found.place.client.name}: {server.name}"
    if timeout is None or server.problem:
        said = server.problem or f"{'is wrapped, and ' * server.is_wrapped}speaks to {remote.url}"
        yield Diagnosis(what, True, said)
        return
    entry = found.config.value.at((*found.config.way, server.name))
    values = dict(entry.get(remote.env_key if server.is_wrapped else remote.headers_key) or ())
    names = remote.variables if server.is_wrapped else {name: name for name in remote.names}
    url, headers = (
        expand_variables(remote.url, os.environ),
        [(h, expand_variables(values.get(key), os.environ)) for h, key in names.items()],
    )
    if not isinstance(url, str) or any(not isinstance(value, str) for _, value in headers):
        yield Diagnosis(what, True, "was not asked: only the client knows all of its variables")
        return
    done = probe_url(url, headers, timeout, sse=remote.type == SSE)
    yield from _judge_answer(
        what, done, "is the URL right, and what its headers say? Try it with: mcp-tape record --url URL"
    )


def _check_command(what: str, words: list[str], timeout: float, around: Around) -> Iterator[Diagnosis]:
    done = probe(words, timeout, around)
    yield from _judge_answer(what, done, "run its command in a terminal: it should wait for input")


def _judge_answer(what: str, done: Probe, advice: str) -> Iterator[Diagnosis]:
    said = f"; its stderr ends with: {done.stderr[-1]}" if done.stderr else ""
    if done.why:
        yield Diagnosis(what, False, f"{done.why}{said}", advice)
    elif done.seconds > _SLOW:
        advice = "install it instead of downloading it at each start (npx, uvx), or give the client a longer timeout"
        yield Diagnosis(what, False, f"answers after {done.seconds:.1f} s", advice)
    else:
        yield Diagnosis(what, True, f"{done.server or 'it'} answers after {done.seconds:.1f} s, in {done.version}")
    if done.noise:
        advice = "stdout is for messages alone: let it log to stderr"
        yield Diagnosis(what, False, f"writes something else on stdout: {done.noise[0]!r}", advice)


@cache
def _desktop_path() -> str:
    """Return the PATH of programs started from the desktop, without a shell."""
    return processes.desktop_path()


def _find_missing_program(found: ClientFile, program: str, path: str | None) -> Diagnosis | None:
    """Return why a client cannot start a program; None if it can. `path`: the client's PATH, if it differs."""
    if "${" in program:
        return None
    if os.path.dirname(program):
        path = os.path.expanduser(program)
        is_there = os.access(path, os.X_OK) or not os.path.isabs(path)
        return (
            None
            if is_there
            else Diagnosis(
                "",
                False,
                f"{program} is not there",
                "install it, or: mcp-tape wrap --undo, then wrap",
            )
        )
    here = shutil.which(program)
    if here and shutil.which(program, path=path) is None:
        is_desktop = found.place.client.desktop and path == _desktop_path()
        whose = f"the PATH of {found.place.client.title}" if is_desktop else "the PATH of its entry"
        advice = f"give the full path, {here}, or set PATH in the entry's env"
        return Diagnosis("", False, f"{program} is on your shell's PATH, but not on {whose} ({path})", advice)
    if here is None and shutil.which(program, path=path) is None:
        advice = "install it, or give its full path: a desktop client does not have your shell's PATH"
        return Diagnosis("", False, f"{program} is not on the PATH", advice)
    if program == PROGRAM and not is_shared(found.place):
        return Diagnosis("", False, "mcp-tape has no directory there, and desktop clients have another PATH",
                    "mcp-tape wrap --undo, then wrap, puts the full path in")  # fmt: skip
    return None


def _env(entry: Pairs) -> tuple[tuple[str, str], ...] | None:
    """Return the variables of an entry; None if only the client knows one of them."""
    given = entry.get("env") or entry.get("environment") or ()
    pairs = [(key, expand_variables(value, os.environ)) for key, value in given]
    return None if any(not isinstance(value, str) for _, value in pairs) else tuple(pairs)


def _check_cassette(path: str) -> Iterator[Diagnosis]:
    yield _check_place(os.path.dirname(os.path.abspath(path)))
    try:
        check_writable(os.path.abspath(path))
        with Cassette(path) as cassette:
            every = cassette.sessions()
            sessions = [session.id for session in every]
            still_open = [session.id for session in every if is_open(session)]
            more = f"; {describe_open(still_open)}" if still_open else ""
            yield Diagnosis(path, True, f"has {count(len(sessions), 'session')}{more}")
            found = list(reasons(cassette, sessions))
    except CassetteError as error:
        yield Diagnosis(
            path,
            False,
            str(error).removeprefix("cannot read ").removeprefix(path).lstrip(": "),
            "mcp-tape check says more",
        )
        return
    if found:
        yield Diagnosis(path, False, f"{found[0].what}, and {len(found) - 1} more" if found[1:] else found[0].what,
                   "mcp-tape why has each, with the evidence")  # fmt: skip
