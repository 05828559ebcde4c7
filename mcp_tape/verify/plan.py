"""Plans: the sessions to play, and the checks before anything starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from ..cassette.lookup.messages import Messages, RecordedMessage
from ..cassette.query import recorded_requests
from ..cassette.reader import Cassette
from ..compare.minted.uses import Key
from ..errors import TapeError
from ..redaction import restore
from ..redaction.redactor import FAILED
from ..replay.selection import select
from ..wire import protocol
from ..wire.secret_names import placeholder

Writes = Literal["refuse", "allow", "skip"]


class NotReadyError(TapeError):
    """The recorded client lacks something that it needs; nothing was started."""

    exit_code = 2


class VerifyTarget(NamedTuple):
    """The server to verify: a command to start, or a URL."""

    command: tuple[str, ...] = ()
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    cacert: str | None = None


class VerifyOptions(NamedTuple):
    """Options of a run. `timeout` is for each answer, `starting` for the first, which may take longer.

    `recording`: options for the recorder, as on the command line.
    """

    session: str = "latest"
    writes: Writes = "refuse"
    timeout: float = 30.0
    recording: tuple[str, ...] = ()
    starting: float = 30.0
    label: str | None = None  # of the server, if a cassette has several


class LiveAnswers(NamedTuple):
    """Live answers in the played sessions of a cassette, for sessions that extend them."""

    live: dict[Key, Any]  # by recorded answer, the live one, if a value is taken from it
    lost: set[Key]  # recorded answers to skipped requests


class PlayPlan(NamedTuple):
    """One session to play."""

    path: str
    session: int
    transport: str
    read_only: frozenset[str]  # tools, by their hints on the tape
    writes: tuple[str, ...]  # tools that it calls and that are not read-only
    needs: Mapping[str, frozenset[str]]  # by placeholder, the requests that need it
    heard: LiveAnswers  # shared by the sessions of a cassette


def plan_sessions(path: str, options: VerifyOptions) -> list[PlayPlan]:
    with Cassette(path, options.label) as cassette:
        chosen = select(cassette, options.session).sessions
        sessions = sorted(chosen) if options.session == "all" else chosen
        heard = LiveAnswers({}, set())
        return [_plan(cassette, session, options, heard) for session in sessions]


def check(found: Iterable[PlayPlan], options: VerifyOptions, environ: Mapping[str, str]) -> None:
    """Raise NotReadyError with everything that is missing."""
    found = list(found)
    problems = [*_unwanted_writes(found, options), *_missing_secrets(found, environ)]
    if problems:
        raise NotReadyError("\n".join(problems))


def _read_only_tools(cassette: Cassette, session: int) -> frozenset[str]:
    """The tools that are read-only in every list of a session and of the one that it extends."""
    messages = Messages(cassette)
    said: dict[str, bool] = {}
    for number in filter(None, (session, cassette.session(session).extends)):
        for row in messages.of_client(number):
            answer = messages.answer(row) if row.method == protocol.TOOLS and row.kind == "request" else None
            for name, read_only in hints(messages.message(answer).body).items() if answer else ():
                said[name] = read_only and said.get(name, True)
    return frozenset(name for name, read_only in said.items() if read_only)


def hints(body: Any) -> dict[str, bool]:
    """Return, by tool, whether a result of `tools/list` marks it as read-only.

    https://modelcontextprotocol.io/specification/2025-11-25/schema#toolannotations
    """
    tools = protocol.member(protocol.member(body, "result"), "tools")
    return {
        name: protocol.member(protocol.member(tool, "annotations"), "readOnlyHint") is True
        for tool in (tools if isinstance(tools, list) else ())
        if isinstance(name := protocol.member(tool, "name"), str)
    }


def title_of(row: RecordedMessage) -> str:
    return protocol.call_title(row.method or "", row.name)


def _plan(cassette: Cassette, session: int, options: VerifyOptions, heard: LiveAnswers) -> PlayPlan:
    if any(text.rstrip() == FAILED for _, text in recorded_requests.client_noise(cassette, session)):
        why = "a message of its client could not be kept"
        raise TapeError(f"session {session} of {cassette.path} cannot be played: {why}")
    messages = Messages(cassette)
    mine, read_only = messages.of_client(session), _read_only_tools(cassette, session)
    writes = {row.name or "" for row in mine if row.method == protocol.CALL and row.name not in read_only}
    needs: dict[str, set[str]] = {}
    for row, source in _placeholders_in(cassette, session, mine):
        if options.writes != "skip" or row.method != protocol.CALL or row.name in read_only:
            needs.setdefault(source, set()).add(title_of(row) if row.method else "an answer of the client")
    transport = messages.controls.transport(session)
    needed = {source: frozenset(where) for source, where in needs.items()}
    return PlayPlan(cassette.path, session, transport, read_only, tuple(sorted(writes)), needed, heard)


def _placeholders_in(
    cassette: Cassette, session: int, mine: Iterable[RecordedMessage]
) -> Iterator[tuple[RecordedMessage, str]]:
    """Yield the client's messages with the placeholders in them."""
    texts = recorded_requests.redacted_texts(cassette, session)
    hidden = {number: sorted(restore.hidden_sources(text)) for number, text in texts.items()}
    for row in mine:
        yield from ((row, source) for source in hidden.get(row.frame, ()))


def _unwanted_writes(found: list[PlayPlan], options: VerifyOptions) -> Iterator[str]:
    if options.writes != "refuse":
        return
    by_path: dict[str, set[str]] = {}
    for plan in found:
        by_path.setdefault(plan.path, set()).update(plan.writes)
    for path, tools in by_path.items():
        if tools:
            yield (
                f"{path} calls tools that may change something, as it does not mark them as read-only: "
                f"{', '.join(' '.join(tool.split()) for tool in sorted(tools))}\n"
                "Add --allow-writes to call them at the live server, or --skip-writes to leave them out"
            )


def _missing_secrets(found: list[PlayPlan], environ: Mapping[str, str]) -> Iterator[str]:
    missing: dict[str, set[str]] = {}
    for plan in found:
        for source, where in plan.needs.items():
            if not environ.get(restore.variable(source)):
                missing.setdefault(source, set()).update(f"{use} in {plan.path}" for use in where)
    if missing:
        yield "the recording hides secrets that the live server needs; set these environment variables:"
    for source, places in sorted(missing.items()):
        yield f"  {restore.variable(source)}  for {placeholder(source)} ({', '.join(sorted(places))})"
