"""HTTP statuses, session ids and resumed streams, from the control frames of a session."""

from __future__ import annotations

from binascii import a2b_base64
from functools import lru_cache

from ...light import NamedTuple, pattern
from ...wire import channels, frames, protocol
from ...wire.framing import field
from .. import schema
from ..reader import OF_SESSION, Cassette

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypeGuard

    from ...wire.frames import Side

_SCOPE = pattern(r'\bscope="([^"\\]+)"')
_ENDS = ("close", "abort", "failed", "exit")
_CONTROLS = f"SELECT text FROM facts WHERE {OF_SESSION} AND kind = 'control' AND "


class Ending(NamedTuple):
    """How a channel ended: which side ended it, None if it did not end, and the server's exit code."""

    by: Side | None = None
    code: int | None = None


class SideResponse(NamedTuple):
    """A response at a path other than that of the messages, such as an icon."""

    content_type: str
    body: bytes


class RecordedLogin(NamedTuple):
    """The recorded facts of a login: metadata of the resource and of the authorization server, and scopes."""

    resource: dict[str, Any]
    metadata: dict[str, Any]
    scope: str | None  # of the first challenge
    wider: dict[tuple[str, str | None], str]  # scopes that calls needed, by method and name
    recorded_at: str


class Controls:
    """HTTP facts of sessions, read when an HTTP replay needs them."""

    def __init__(self, cassette: Cassette) -> None:
        self._cassette = cassette
        self.session_id = lru_cache(self._session_id)
        self.resumed_event = lru_cache(self._resumed_event)
        self.stream_status = lru_cache(self._stream_status)
        self.transport = lru_cache(self._transport)

    def response(self, session: int, channel: str, before: int) -> tuple[int, str]:
        """The HTTP status and content type of a channel's response, searched from one of its messages."""
        where = "channel = ? AND sender = 'server' AND id < ? ORDER BY id DESC LIMIT 3"
        for facts in self._facts(where, session, channel, schema.row_id(session, before)):
            status, headers = facts.get("status"), facts.get("headers")
            if isinstance(status, int) and 200 <= status <= 999 and isinstance(headers, dict):
                content = headers.get("content-type")
                return status, content if _is_header(content) else ""
        return 200, ""

    def ending(self, session: int, channel: str, since: int) -> Ending:
        """How a channel ended after a message."""
        where = f"{OF_SESSION} AND kind = 'control' AND channel = ? AND id > ? ORDER BY id"
        values = *schema.row_ids(session), channel, schema.row_id(session, since)
        rows = self._cassette.rows(f"SELECT sender, text FROM facts WHERE {where}", values)
        happened = [(by, frames.facts(text)) for by, text in rows]
        ends = [(by, facts) for by, facts in happened if facts.get("event") in _ENDS]
        code = next((facts["code"] for _, facts in ends if isinstance(facts.get("code"), int)), None)
        by_server = bool(ends) and (ends[0][0] == "server" or bool(code))  # exit 0 may follow the client's end
        return Ending("server" if by_server else "client" if ends else None, code)

    def request_headers(self, session: int, channel: str, before: int) -> dict[str, str]:
        """The headers of the request that opened a channel, searched backwards from its first message, since they are
        close."""
        where = "channel = ? AND sender = 'client' AND id < ? ORDER BY id DESC LIMIT 1"
        found = self._facts(where, session, channel, schema.row_id(session, before))
        headers = next((facts.get("headers") for facts in found), None)
        items = headers.items() if isinstance(headers, dict) else ()
        return {name: value for name, value in items if isinstance(value, str)}

    def was_left(self, session: int, channel: str, since: int) -> bool:
        """Return whether the client closed a channel before the answer."""
        where = "channel = ? AND sender = 'client' AND id > ? ORDER BY id LIMIT 1"
        found = self._facts(where, session, channel, schema.row_id(session, since))
        return any(facts.get("event") == "abort" for facts in found)

    def _session_id(self, session: int) -> str | None:
        """The Mcp-Session-Id that the server gave."""
        for facts in self._facts("sender = 'server' ORDER BY id LIMIT 50", session):
            headers = facts.get("headers")
            number = headers.get(protocol.SESSION_HEADER) if isinstance(headers, dict) else None
            if _is_header(number) and " " not in number:
                return number
        return None

    def _resumed_event(self, session: int, channel: str) -> str | None:
        """The event after which a stream was resumed."""
        for facts in self._facts("channel = ? AND sender = 'client' ORDER BY id LIMIT 1", session, channel):
            headers = facts.get("headers")
            if isinstance(headers, dict):
                resumed = headers.get(protocol.RESUME_HEADER)
                return resumed if isinstance(resumed, str) else None
        return None

    def _stream_status(self, session: int) -> int | None:
        """The status of the response to the first GET."""
        where = f"channel LIKE '{channels.GET}%' AND sender = 'server' ORDER BY id LIMIT 1"
        found = next(iter(self._facts(where, session)), {})
        return found.get("status") if isinstance(found.get("status"), int) else None

    def is_answer(self, sessions: Sequence[int], event: str) -> bool:
        """Return whether the event with this id was an answer, in any of these sessions."""
        sql = f"""SELECT CAST(f.head AS BLOB) FROM messages m CROSS JOIN facts f ON f.id = m.frame
                 WHERE m.{OF_SESSION} AND m.sender = 'server' AND m.kind = 'response' AND f.head IS NOT NULL"""
        rows = (head for session in sessions for (head,) in self._cassette.rows(sql, schema.row_ids(session)))
        return any(field(head, b"id") == event for head in rows)

    def side_responses(self) -> dict[str, SideResponse]:
        """The responses at other paths, by path and query; the newest of any session."""
        found: dict[str, SideResponse] = {}
        for session in self._cassette.each_session():
            for facts in self._facts(f"channel LIKE '{channels.SIDE}%' AND sender = 'server' ORDER BY id", session.id):
                response = _side_response(facts)
                if response is not None and "origin" not in facts:
                    found[str(facts.get("path"))] = response
        return found

    def login(self) -> RecordedLogin:
        """The recorded facts of a login, from all sessions."""
        resource: dict[str, Any] = {}
        metadata: dict[str, Any] = {}
        scope: str | None = None
        recorded_at = ""
        wider: dict[tuple[str, str | None], str] = {}
        for session in self._cassette.each_session():
            recorded_at = recorded_at or session.started_at
            for facts in self._facts(f"channel LIKE '{channels.SIDE}%' ORDER BY id", session.id):
                document = frames.facts(facts["body"]) if isinstance(facts.get("body"), str) else {}
                resource = document if "authorization_servers" in document else resource
                metadata = document if "token_endpoint" in document else metadata
            for channel, facts in self._challenges(session.id):
                asked = _SCOPE.search(str(protocol.member(facts.get("headers"), "www-authenticate")))
                if facts.get("status") == 401 and scope is None and asked:
                    scope = asked[1]
                elif facts.get("status") == 403 and asked:
                    wider |= dict.fromkeys(self._calls_on(session.id, channel), asked[1])
        return RecordedLogin(resource, metadata, scope, wider, recorded_at)

    def _challenges(self, session: int) -> list[tuple[str, dict[str, Any]]]:
        """Responses that asked for a token, each with its channel."""
        named = "text LIKE '%\"www-authenticate\"%' ORDER BY id"
        where = f"{OF_SESSION} AND kind = 'control' AND sender = 'server' AND {named}"
        rows = self._cassette.rows(f"SELECT channel, text FROM facts WHERE {where}", schema.row_ids(session))
        return [(channel, frames.facts(text)) for channel, text in rows]

    def _calls_on(self, session: int, channel: str) -> list[tuple[str, str | None]]:
        sql = f"""SELECT m.method, m.name FROM messages m CROSS JOIN facts f ON f.id = m.frame
                  WHERE m.{OF_SESSION} AND m.sender = 'client' AND m.kind = 'request' AND f.channel = ?"""
        return [(method, name) for method, name in self._cassette.rows(sql, (*schema.row_ids(session), channel))]

    def is_shared(self, session: int) -> bool:
        """Return whether all server messages came on one stream: stdio, HTTP+SSE."""
        return self.transport(session) != channels.HTTP

    def _transport(self, session: int) -> str:
        return str(self._cassette.rows("SELECT transport FROM sessions WHERE id = ?", (session,))[0][0])

    def _facts(self, where: str, session: int, *values: object) -> list[dict[str, Any]]:
        rows = self._cassette.rows(_CONTROLS + where, (*schema.row_ids(session), *values))
        found = (frames.facts(text) for (text,) in rows)
        return [facts for facts in found if facts]


def _side_response(facts: dict[str, Any]) -> SideResponse | None:
    """The response in a control frame; None if its body was not kept."""
    content, body, coded = (facts.get(name) for name in ("type", "body", "base64"))
    if not _is_header(content) or facts.get("event") != "side":
        return None
    try:
        if isinstance(coded, str):
            return SideResponse(content, a2b_base64(coded))
        return SideResponse(content, body.encode("utf-8", "surrogateescape")) if isinstance(body, str) else None
    except ValueError:
        return None  # it is damaged


def _is_header(value: Any) -> TypeGuard[str]:
    """Return whether a text is valid as a header's value."""
    return isinstance(value, str) and value.isascii() and value.isprintable() and value == value.strip()
