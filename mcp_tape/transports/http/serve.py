"""The HTTP server of a replay: Streamable HTTP of both eras at /mcp, HTTP+SSE at /sse."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs, quote

from ...errors import CassetteError
from ...values import size_text
from ...wire import frames, framing, protocol, rewrite
from ...wire.channels import SSE, http_channel
from ...wire.protocol import PATH, SSE_PATH
from . import shortcut
from .asgi import App, Headers, Receive, Scope, answer, header
from .asgi import Send as Reply
from .response import JSON, Response, at_once, session_header
from .streams import Conversation, Stream

if TYPE_CHECKING:
    from ...replay.selection import Selection
    from ...replay.sends import Call
    from ...replay.stage import Stage

MESSAGES_PATH = "/messages"
MAX_BODY = 64_000_000  # bytes
_NAME = "tape"  # of sessions whose recording has no id
_MOST_SESSIONS = 10**6  # of a worker
_COUNTED = re.compile("[1-9][0-9]{0,17}")
_DISCARDING = 5.0  # seconds to read on of a body that is too large
_SESSION, _VERSION = protocol.SESSION_HEADER.encode(), protocol.VERSION_HEADER.encode()


class _Refusal(NamedTuple):
    """Why a request is refused, as an HTTP status and a JSON-RPC error."""

    status: int
    reason: str
    code: int = protocol.SERVER_ERROR


_NO_SESSION = _Refusal(404, "there is no such session; begin one with initialize", protocol.NO_SESSION)
_SESSION_WANTED = _Refusal(400, "the header Mcp-Session-Id is missing")
_NO_EVENT = _Refusal(400, "no event with the id in Last-Event-ID was sent to this client")
_NOT_JSON = _Refusal(400, "the body is no JSON-RPC message", protocol.NOT_JSON)


class _TooLargeError(Exception):
    """A body that is larger than may be."""


class SessionIds:
    """The ids of sessions: the first is the recorded one, others that with a number.

    None is given twice: a client that has left may come back with its own, and a recorder knows sessions by them. Of
    several workers each has numbers of its own, so that an id says whose its session is.
    """

    def __init__(self, recorded: str | None, worker: int = 0, workers: int = 1, earlier: int = 0) -> None:
        """`earlier`: workers that were in the place of this one. Their sessions ended with them, and so did the ids."""
        self.recorded = recorded
        self.worker = worker
        self._workers = workers
        self._next = worker + 1 + workers * earlier * _MOST_SESSIONS

    def take(self, others: Iterable[SessionIds] = ()) -> str:
        """The next id, which no session had before. `others` may have given one that looks like one of ours."""
        while True:
            number, self._next = self._next, self._next + self._workers
            one = self.recorded if self.recorded and number == 1 else f"{self.recorded or _NAME}-{number}"
            if not any(other is not self and other.has_given(one) for other in others):
                return one

    def has_given(self, session: str) -> bool:
        """Return whether a session has this id, or had it."""
        number = self._number(session)
        return number is not None and number < self._next and self.owner(session) == self.worker

    def owner(self, session: str) -> int | None:
        """The worker whose session this may be; None if it can be nobody's."""
        number = self._number(session)
        return None if number is None else (number - 1) % self._workers

    def _number(self, session: str) -> int | None:
        if session == self.recorded:
            return 1
        name, _, number = session.rpartition("-")
        return int(number) if name == (self.recorded or _NAME) and _COUNTED.fullmatch(number) else None


class Server:
    """An ASGI application: a deck for each session of the legacy era, one for all of the modern."""

    def __init__(
        self,
        stage: Stage,
        stop: Callable[[], None],
        aliases: Mapping[str, str] | None = None,
        max_body: int = MAX_BODY,
        ids: SessionIds | None = None,
    ) -> None:
        """`aliases`: other paths, each with the one that it stands for. `max_body`: bytes that a request may have.

        `ids`: those for this worker, where there are several.
        """
        self._shared_ids = ids
        self._ids = {} if ids is None else {ids.recorded: ids}  # by what they are made of
        self._aliases = aliases or {}
        self._max_body = max_body
        self._stage = stage
        self._stop = stop
        self._numbers = count(1)
        self._conversations: dict[str, Conversation] = {}
        self._modern: Conversation | None = None
        self._nameless: Conversation | None = None  # that plays to clients who name no session
        self.code: int | None = None
        self.failure: CassetteError | None = None  # why the tape could not be played

    async def __call__(self, scope: Scope, receive: Receive, send: Reply) -> None:
        await self._run(self._route, scope, receive, send)

    async def _run(self, app: App, scope: Scope, receive: Receive, send: Reply) -> None:
        try:
            await app(scope, receive, send)
        except _TooLargeError:
            too_large = _Refusal(413, f"the body is larger than {size_text(self._max_body)}; see --max-body")
            await self._refuse(scope, send, too_large, (b"connection", b"close"))
        except CassetteError as failure:
            self._fail(failure)
            raise

    async def _route(self, scope: Scope, receive: Receive, send: Reply) -> None:
        path = scope["path"].rstrip("/")
        route = (scope["method"], self._aliases.get(path, path))
        if route == ("POST", PATH):
            await self._post(scope, receive, send)
        elif route == ("GET", PATH):
            await self._get(scope, receive, send)
        elif route == ("DELETE", PATH):
            await self._delete(scope, send)
        elif route == ("GET", SSE_PATH):
            await self._sse(scope, receive, send)
        elif route == ("POST", MESSAGES_PATH):
            await self._sse_post(scope, receive, send)
        elif route[1] in (PATH, SSE_PATH, MESSAGES_PATH):
            await self._decline(scope, send, 405, "method not allowed")
        else:
            await self._decline(scope, send, 404, f"nothing is served here; see {PATH} and {SSE_PATH}")

    async def _refuse(self, scope: Scope, send: Reply, refusal: _Refusal, *more: tuple[bytes, bytes]) -> None:
        """Refuse a request with an error that clients can read."""
        self._report(scope, refusal.status, refusal.reason)
        error = rewrite.error(refusal.code, f"mcp-tape: {refusal.reason}")
        await answer(send, refusal.status, rewrite.response(None, "error", error), JSON, *more)

    async def _decline(self, scope: Scope, send: Reply, status: int, reason: str) -> None:
        """Refuse what is no request of ours."""
        self._report(scope, status, reason)
        await answer(send, status, f"mcp-tape: {reason}\n")

    def _report(self, scope: Scope, status: int, reason: str) -> None:
        self._stage.refuse(f"refused {scope['method']} {scope['path']} with {status}: {reason}")

    # -- Streamable HTTP

    def quick(self, request: shortcut.Request) -> shortcut.Found:
        """Return a response that is complete at once; else what goes on with the request, if it was begun."""
        path = request.path.rstrip("/")
        if self._aliases.get(path, path) != PATH or len(request.body or b"") > self._max_body:
            return None
        if request.body is None:
            return shortcut.WAIT
        number = header(request.headers, _SESSION)
        conversation = self._modern if number is None else self._conversations.get(number)
        if conversation is None:
            return None
        try:
            found = self._at_once(conversation, request.headers, request.body, number)
        except CassetteError as error:
            self._fail(error)
            raise
        return found if isinstance(found, bytes) else partial(self._run, found)

    def _at_once(self, conversation: Conversation, headers: Headers, body: bytes, number: str | None) -> bytes | App:
        parsed = frames.parse(body)
        request = _plain_request(parsed)
        if request is None or not (number or protocol.is_modern(request.body, header(headers, _VERSION))):
            return partial(self._posted, body, parsed)
        stream = self._open(conversation, headers, body, parsed)
        return at_once(conversation, stream) or partial(self._respond, conversation, stream)

    async def _post(self, scope: Scope, receive: Receive, send: Reply) -> None:
        body = await self._read(scope, receive)
        if body is not None:
            await self._posted(body, frames.parse(body), scope, receive, send)

    async def _posted(self, body: bytes, parsed: frames.Parsed, scope: Scope, receive: Receive, send: Reply) -> None:
        if not parsed[1]:
            await self._refuse(scope, send, _NOT_JSON)
            return
        conversation = self._whose(scope["headers"], parsed[1])
        if isinstance(conversation, _Refusal):
            await self._refuse(scope, send, conversation)
        elif any(message.kind == "request" for message in parsed[1]):
            stream = self._open(conversation, scope["headers"], body, parsed)
            await self._respond(conversation, stream, scope, receive, send)
        else:
            self._take(conversation, scope["headers"], body, parsed, self._channel("POST"))
            await answer(send, 202, b"", JSON, *session_header(conversation))

    def _open(self, conversation: Conversation, headers: Headers, body: bytes, parsed: frames.Parsed) -> Stream:
        """Open the stream for what was posted, and play to it."""
        asked = [message for message in parsed[1] if message.kind == "request"]
        ids = [message.rpc_id or "null" for message in asked]
        channel = self._channel("POST")
        stream = conversation.open(channel, ids, any(message.method == protocol.LISTEN for message in asked))
        self._take(conversation, headers, body, parsed, channel)
        return stream

    async def _respond(
        self,
        conversation: Conversation,
        stream: Stream,
        scope: Scope,
        receive: Receive,
        send: Reply,
        opening: bytes = b"",
    ) -> None:
        await Response(conversation, stream, scope, receive, send, self._hang_up).run(opening)

    def _channel(self, verb: str) -> str:
        return http_channel(verb, next(self._numbers))

    def _whose(self, headers: Headers, messages: list[frames.Message]) -> Conversation | _Refusal:
        number = header(headers, _SESSION)
        if number is not None:
            return self._conversations.get(number, _NO_SESSION)
        if any(message.method == protocol.INITIALIZE for message in messages):
            conversation = self._begin()
            self._nameless = conversation if self._ids_of(conversation.selection).recorded is None else None
            return conversation
        version = header(headers, _VERSION)
        if any(protocol.is_modern(message.body, version) for message in messages):
            if self._modern is None:
                decks = self._stage.deck(self._pass_on, repeats="cycle", legacy=False)
                self._modern = Conversation(*decks, "")
            return self._modern
        return self._unnamed() or _SESSION_WANTED

    def _unnamed(self) -> Conversation | None:
        """The conversation of clients that name no session; None if the recorded server gave them an id to name."""
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

    async def _get(self, scope: Scope, receive: Receive, send: Reply) -> None:
        number = header(scope["headers"], _SESSION)
        conversation = self._conversations.get(number or "")
        if number is None:
            conversation = self._nameless
        if conversation is None and number is None:
            await self._decline(scope, send, 405, "without a session there is no GET stream")
        elif conversation is None:
            await self._refuse(scope, send, _NO_SESSION)
        elif event := header(scope["headers"], protocol.RESUME_HEADER.encode()):
            stream = conversation.resume(self._channel("GET"), event.encode("latin-1").decode("utf-8", "replace"))
            if stream is None:
                await self._refuse(scope, send, _NO_EVENT)
            else:
                await self._respond(conversation, stream, scope, receive, send)
        elif conversation.refuses_listeners:
            await answer(send, 405, "mcp-tape: as recorded, there is no GET stream\n")
        else:
            stream = conversation.listen(self._channel("GET"))
            await self._respond(conversation, stream, scope, receive, send)

    async def _delete(self, scope: Scope, send: Reply) -> None:
        conversation = self._end(header(scope["headers"], _SESSION) or "")
        if conversation is None:
            await self._refuse(scope, send, _NO_SESSION)
        else:
            conversation.end()
            await answer(send, 200, b"")

    # -- HTTP+SSE

    async def _sse(self, scope: Scope, receive: Receive, send: Reply) -> None:
        conversation = self._begin()
        conversation.everything = stream = conversation.listen(SSE)
        conversation.flush()
        endpoint = f"{MESSAGES_PATH}?sessionId={quote(conversation.number, safe='')}"
        opening = framing.encode(b"event: endpoint\n", endpoint.encode(), b"\n")
        await self._respond(conversation, stream, scope, receive, send, opening)
        self._end(conversation.number)

    async def _sse_post(self, scope: Scope, receive: Receive, send: Reply) -> None:
        conversation = self._conversations.get(_named(scope["query_string"].decode("latin-1")) or "")
        body = await self._read(scope, receive)
        if conversation is None or conversation.everything is None:
            await self._refuse(scope, send, _NO_SESSION)
        elif body is not None:
            parsed = frames.parse(body)
            if not parsed[1]:
                await self._refuse(scope, send, _NOT_JSON)
                return
            await answer(send, 202, "Accepted")
            self._take(conversation, scope["headers"], body, parsed, SSE)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        """Return a request's body; None if the client left before it was whole."""
        body = bytearray()
        length = int(header(scope["headers"], b"content-length") or 0)  # which h11 has checked
        if header(scope["headers"], b"expect") and length > self._max_body:
            raise _TooLargeError  # the client waits for 100 Continue: https://www.rfc-editor.org/rfc/rfc9110#section-10.1.1
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self._max_body:
                body.clear()
                await _discard(receive, more)
                raise _TooLargeError
            if not more:
                return bytes(body)

    # -- where there are other workers

    def elsewhere(self, target: str, headers: Headers) -> int | None:
        """The other worker that a request is for, by its session; None if it is for us, or for nobody."""
        path, _, query = target.partition("?")
        number = _named(query) if path.rstrip("/").endswith(MESSAGES_PATH) else header(headers, _SESSION)
        if number is None or self._shared_ids is None:
            return None
        owner = self._shared_ids.owner(number)
        return None if owner == self._shared_ids.worker else owner

    # -- where a live server may step in

    def _pass_on(self, call: Call) -> bool:
        return False

    def _take(
        self, conversation: Conversation, headers: Headers, body: bytes, parsed: frames.Parsed, channel: str
    ) -> None:
        """Give the deck what a client posted."""
        own = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers if name.startswith(b"mcp-"))
        conversation.receive(body, channel, parsed, dict(own))

    def rewind(self) -> None:
        """Rewind the tape for the next client of the modern era; those of the legacy era have decks of their own."""
        self._modern = None

    def _fail(self, error: CassetteError) -> None:
        """End as on stdio: a broken tape is never replaced by something made up."""
        self.failure = self.failure or error
        self._stop()

    def _hang_up(self, code: int) -> None:
        self.code = code
        self._stop()


def _plain_request(parsed: frames.Parsed) -> frames.Message | None:
    """Return the one request of a frame, if it begins no session and no stream for more than its answer."""
    if len(parsed[1]) != 1 or parsed[1][0].kind != "request":
        return None
    return None if parsed[1][0].method in (protocol.INITIALIZE, protocol.LISTEN) else parsed[1][0]


def _named(query: str) -> str | None:
    """The session that an address of HTTP+SSE names."""
    return next(iter(parse_qs(query).get("sessionId", ())), None)


async def _discard(receive: Receive, more: bool) -> None:
    """Read on for a while: a client that is still sending would not read the refusal."""

    async def rest() -> None:
        left = not more
        while not left:
            message = await receive()
            left = message["type"] == "http.disconnect" or not message.get("more_body", False)

    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(rest(), _DISCARDING)
