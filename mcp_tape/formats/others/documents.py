"""A single JSON document: mcp-recorder 0.5 and agent-vcr 0.1 (PyPI), mcp-flight-recorder 0.2 (npm)."""

from __future__ import annotations

from collections.abc import Iterator

from ...wire.channels import STDIO
from ...wire.frames import Side
from ..foreign import (
    INVENTED,
    RESERIALISED,
    Clock,
    Item,
    JsonRow,
    Loss,
    Reader,
    SentBytes,
    SessionStart,
    SourceFile,
    command,
    milliseconds,
    sort_by_time,
)
from ..foreign import rows_at as rows
from .hidden import HiddenValues

_SENDERS: dict[str, Side] = {"client_to_server": "client", "server_to_client": "server"}
_MEMBERS = ("method", "params", "result", "error")
_PAIRS = "only pairs: no notifications or requests of the server"
_ASKED = "no requests of the server, and no notifications of the client"


def _is_recorder(source: SourceFile) -> bool:
    document = source.document
    return document is not None and isinstance(document.get("interactions"), list) and "metadata" in document.value


def _recorder(source: SourceFile) -> Iterator[Item]:
    document = source.document
    assert document is not None
    url, at = document.get("metadata", "server_url"), 0
    stdio = document.get("metadata", "transport_type") == STDIO or not isinstance(url, str)
    target = command(url.removeprefix("stdio://").split() if isinstance(url, str) else []) if stdio else {"url": url}
    yield SessionStart(Clock(document.get("metadata", "recorded_at")).started_at, target)
    yield from (Loss(INVENTED), Loss(RESERIALISED), Loss(_PAIRS))
    for row in rows(document, "interactions"):
        if isinstance(row.get("request"), dict):
            yield row.sent_bytes(at, "client", "request")
        at += milliseconds(row.get("latency_ms"))
        if isinstance(row.get("response"), dict):
            yield row.sent_bytes(at, "server", "response")


def _is_flight(source: SourceFile) -> bool:
    document = source.document
    return document is not None and all(isinstance(document.get(name), list) for name in ("events", "calls"))


def _flight(source: SourceFile) -> Iterator[Item]:
    document = source.document
    assert document is not None
    clock = Clock(document.get("startedAt"))
    yield SessionStart(
        clock.started_at, command(document.get("command", "executable"), document.get("command", "args"))
    )
    yield Loss(RESERIALISED)
    hidden = HiddenValues("[REDACTED]")
    for row in rows(document, "events"):
        sender = _SENDERS.get(str(row.get("direction")))
        if sender is not None:
            yield from hidden.restore(SentBytes(clock.at(row.get("timestamp")), sender, _message(row)))


def _message(row: JsonRow) -> bytes:
    """Build a message from the members in the file, where null means absent."""
    members = [name for name in ("id", *_MEMBERS) if row.get(name) is not None]
    if not {"method", "result", "error"} & {*members}:
        members.append("result")
    text = b"".join(b',"%s":%s' % (name.encode(), row.verbatim(name) or b"null") for name in members)
    return b'{"jsonrpc":"2.0"' + text + b"}"


def _is_agent_vcr(source: SourceFile) -> bool:
    document = source.document
    return document is not None and isinstance(document.get("session", "interactions"), list)


def _agent_vcr(source: SourceFile) -> Iterator[Item]:
    """Each answer is stored with its own direction, and with the notifications before it."""
    document = source.document
    assert document is not None
    clock = Clock(document.get("metadata", "recorded_at"))
    yield SessionStart(
        clock.started_at, command(document.get("metadata", "server_command"), document.get("metadata", "server_args"))
    )
    yield from (Loss(RESERIALISED), Loss(_ASKED))
    session = document.inner("session")
    said = [
        *_message_at(session, "initialize_request", 0, "client"),
        *_message_at(session, "initialize_response", 0, "server"),
    ]
    for row in rows(session, "interactions"):
        at, took = clock.at(row.get("timestamp")), milliseconds(row.get("latency_ms"))
        said += _message_at(row, "request", max(at - took, 0), "client")
        said += (SentBytes(at, "server", _message(one)) for one in rows(row, "notifications"))
        said += _message_at(row, "response", at, "server")
    yield from sort_by_time(said)


def _message_at(row: JsonRow, name: str, at: int, sender: Side) -> Iterator[SentBytes]:
    if isinstance(row.get(name), dict):
        yield SentBytes(at, sender, _message(row.inner(name)))


READERS = (
    Reader("mcp-recorder", _is_recorder, _recorder),
    Reader("mcp-flight-recorder", _is_flight, _flight),
    Reader("agent-vcr", _is_agent_vcr, _agent_vcr),
)
