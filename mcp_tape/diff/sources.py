"""The versions that a command line names: `tape.db`, `tape.db#3`, `git:v1.2:tapes/tape.db`, a command, a URL.

`tape.db#git` is the server of that name, where a cassette has several. A URL is that of a cassette if it begins with
s3://, gs:// or az://, or ends as one does.

A live server is only asked what it offers, in either era, and is not recorded.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import zip_longest
from typing import Any, NamedTuple

from .. import __version__
from ..cassette import revisions
from ..cassette.reader import Cassette
from ..cassette.schema import GIT, is_remote
from ..cassette.text.non_sqlite import fetch_copy
from ..compare import lock
from ..compare.surface import Surface, SurfaceAnswer
from ..compare.versions import Version, listed_version, recorded_version
from ..errors import ServerError
from ..redaction.diagnostics import DiagnosticRedactor, Rules
from ..transports.stdio import connect
from ..wire import jsontext, protocol
from ..wire.match import fits_redacted

_LOCK = ".lock"
_PAGES = 1_000  # of one list; a server that gives more goes round in circles
_CLIENT = {"name": "mcp-tape", "version": __version__}


class RecordingReference(NamedTuple):
    """The place of a recorded version: a file, and a session or a server of it."""

    path: str
    session: str = "latest"
    label: str | None = None


def is_live(reference: str) -> bool:
    """Return whether a reference is the URL of a live server."""
    path = reference.partition("#")[0].partition("?")[0]
    return reference.startswith(("http://", "https://")) and not path.endswith((".db", ".jsonl", _LOCK))


def parse(reference: str) -> RecordingReference:
    """Parse a reference. A file that exists is itself, even with a # in its name."""
    if reference.startswith(GIT):
        revision, path = revisions.split(reference)
        place = _parse_fragment(path)
        return place._replace(path=f"{GIT}{revision}:{place.path}")
    return RecordingReference(reference) if os.path.exists(reference) else _parse_fragment(reference)


def _parse_fragment(text: str) -> RecordingReference:
    path, mark, which = text.rpartition("#")
    if mark and (which.isdigit() or which in ("latest", "all")):
        return RecordingReference(path, which)
    return (
        RecordingReference(path, label=which)
        if which and path.endswith((".db", ".jsonl"))
        else RecordingReference(text)
    )


@contextmanager
def open_version(reference: str, ignore_paths: Sequence[str] = ()) -> Iterator[Version]:
    place = parse(reference)
    with ExitStack() as stack:
        path = place.path
        if is_remote(path) and path.partition("?")[0].endswith(_LOCK):
            _, path = stack.enter_context(fetch_copy(path))
        if (data := _lock_at(path)) is not None:
            yield lock.load(data, path)
            return
        cassette = stack.enter_context(Cassette(path, place.label))
        version = recorded_version(cassette, place.session, ignore_paths)
        yield version._replace(title=reference) if version.title == path else version


def _lock_at(path: str) -> bytes | None:
    """Read a lock; None for a file that is none, or that cannot be read."""
    try:
        with open(path, "rb") as file:
            head = file.read(lock.HEAD)
            return head + file.read() if lock.is_lock(head) else None
    except OSError:
        return None  # the cassette reports why


# -- a live server


class Survey:
    """A client that only asks what a server offers. Answers are redacted, as a recording of them would be."""

    def __init__(self, connection: connect.Connection, timeout: float, discreet: DiagnosticRedactor) -> None:
        self._connection = connection
        self._timeout = timeout
        self._discreet = discreet
        self._asked = 0
        self._meta: dict[str, Any] = {}
        self._capabilities: dict[str, Any] = {}

    def answers(self, old: Version) -> Iterator[SurfaceAnswer]:
        """Ask for all that the server declares, in the era of an old version first."""
        greeting = self._greet(old)
        yield greeting
        capabilities = protocol.member(greeting.body.get("result"), "capabilities") or {}
        for kind in protocol.KINDS:
            if protocol.declares(capabilities, kind):
                yield from self._pages(kind)

    def _greet(self, old: Version) -> SurfaceAnswer:
        # A server may offer other things to other clients, so this one declares what the recorded one did.
        self._capabilities = capabilities = dict(old.surface.client or {})
        modern = [version for version in old.surface.versions if protocol.is_modern({}, version)]
        if old.surface.offered is None and modern:
            self._meta = protocol.client_meta(modern[0], _CLIENT, capabilities)
            answer = self._ask(protocol.DISCOVER, {})
            if "result" in answer.body:
                return answer
            self._meta = {}
        version = old.surface.offered or protocol.LAST_LEGACY_VERSION
        params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": _CLIENT}
        answer = self._ask(protocol.INITIALIZE, params)
        if "result" not in answer.body:
            raise ServerError(f"the server refused the handshake: {jsontext.compact_text(answer.body.get('error'))}")
        connect.notify(self._connection, protocol.INITIALIZED)
        return answer

    def _pages(self, kind: protocol.Kind) -> Iterator[SurfaceAnswer]:
        cursor = None
        for _ in range(_PAGES):
            answer = self._ask(kind.method, {} if cursor is None else {"cursor": cursor})
            yield answer
            cursor = protocol.member(answer.body.get("result"), "nextCursor")
            if cursor in (None, ""):
                return

    def _ask(self, method: str, params: dict[str, Any]) -> SurfaceAnswer:
        self._asked += 1
        whole = params | self._meta
        body = connect.ask(self._connection, method, whole, self._asked, self._timeout, self._capabilities)
        hidden = self._discreet.document(body)
        if not isinstance(hidden, dict):
            raise ServerError(f"the answer to {method} cannot be compared: its secrets could not be hidden")
        return SurfaceAnswer((0, self._asked), method, whole, hidden)


def survey(
    connection: connect.Connection, old: Version, title: str, timeout: float, discreet: DiagnosticRedactor
) -> Version:
    """Return the version of the server at a connection, with its secrets hidden."""
    live = listed_version(list(Survey(connection, timeout, discreet).answers(old)), title)
    return live._replace(surface=_hide_as(old.surface, live.surface))


def _hide_as(old: Surface, live: Surface) -> Surface:
    """Put the placeholders of the recorded surface where the live one has values that these may stand for.

    The recorder knew more secrets: other variables, rules of its user, what was said before.
    """
    instructions = _put_placeholders(old.instructions, live.instructions)
    capabilities = _put_placeholders(old.capabilities, live.capabilities)
    items = {method: _put_placeholders(old.lists[method].items, found.items) for method, found in live.lists.items()}
    lists = {method: found._replace(items=items[method]) for method, found in live.lists.items()}
    info, meta = (
        _put_placeholders(dict(then), dict(now)) for then, now in ((old.info, live.info), (old.meta, live.meta))
    )
    return live._replace(instructions=instructions, capabilities=capabilities, lists=lists, info=info, meta=meta)


def _put_placeholders(old: Any, live: Any) -> Any:
    if isinstance(old, dict) and isinstance(live, dict):
        return {key: _put_placeholders(old.get(key), value) for key, value in live.items()}
    if isinstance(old, list) and isinstance(live, list):
        return [_put_placeholders(*pair) for pair in zip_longest(old[: len(live)], live)]
    return old if isinstance(old, str) and fits_redacted(old, live) else live


class LiveTarget(NamedTuple):
    """A live server to ask: a command to start, or a URL."""

    command: tuple[str, ...] = ()
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    cacert: str | None = None
    timeout: float = 30.0


@contextmanager
def open_both(
    old: str, new: str | LiveTarget, rules: Rules, ignore_paths: Sequence[str] = ()
) -> Iterator[tuple[Version, Version]]:
    """Two versions to compare, as long as they can be read. Only the new one can be live."""
    with ExitStack() as stack:
        before = stack.enter_context(open_version(old, ignore_paths))
        if isinstance(new, LiveTarget):
            web = {"url": new.url, "headers": new.headers, "cacert": new.cacert}
            yield before, survey_server(before, new.timeout, command=new.command, **web, rules=rules)  # type: ignore[arg-type]
        else:
            yield before, stack.enter_context(open_version(new, ignore_paths))


def survey_server(
    old: Version,
    timeout: float,
    *,
    command: Sequence[str] = (),
    url: str = "",
    headers: Sequence[tuple[str, str]] = (),
    cacert: str | None = None,
    rules: Rules | None = None,
) -> Version:
    """Start a server, or connect to one at a URL, and return its version."""
    rules = (rules or Rules(environ=os.environ))._replace(headers=tuple(headers))
    discreet = DiagnosticRedactor(rules)
    try:
        if not url:
            with connect.StdioConnection(command, rules=rules) as connection:
                return survey(connection, old, discreet.command(command), timeout, discreet)
        from ..transports.http.connect import HttpConnection

        with HttpConnection(url, headers, cacert) as connection:
            return survey(connection, old, discreet.text(url), timeout, discreet)
    except ServerError as error:
        raise ServerError(discreet.text(str(error))) from None
