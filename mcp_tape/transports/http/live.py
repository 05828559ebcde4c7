"""A live HTTP server beside a replay: it answers misses, through the proxy that records them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ...cassette.file import ReadLock
from ...replay.live import Episodes, LiveMessage
from ...replay.sends import Refuse
from ...wire import frames, protocol, rewrite
from ...wire.channels import SSE
from .message import Headers, Work, header
from .serve import MAX_BODY, ReplayServer
from .streams import Conversation
from .upstream import IncomingResponse, path_and_query, resolve_within

if TYPE_CHECKING:
    from ...replay.sends import ClientCall
    from ...replay.stage import Stage
    from .listen import HttpRequest
    from .relay import Proxy

    Hear = Callable[[bytes, str | None], None]  # a message, and the name of the event that brought it

_SESSION, _AUTHORIZATION = protocol.SESSION_HEADER.encode(), b"authorization"
# Client headers that are not passed on: they concern its own connection or session, or we set them.
_OURS = (b"content-length", b"transfer-encoding", b"accept-encoding", b"accept", b"host", _SESSION)
_ACCEPTS = {"POST": b"application/json, text/event-stream", "GET": b"text/event-stream"}
_MOST_REDIRECTS = 3


class LiveServer(ReplayServer):
    """The server of a replay that passes misses on."""

    def __init__(
        self,
        stage: Stage,
        stop: Callable[[], None],
        aliases: Mapping[str, str],
        proxy: Proxy,
        path: bytes,
        max_body: int | None = None,
    ) -> None:
        super().__init__(stage, stop, aliases, max_body or MAX_BODY)
        self._lock = ReadLock()  # locks nothing: new episodes are recorded into the cassette that plays
        self._proxy = proxy
        self._path = path
        self._links: dict[Conversation, _Link] = {}
        self._passed_on = 0  # for clients that have left
        self._heard: _Link | None = None  # of the client whose message is being handled

    @property
    def passed_on(self) -> int:
        """The number of calls that went to the live server."""
        return self._passed_on + sum(link.episodes.passed_on for link in self._links.values())

    def _end(self, number: str) -> Conversation | None:
        conversation = super()._end(number)
        link = self._links.pop(conversation, None) if conversation else None
        self._passed_on += link.episodes.passed_on if link else 0
        return conversation

    def expects(self, target: str) -> bool:
        return super().expects(target) or self._proxy.expects(target)

    def _miss_side_request(self, request: HttpRequest) -> Work | None:
        """Pass a side request on, such as one of a login, unless the replay is the authorization server."""
        return self._proxy.pass_on(request) if self._login is None else super()._miss_side_request(request)

    def _pass_on(self, call: ClientCall) -> bool:
        return self._heard is not None and self._heard.episodes.pass_on(call)

    def _take(self, conversation: Conversation, request: HttpRequest, parsed: frames.Parsed, channel: str) -> None:
        link = self._links.get(conversation)
        if link is None:
            through = LiveSession(self._proxy, self._path)
            link = self._links[conversation] = _Link(through, conversation, self._stage)
        self._heard = link
        headers = [one for one in request.headers if self._login is None or one[0] != _AUTHORIZATION]
        link.credentials = [one for one in headers if one[0] == _AUTHORIZATION]
        left = link.episodes.hear(request.body or b"", headers, parsed)  # our own token must not reach the live server
        if left is not None:
            parsed = parsed if left is request.body else frames.parse(left)
            self._play(conversation, request, left, parsed, channel)
        link.flush()


class _Link:
    """One client at the live server: each message is an HTTP request, and they run concurrently."""

    def __init__(self, through: LiveSession, conversation: Conversation, stage: Stage) -> None:
        self._through = through
        self._conversation = conversation
        self._note, self._overhear = stage.note, stage.overhear
        controls, sessions = conversation.selection.controls, conversation.selection.sessions
        self._is_old = controls.transport(sessions[0]) == SSE
        # The one stream of HTTP+SSE brings all answers, and is recorded as a whole.
        prefix = stage.replays_prefix and not self._is_old
        self.episodes = Episodes(self._begin, stage.note, stage.overhear, strays=False, prefix=prefix)
        self.episodes.attach(conversation.deck)
        self.credentials: Headers = []  # the client's newest: earlier messages may have come without a token
        self._endpoint: asyncio.Future[bytes] | None = None  # of HTTP+SSE: where to post
        self._ready: asyncio.Task[None] | None = None  # must end before anything else is sent
        self._listens = False
        self._posted: list[ClientCall] = []  # whose answers come on the one stream of HTTP+SSE
        self._tasks: set[asyncio.Task[None]] = set()

    def flush(self) -> None:
        """Send the messages that are ready."""
        for message in self.episodes.take_for_live():
            before = self._ready or self._start(self._open(message.origin))
            sending = self._start(_after(before, partial(self._send, message, self._leave_event(message.call))))
            self._ready = sending if message.begins else before
        for action in self.episodes.take_for_client():
            if isinstance(action, Refuse):
                self._conversation.refuse(action)
            else:
                self._conversation.pass_on(action)

    def _begin(self, call: ClientCall) -> None:
        if call.message.method != protocol.INITIALIZE:
            self._note(f"a miss: asking the live server; {self.episodes.prelude_text}")

    def _leave_event(self, call: ClientCall | None) -> asyncio.Event | None:
        """An event that is set when the client leaves a call, as modern clients do to cancel it."""
        if call is None:
            return None
        left = asyncio.Event()
        if not self._conversation.number:
            self._conversation.when_left(call.channel, left.set)
        return left

    # -- to the live server

    async def _open(self, headers: Headers) -> None:
        """HTTP+SSE: open the one stream for all answers, whose first event says where to post."""
        if self._is_old:
            self._endpoint = asyncio.get_running_loop().create_future()
            self._start(self._listen(headers))
            self._through.path = await self._endpoint

    async def _send(self, message: LiveMessage, left: asyncio.Event | None) -> None:
        headers, call = self._with_credentials(message.origin), message.call
        if not message.begins:
            self._listen_once(headers)
        if call is not None and self._is_old:
            self._posted.append(call)
        hear = partial(self._receive, call)
        refused = await self._through.ask("POST", headers, message.text, hear, left, is_recorded=not message.is_earlier)
        if call is not None:
            if refused is not None:
                self.episodes.refuse(call, *refused)
            elif not self._is_old:
                self.episodes.leave_unanswered(call)
            self._listen_once(headers)  # the call may have been the handshake
        elif message.awaits is not None:
            self.episodes.settle_awaited(message.awaits)  # even if the answer never comes
        self.flush()

    def _with_credentials(self, headers: Headers) -> Headers:
        return [*(one for one in headers if one[0] != _AUTHORIZATION), *self.credentials]

    def _listen_once(self, headers: Headers) -> None:
        """Streamable HTTP: open the GET stream, once there is a session."""
        if not self._is_old and not self._listens and self._through.session is not None:
            self._listens = True
            self._start(self._listen(headers))

    async def _listen(self, headers: Headers) -> None:
        """Receive messages that belong to no call; over HTTP+SSE, all messages."""
        await self._through.ask("GET", headers, b"", partial(self._receive, None))
        if self._endpoint is not None:
            if not self._endpoint.done():
                self._endpoint.set_result(self._through.path)  # no stream; the error of a POST will show why
            for call in self._posted:
                self.episodes.leave_unanswered(call)
            self.flush()

    # -- from the live server

    def _receive(self, call: ClientCall | None, text: bytes, event: str | None) -> None:
        """Receive a message of the live server; `call`: the one whose stream it came on."""
        if event == "endpoint" and self._endpoint is not None and not self._endpoint.done():
            self._endpoint.set_result(self._posts_to(text.decode("utf-8", "replace").strip()))
            return
        self.episodes.hear_live(text, call=call)
        self.flush()

    def _posts_to(self, named: str) -> bytes:
        self._overhear(named.encode())
        path = self._through.path_here(self._through.path, named)
        if path is None:
            self._note(f"the live server's endpoint is on another server, {named}; nothing is sent there")
        return path or self._through.path  # the error of a POST will show why

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)
        return task

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):  # a bug of ours: no stream may wait for ever
            self._conversation.fail(error)


async def _after(ready: asyncio.Task[None], work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    await ready
    await work()


# Requests to the live server through the recording proxy ----------------------------------------------------


class LiveSession:
    """One client's requests to the live server, in their own session."""

    def __init__(self, proxy: Proxy, path: bytes) -> None:
        self._proxy = proxy
        self.path = path
        self.session: bytes | None = None

    async def ask(
        self,
        verb: str,
        headers: Headers,
        body: bytes,
        hear: Hear,
        left: asyncio.Event | None = None,
        *,
        is_recorded: bool = True,
    ) -> HttpErrorAnswer | None:
        """Send one request; `hear` gets each message of the response. `left`: set when the client leaves."""
        path = self.path
        for _ in range(_MOST_REDIRECTS):
            asked = _ProxiedRequest(verb, path, self._headers(verb, headers, body), body, self, hear)
            if left is not None:
                watching = asyncio.ensure_future(asked.leave_after(left))
            try:
                await self._proxy.pass_on(asked, is_recorded=is_recorded)
            finally:
                if left is not None:
                    watching.cancel()
            response = asked.response
            if response is None:
                return None
            if response.is_error:
                return HttpErrorAnswer(response.status, response.content_type, response.error, asked.challenge)
            if response.location is None:
                return None
            here = self.path_here(path, response.location)
            if here is None:
                return _refuse_redirect(response.location)
            path = here
        return _error_answer(f"the server redirects more than {_MOST_REDIRECTS} times")

    def path_here(self, path: bytes, location: str) -> bytes | None:
        """Resolve a redirect, or an endpoint, to a path of the server; None if it leads to another."""
        found = resolve_within(self._proxy.origin, location, path.decode("latin-1"))
        return None if found is None else path_and_query(found).encode("latin-1", "replace")

    def _headers(self, verb: str, headers: Headers, body: bytes) -> Headers:
        own = [(b"accept", _ACCEPTS[verb])]
        own += [(b"content-length", b"%d" % len(body))] if body else []
        own += [(_SESSION, self.session)] if self.session else []
        kept = [(name, value) for name, value in headers if name not in _OURS and (body or name != b"content-type")]
        return [*kept, *own]


class _ProxiedRequest:
    """A request of ours, in the form that the proxy takes from clients, and its response."""

    def __init__(
        self, verb: str, target: bytes, headers: Headers, body: bytes, through: LiveSession, hear: Hear
    ) -> None:
        self.verb = verb
        self.target = target
        self.headers = headers
        self.expects_body = bool(body)
        self.has_left = False
        self.when_left: Callable[[], object] = lambda: None
        self.response: IncomingResponse | None = None
        self.challenge = ""
        self._body = body
        self._through = through
        self._hear = hear

    async def leave_after(self, left: asyncio.Event) -> None:
        await left.wait()
        self.has_left = True
        self.when_left()

    async def pieces(self) -> AsyncIterator[bytes]:
        yield self._body

    def begin(self, status: int, headers: Headers) -> None:
        self.response = response = IncomingResponse(status, headers)
        self.challenge = header(headers, b"www-authenticate") or ""
        session, through = response.session, self._through
        through.session = through.session or (session.encode() if session else None)

    async def send(self, data: bytes) -> None:
        assert self.response is not None
        for heard in self.response.feed(data):
            self._hear(*heard)

    def end(self) -> None:
        assert self.response is not None
        for heard in self.response.close():
            self._hear(*heard)

    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        self.begin(status, headers)
        assert self.response is not None
        for heard in (*self.response.feed(body), *self.response.close()):
            self._hear(*heard)

    def abort(self) -> None:
        pass  # the rest of the response will not come


class HttpErrorAnswer(NamedTuple):
    """An HTTP error in place of an answer."""

    status: int
    content_type: str
    body: bytes
    challenge: str = ""  # the header WWW-Authenticate


def _refuse_redirect(location: str) -> HttpErrorAnswer:
    url = location.partition("?")[0]  # the query may be secret
    return _error_answer(f"the server redirects to another server, {url}; nothing was sent there")


def _error_answer(reason: str) -> HttpErrorAnswer:
    error = rewrite.error_response(None, protocol.SERVER_ERROR, f"mcp-tape: {reason}")
    return HttpErrorAnswer(502, "application/json", error)
