"""The HTTP server of a replay: Streamable HTTP of both eras at /mcp, HTTP+SSE at /sse."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs, quote

from ...errors import CassetteError
from ...values import size_text
from ...wire import frames, framing, jsontext, protocol, rewrite
from ...wire.channels import SSE, http_channel
from ...wire.protocol import PATH, SSE_PATH
from .message import TEXT, Headers, Work, header
from .response import JSON, Response, session_header
from .streams import Conversation, Stream

if TYPE_CHECKING:
    from ...cassette.lookup.controls import SideResponse
    from ...replay.selection import Selection
    from ...replay.sends import Challenge, ClientCall
    from ...replay.stage import Stage
    from .authorization import AuthorizationServer
    from .listen import HttpRequest

MESSAGES_PATH = "/messages"
MAX_BODY = 64_000_000  # bytes
_HOLDING = 0.01  # seconds that SQLite's read lock is held, for all requests of that time
_NAME = "tape"  # the id of sessions that were recorded without one
_MOST_SESSIONS = 10**6  # of a worker
_LOGIN = re.compile(r"/\.well-known/(oauth-|openid-)")
# A page from a cassette must not get the rights of this origin.
_OF_STRANGERS = ((b"content-security-policy", b"sandbox"), (b"x-content-type-options", b"nosniff"))
_COUNTED = re.compile("[1-9][0-9]{0,17}")
_SESSION, _VERSION = protocol.SESSION_HEADER.encode(), protocol.VERSION_HEADER.encode()


class _Refusal(NamedTuple):
    """Why a request is refused, as an HTTP status and a JSON-RPC error."""

    status: int
    reason: str
    code: int = protocol.SERVER_ERROR


_NO_SESSION = _Refusal(404, "there is no such session; begin one with initialize", protocol.NO_SESSION)
_SESSION_WANTED = _Refusal(400, "the header Mcp-Session-Id is missing")
_NO_EVENT = _Refusal(400, "no event with the id in Last-Event-ID was sent to this client")
_NOT_JSON = _Refusal(400, "the body is not a JSON-RPC message", protocol.NOT_JSON)


class SessionIds:
    """The ids of sessions: first the recorded id, then the same with a number.

    No id is given twice: a client that has left may come back with its id, and a recorder tells sessions apart by id.
    Each of several workers has its own numbers, so that an id shows which worker has the session.
    """

    def __init__(self, recorded: str | None, worker: int = 0, workers: int = 1, earlier: int = 0) -> None:
        """`earlier`: how many workers had this one's place before. Their sessions and ids ended with them."""
        self.recorded = recorded
        self.worker = worker
        self._workers = workers
        self._next = worker + 1 + workers * earlier * _MOST_SESSIONS

    def take(self, others: Iterable[SessionIds] = ()) -> str:
        """Return a new id. `others` may have given ids of the same form, which are skipped."""
        while True:
            number, self._next = self._next, self._next + self._workers
            one = self.recorded if self.recorded and number == 1 else f"{self.recorded or _NAME}-{number}"
            if not any(other is not self and other.has_given(one) for other in others):
                return one

    def has_given(self, session: str) -> bool:
        """Return whether a session has or had this id."""
        number = self._number(session)
        return number is not None and number < self._next and self.owner(session) == self.worker

    def owner(self, session: str) -> int | None:
        """The worker that may have a session; None if no worker can have it."""
        number = self._number(session)
        return None if number is None else (number - 1) % self._workers

    def _number(self, session: str) -> int | None:
        if session == self.recorded:
            return 1
        name, _, number = session.rpartition("-")
        return int(number) if name == (self.recorded or _NAME) and _COUNTED.fullmatch(number) else None


class ReplayServer:
    """A deck for each session of the legacy era, and one for all clients of the modern era."""

    def __init__(
        self,
        stage: Stage,
        stop: Callable[[], None],
        aliases: Mapping[str, str] | None = None,
        max_body: int = MAX_BODY,
        ids: SessionIds | None = None,
    ) -> None:
        """`aliases`: other paths, each with its target. `max_body`: most bytes of a request body.

        `ids`: this worker's, if there are several workers.
        """
        jsontext.load_orjson()
        self._shared_ids = ids
        self._ids = {} if ids is None else {ids.recorded: ids}  # by the recorded id
        self._aliases = aliases or {}
        self.max_body: int | None = max_body
        self._stage = stage
        self._lock = stage.lock
        self._stop = stop
        self._login: AuthorizationServer | None = None
        if stage.login_seed is not None:
            from .authorization import AuthorizationServer

            paths = (*self._aliases, PATH, SSE_PATH, MESSAGES_PATH)
            self._login = AuthorizationServer(stage, stage.login_seed, paths)
            stage.covers = self._login.covers
        self._side_responses: dict[str, SideResponse] | None = None  # loaded on the first request for one
        self._numbers = count(1)
        self._conversations: dict[str, Conversation] = {}
        self._modern: Conversation | None = None
        self._nameless: Conversation | None = None  # of clients without a session id
        self.code: int | None = None
        self.failure: CassetteError | None = None  # if the tape can't be played

    def __call__(self, request: HttpRequest) -> Work | None:
        if not self._lock.is_held:
            loop = asyncio.get_running_loop()
            self._lock.hold(loop.time())
            if self._lock.is_held:
                loop.call_later(_HOLDING, self._lock.release)
        try:
            if self._login is None or not self._login.answer(request):
                return self._route(request)
        except CassetteError as failure:
            self._end_with(failure)
            raise
        return None

    def _route(self, request: HttpRequest) -> Work | None:
        path = request.path.rstrip("/")
        route = (request.verb, self._aliases.get(path, path))
        if request.body is None:
            reason = f"the body is larger than {size_text(self.max_body or 0)}; see --max-body"
            self._refuse(request, _Refusal(413, reason))
        elif route == ("POST", PATH):
            self._post(request)
        elif route == ("GET", PATH):
            self._get(request)
        elif route == ("DELETE", PATH):
            self._delete(request)
        elif route == ("GET", SSE_PATH):
            self._sse(request)
        elif route == ("POST", MESSAGES_PATH):
            self._sse_post(request)
        elif route[1] in (PATH, SSE_PATH, MESSAGES_PATH):
            self._decline(request, 405, "method not allowed")
        else:
            return self._answer_side_request(request)
        return None

    def _answer_side_request(self, request: HttpRequest) -> Work | None:
        """Serve a recorded side response, such as an icon. Login metadata is left out: a replay needs no login."""
        if self._side_responses is None:
            self._side_responses = self._stage.chosen.controls.side_responses()
        found = self._side_responses.get(request.target.decode("latin-1"))
        if found is None or request.verb not in ("GET", "HEAD") or _LOGIN.search(request.path):
            return self._miss_side_request(request)
        request.respond(200, [(b"content-type", found.content_type.encode("latin-1")), *_OF_STRANGERS], found.body)
        return None

    def _miss_side_request(self, request: HttpRequest) -> Work | None:
        self._decline(request, 404, f"nothing is served here; see {PATH} and {SSE_PATH}")
        return None

    def _refuse(self, request: HttpRequest, refusal: _Refusal) -> None:
        """Refuse a request with an error that clients can read."""
        self._report(request, refusal.status, refusal.reason)
        error = rewrite.response(None, "error", rewrite.error(refusal.code, f"mcp-tape: {refusal.reason}"))
        request.respond(refusal.status, [(b"content-type", JSON)], error)

    def _decline(self, request: HttpRequest, status: int, reason: str) -> None:
        """Refuse a request that is not MCP."""
        self._report(request, status, reason)
        request.respond(status, [(b"content-type", TEXT)], f"mcp-tape: {reason}\n".encode())

    def _report(self, request: HttpRequest, status: int, reason: str) -> None:
        self.refuse(f"refused {request.verb} {request.path} with {status}: {reason}")

    def refuse(self, what: str) -> None:
        self._stage.refuse(what)

    def expects(self, target: str) -> bool:
        return self._login is not None and self._login.expects(target)

    # -- Streamable HTTP

    def _post(self, request: HttpRequest) -> None:
        parsed = self._parse_body(request)
        if parsed is None:
            return
        if self._login is not None and self._login.refuse_narrow(request, parsed[1]):
            return
        conversation = self._find_conversation(request.fields, parsed[1])
        if isinstance(conversation, _Refusal):
            self._refuse(request, conversation)
            return
        asked = [message for message in parsed[1] if message.kind == "request"]
        channel = self._channel("POST")
        if not asked:
            self._take(conversation, request, parsed, channel)
            request.respond(202, session_header(conversation))
            return
        listens = protocol.LISTEN in [message.method for message in asked]
        stream = conversation.open(channel, [message.rpc_id or "null" for message in asked], listens)
        self._take(conversation, request, parsed, channel)
        self._respond(conversation, stream, request)

    def _parse_body(self, request: HttpRequest) -> frames.Parsed | None:
        """Return the messages of a body; None if the request was refused because of them."""
        parsed = frames.parse(request.body or b"")
        if not parsed[1]:
            self._refuse(request, _NOT_JSON)
            return None
        return parsed

    def _respond(
        self,
        conversation: Conversation,
        stream: Stream,
        request: HttpRequest,
        opening: bytes = b"",
        when_closed: Callable[[], object] = lambda: None,
    ) -> None:
        response = Response(conversation, stream, request, self._hang_up, self._fail, when_closed, self._challenge)
        response.run(opening)

    def _challenge(self, request: HttpRequest, fault: Challenge) -> None:
        if self._login is None:
            request.respond(403 if fault.scope else 401, [])
        else:
            self._login.strike(request, fault)

    def _channel(self, verb: str) -> str:
        return http_channel(verb, next(self._numbers))

    def _find_conversation(self, fields: dict[bytes, bytes], messages: list[frames.Message]) -> Conversation | _Refusal:
        number = fields.get(_SESSION)
        if number is not None:
            return self._conversations.get(number.decode("latin-1"), _NO_SESSION)
        if protocol.INITIALIZE in [message.method for message in messages]:
            conversation = self._begin()
            self._nameless = conversation if self._ids_of(conversation.selection).recorded is None else None
            return conversation
        version = fields[_VERSION].decode("latin-1") if _VERSION in fields else None
        if any(protocol.is_modern(message.body, version) for message in messages):
            if self._modern is None:
                decks = self._stage.deck(self._pass_on, repeats="cycle", legacy=False)
                self._modern = Conversation(*decks, "")
            return self._modern
        return self._nameless_conversation() or _SESSION_WANTED

    def _nameless_conversation(self) -> Conversation | None:
        """The conversation of clients without a session id; None if the recorded server gave session ids."""
        if self._nameless is None and self._stage.needs_no_id():
            self._nameless = self._begin()
        return self._nameless

    def _begin(self) -> Conversation:
        player, deck = self._stage.session(self._pass_on)
        ids = self._ids_of(deck.selection)
        number = ids.take(self._ids.values())
        self._conversations[number] = Conversation(player, deck, number)
        return self._conversations[number]

    def _ids_of(self, selection: Selection) -> SessionIds:
        recorded = selection.controls.session_id(selection.sessions[0])
        return self._ids.setdefault(recorded, SessionIds(recorded))

    def _end(self, number: str) -> Conversation | None:
        """End a session, if there is one with this id."""
        conversation = self._conversations.pop(number, None)
        if conversation is not None:
            self._stage.end(conversation.deck.playing)
        if conversation is self._nameless:
            self._nameless = None
        return conversation

    def _get(self, request: HttpRequest) -> None:
        number = header(request.headers, _SESSION)
        conversation = self._nameless if number is None else self._conversations.get(number)
        event = header(request.headers, protocol.RESUME_HEADER.encode())
        stream: Stream | None = None
        if conversation is None and number is None:
            self._decline(request, 405, "without a session there is no GET stream")
            return
        if conversation is None:
            self._refuse(request, _NO_SESSION)
            return
        if event:
            stream = conversation.resume(self._channel("GET"), event.encode("latin-1").decode("utf-8", "replace"))
            if stream is None:
                self._refuse(request, _NO_EVENT)
                return
        elif conversation.refuses_listeners:
            request.respond(405, [(b"content-type", TEXT)], b"mcp-tape: as recorded, there is no GET stream\n")
            return
        self._respond(conversation, stream or conversation.listen(self._channel("GET")), request)

    def _delete(self, request: HttpRequest) -> None:
        conversation = self._end(header(request.headers, _SESSION) or "")
        if conversation is None:
            self._refuse(request, _NO_SESSION)
        else:
            conversation.end()
            request.respond(200, [])

    # -- HTTP+SSE

    def _sse(self, request: HttpRequest) -> None:
        conversation = self._begin()
        conversation.everything = stream = conversation.listen(SSE)
        conversation.flush()
        endpoint = f"{MESSAGES_PATH}?sessionId={quote(conversation.number, safe='')}"
        opening = framing.encode(b"event: endpoint\n", endpoint.encode(), b"\n")
        self._respond(conversation, stream, request, opening, lambda: self._end(conversation.number))

    def _sse_post(self, request: HttpRequest) -> None:
        conversation = self._conversations.get(_session_of_query(request.query) or "")
        if conversation is None or conversation.everything is None:
            self._refuse(request, _NO_SESSION)
            return
        parsed = self._parse_body(request)
        if parsed is not None:
            request.respond(202, [(b"content-type", TEXT)], b"Accepted")
            self._take(conversation, request, parsed, SSE)

    # -- other workers

    def find_other_worker(self, target: str, headers: Headers) -> int | None:
        """The other worker that has a request's session; None if it is ours or unknown."""
        path, _, query = target.partition("?")
        number = _session_of_query(query) if path.rstrip("/").endswith(MESSAGES_PATH) else header(headers, _SESSION)
        if number is None or self._shared_ids is None:
            return None
        owner = self._shared_ids.owner(number)
        return None if owner == self._shared_ids.worker else owner

    # -- overridden for a live server

    def _pass_on(self, call: ClientCall) -> bool:
        return False

    def _take(self, conversation: Conversation, request: HttpRequest, parsed: frames.Parsed, channel: str) -> None:
        """Process the messages of a POST."""
        self._play(conversation, request, request.body or b"", parsed, channel)

    def _play(
        self, conversation: Conversation, request: HttpRequest, body: bytes, parsed: frames.Parsed, channel: str
    ) -> None:
        """Pass a message to the deck."""
        conversation.receive(body, channel, parsed, partial(_mcp_headers, request.fields))

    def rewind(self) -> None:
        """Rewind the tape for the next client of the modern era. Legacy clients have their own decks."""
        self._modern = None

    def _fail(self, request: HttpRequest, error: Exception) -> None:
        if isinstance(error, CassetteError):
            self._end_with(error)
        request.fail(error)

    def _end_with(self, error: CassetteError) -> None:
        """End the replay, as on stdio: nothing made up replaces a broken tape."""
        self.failure = self.failure or error
        self._stop()

    def _hang_up(self, code: int) -> None:
        self.code = code
        self._stop()


def _mcp_headers(fields: dict[bytes, bytes]) -> dict[str, str]:
    """The headers that repeat a message."""
    return {n.decode("latin-1"): v.decode("latin-1") for n, v in fields.items() if n.startswith(b"mcp-")}


def _session_of_query(query: str) -> str | None:
    """The session id in the query of an HTTP+SSE URL."""
    return next(iter(parse_qs(query).get("sessionId", ())), None)
