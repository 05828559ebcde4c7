"""Makes locks of live servers and of recordings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from ..cassette.lookup.playable_sessions import labels
from ..cassette.reader import Cassette
from ..compare import lock
from ..compare.versions import Version, recorded_version
from ..errors import CassetteError
from ..redaction.diagnostics import Rules
from ..wire import protocol
from .sources import parse, read_lock
from .surveys import LiveTarget, survey

_NAMELESS = "server"


class NewLock(NamedTuple):
    """The text of a lock, how much is in it, and remarks about servers."""

    text: str
    counts: Mapping[str, int]
    notes: tuple[str, ...] = ()


def lock_of(servers: Mapping[str, LiveTarget | str], rules: Rules, keep: Mapping[str, Version] = {}) -> NewLock:
    """Ask servers, or read recordings, by name; an empty name means the name that the server gives itself.

    `keep`: other servers of the lock.
    """
    rules = rules._replace(environ=os.environ)
    found, notes = dict(keep), list[str]()
    for name, source in servers.items():
        version, note = (_read_recording(source), "") if isinstance(source, str) else survey(source, rules)
        name = name or version.surface.name or _NAMELESS
        found[name] = version
        if note:
            notes.append(f"{name}: {note}")
    lists = [version.surface.lists for version in found.values()]
    counts = {kind.what: sum(len(one[kind.method].items) for one in lists) for kind in protocol.KINDS}
    return NewLock(lock.dump(found), {"servers": len(found), **counts}, tuple(notes))


def _read_recording(reference: str) -> Version:
    place = parse(reference)
    with Cassette(place.path, place.label) as cassette:
        return recorded_version(cassette, place.session)._replace(recording=None)


def references_in(cassette: str, only: str | None) -> dict[str, LiveTarget | str]:
    """The servers on a cassette, by name, each as a reference; one without a name has an empty one."""
    place = parse(cassette)
    with Cassette(place.path, place.label) as opened:
        found = [place.label] if place.label else labels(opened)
    if place.path != cassette or found == [None]:
        return {place.label or "": cassette}
    if only is not None and only not in found:
        raise CassetteError(f"{cassette} has no server {only}; it has: {', '.join(filter(None, found))}")
    return {name: f"{cassette}#{name}" for name in found if name and only in (None, name)}


def servers_of(path: str) -> dict[str, Version]:
    """The servers in a lock."""
    found = open_lock(path)
    return {name: found.version(name) for name in found.names}


def open_lock(path: str) -> lock.Lock:
    """Read a lock. Raises CassetteError if the file is not a lock."""
    found = read_lock(path)
    if found is None:
        what = "is not a lock" if os.path.exists(path) else "does not exist"
        raise CassetteError(f"{path} {what}; make one with: mcp-tape lock -o {path} -- SERVER")
    return found
