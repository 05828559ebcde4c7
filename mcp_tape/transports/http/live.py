"""A live HTTP server beside a replay: what the tape cannot answer is asked there, and recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from ...replay.live import Questions, taken_apart, without
from ...replay.sends import MISS, Refuse, Send, said
from ...wire import frames, protocol, rewrite
from ...wire.framing import Event, Events, Whole
from .listen import Headers, Scope, header
from .serve import MAX_BODY, Server
from .streams import Conversation
from .upstream import origin_of

if TYPE_CHECKING:
    from ...replay.calls import Call
    from .relay import Proxy
    from .serve import Stage

    Hear = Callable[[bytes, str | None], None]  # a message, and the name of the event that brought it

_SESSION = protocol.SESSION_HEADER.encode()
# Of the client's headers those are left out that are about its own connection, its own session, or ours to say.
_OURS = (b"content-length", b"transfer-encoding", b"accept-encoding", b"accept", b"host", _SESSION)
_ACCEPTS = {"POST": b"application/json, text/event-stream", "GET": b"text/event-stream"}
_REDIRECTS = (307, 308)
_MOST_REDIRECTS = 3


class LiveServer(Server):
    """Plays the tape; asks the server behind a recording proxy for the rest."""

    def __init__(
        self,
        stage: Stage,
        stop: Callable[[], None],
        aliases: Mapping[str, str],
        proxy: Proxy,
        path: bytes,
        note: Callable[[str], None],
        max_body: int | None = None,
    ) -> None:
        super().__init__(stage, stop, aliases, max_body or MAX_BODY)
        self._is_alone = False
        self._proxy = proxy
        self._path = path
        self._note = note
        self._links: dict[Conversation, _Link] = {}
        self._missed: list[Call] = []
        self.passed_on = 0

    def _pass_on(self, call: Call) -> bool:
        self._missed.append(call)
        self.passed_on += 1
        self._note(f"passed on to the live server: {' '.join(filter(None, (call.message.method, call.message.name)))}")
        return True

    def _take(self, conversation: Conversation, headers: Headers, body: bytes, channel: str) -> None:
        link = self._links.get(conversation)
        if link is None:
            link = self._links[conversation] = _Link(Through(self._proxy, self._path), conversation, self._note)
        for message, text in taken_apart(body):
            link.hear(message, headers, text)
        left = without(body, lambda message, text: message.kind == "response" and link.takes(message, headers, text))
        if left is None:
            return
        super()._take(conversation, headers, left, channel)
        missed, self._missed = self._missed, []
        for call in missed:
            link.ask(headers, call)


class _Link:
    """One client at the live server."""

    def __init__(self, through: Through, conversation: Conversation, note: Callable[[str], None]) -> None:
        self._through = through
        self._conversation = conversation
        self._note = note
        self._handshake: list[tuple[Headers, bytes]] = []
        self._ready: asyncio.Task[None] | None = None
        self._endpoint: asyncio.Future[bytes] | None = None  # where HTTP+SSE wants its messages
        self._waiting: dict[str, Call] = {}  # by id, those whose answers come on the one stream of HTTP+SSE
        self._questions = Questions()
        self._questions.attach(conversation.deck)
        self._tasks: set[asyncio.Task[None]] = set()

    # -- what the client says

    def hear(self, message: frames.Message, headers: Headers, text: bytes) -> None:
        """Remember how the client began; what it tells everybody is told the live server too."""
        is_last = message.method in protocol.notification_names("initialized")
        if message.kind == "notification" and self._ready is not None:
            told = self._tell(headers, text)
            self._ready = told if is_last else self._ready  # a strict server takes no call before it
        elif message.method == protocol.INITIALIZE or is_last:
            self._handshake.append((headers, text))

    def takes(self, answer: frames.Message, headers: Headers, body: bytes) -> bool:
        """Pass on an answer to a question of the live server, if it is one."""
        for_live = self._questions.answer(answer, body)
        if for_live is not None:
            self._tell(headers, for_live)
        return for_live is not None

    def ask(self, headers: Headers, call: Call) -> None:
        """A call that the tape cannot answer."""
        left = asyncio.Event()
        if not self._conversation.number:
            self._conversation.when_left(call.channel, left.set)  # the modern way to cancel
        if self._ready is None and call.message.method == protocol.INITIALIZE:
            self._handshake.clear()  # the miss is the handshake
            self._ready = self._start(self._begin(headers, lambda: self._ask(headers, call, left)))
            return
        ready = self._begun(headers)
        self._start(_after(ready, lambda: self._ask(headers, call, left)))

    def _tell(self, headers: Headers, text: bytes) -> asyncio.Task[None]:
        return self._start(_after(self._begun(headers), lambda: self._post(headers, text)))

    async def _post(self, headers: Headers, text: bytes) -> None:
        await self._through.ask("POST", headers, text, self._heard)

    # -- what the live server gets first

    def _begun(self, headers: Headers) -> asyncio.Task[None]:
        if self._ready is None:
            self._note("a miss: asking the live server; only the handshake was replayed to it")
            self._ready = self._start(self._begin(headers, self._greet))
        return self._ready

    async def _begin(self, headers: Headers, greet: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._conversation.selection.controls.transport(self._conversation.selection.sessions[0]) == "sse":
            self._endpoint = asyncio.get_running_loop().create_future()
            self._start(self._listen(headers))
            self._through.path = await self._endpoint
            await greet()
            return
        await greet()
        if self._through.session is not None:
            self._start(self._listen(headers))

    async def _greet(self) -> None:
        for headers, text in self._handshake:
            await self._through.ask("POST", headers, text, lambda text, event: None)

    async def _listen(self, headers: Headers) -> None:
        """Hear what the server says without being asked; over HTTP+SSE, all that it says."""
        await self._through.ask("GET", headers, b"", self._heard)
        if self._endpoint is not None:
            if not self._endpoint.done():
                self._endpoint.set_result(self._through.path)  # it has no stream: what is posted there will tell
            for call in list(self._waiting.values()):
                self._leave_unanswered(call)

    # -- what it says

    async def _ask(self, headers: Headers, call: Call, left: asyncio.Event) -> None:
        self._waiting[call.rpc_id] = call

        def heard(text: bytes, event: str | None) -> None:
            self._heard(text, event, call)

        refused = await self._through.ask("POST", headers, call.text, heard, left)
        if refused is not None and self._waiting.pop(call.rpc_id, call) is call:
            status, content_type, body = refused
            self._conversation.refuse(Refuse(status, call, body, content_type))
        elif self._endpoint is None and call.rpc_id in self._waiting:
            self._leave_unanswered(call)

    def _leave_unanswered(self, call: Call) -> None:
        del self._waiting[call.rpc_id]
        error = rewrite.error(MISS, "the live server ended before the answer")
        self._conversation.pass_on(said(call, "error", error))

    def _heard(self, text: bytes, event: str | None, call: Call | None = None) -> None:
        """A message of the live server, and the call that it came for."""
        self._conversation.deck.overhear(text)
        if event == "endpoint" and self._endpoint is not None and not self._endpoint.done():
            named = text.decode("utf-8", "replace").strip()
            path = self._through.path_here(self._through.path, named)
            if path is None:
                self._note(f"the live server wants messages at another server, {named}, which is asked nothing")
            self._endpoint.set_result(path or self._through.path)  # what is posted there will tell
            return
        for message, part in taken_apart(text):
            if message.kind == "response":
                self._answer(message, part, call)
            else:
                asked = self._questions.ask(message, part)
                self._conversation.pass_on(Send(asked + b"\n", call.channel if call else "", call, False))

    def _answer(self, answer: frames.Message, text: bytes, call: Call | None) -> None:
        call = self._waiting.pop(answer.rpc_id or "", None) or call
        if call is None:
            return  # of the handshake
        self._waiting.pop(call.rpc_id, None)
        if answer.rpc_id != call.rpc_id:
            text = rewrite.refusal(text, call.rpc_id)
        self._conversation.pass_on(Send(text + b"\n", call.channel, call, True))

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)
        return task

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):  # a bug of ours: who waits for what it was about must not wait for ever
            self._conversation.fail(error)


async def _after(ready: asyncio.Task[None], work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    await ready
    await work()


# Asking the live server through the proxy that records it, without a client of our own --------------------


class Through:
    """One client's requests to the live server, in a session that it has there."""

    def __init__(self, proxy: Proxy, path: bytes) -> None:
        self._proxy = proxy
        self.path = path
        self.session: bytes | None = None

    async def ask(
        self, verb: str, headers: Headers, body: bytes, hear: Hear, left: asyncio.Event | None = None
    ) -> Refused | None:
        """One request; each message of the response is heard. `left`: set when the client leaves."""
        path = self.path
        for _ in range(_MOST_REDIRECTS):
            response = _Response(hear)
            await self._proxy(self._scope(verb, path, headers, body), _receive(body, left), response.send)
            self.session = self.session or response.session
            if response.redirect is None:
                return response.refused
            here = self.path_here(path, response.redirect)
            if here is None:
                return _elsewhere(response.redirect)
            path = here
        return _refused(f"the server redirects more than {_MOST_REDIRECTS} times")

    def path_here(self, path: bytes, location: str) -> bytes | None:
        """Where a redirect, or an endpoint, leads within the server; None where it leads to another."""
        try:
            url = urljoin(self._proxy.origin + path.decode("latin-1"), location)
            if origin_of(url) != origin_of(self._proxy.origin):
                return None
        except ValueError:
            return None
        parts = urlsplit(url)
        return f"{parts.path}?{parts.query}".rstrip("?").encode("latin-1", "replace")

    def _scope(self, verb: str, path: bytes, headers: Headers, body: bytes) -> Scope:
        own = [(b"accept", _ACCEPTS[verb])]
        own += [(b"content-length", b"%d" % len(body))] if body else []
        own += [(_SESSION, self.session)] if self.session else []
        kept = [(name, value) for name, value in headers if name not in _OURS and (body or name != b"content-type")]
        raw, _, query = path.partition(b"?")
        return {"method": verb, "raw_path": raw, "query_string": query, "headers": [*kept, *own]}


class Refused(NamedTuple):
    """A response that is an error of HTTP."""

    status: int
    content_type: str
    body: bytes


def _elsewhere(location: str) -> Refused:
    url = location.partition("?")[0]  # what stands behind it may be secret
    return _refused(f"the server redirects to {url}, which is another server and was sent nothing")


def _refused(reason: str) -> Refused:
    error = rewrite.error(rewrite.REFUSED, f"mcp-tape: {reason}")
    return Refused(502, "application/json", f'{{"jsonrpc":"2.0","id":null,"error":{error}}}'.encode())


class _Response:
    """Takes a response apart as it comes."""

    def __init__(self, hear: Hear) -> None:
        self._hear = hear
        self._framing: Events | Whole = Whole()
        self.session: bytes | None = None
        self.redirect: str | None = None
        self.refused: Refused | None = None

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._begin(message["status"], message["headers"])
            return
        if self.refused is not None:
            self.refused = self.refused._replace(body=self.refused.body + message["body"])
            return
        units: list[Any] = [*self._framing.feed(message["body"])]
        for unit in units if message.get("more_body") else [*units, *self._framing.close()]:
            if isinstance(unit, Event):
                if unit.text:
                    self._hear(unit.text, unit.field(b"event"))
            else:
                self._hear(unit[0], None)

    def _begin(self, status: int, headers: Headers) -> None:
        session, location = header(headers, _SESSION), header(headers, b"location")
        self.session = session.encode() if session else None
        if status in _REDIRECTS and location:
            self.redirect = location
        content_type = header(headers, b"content-type") or ""
        if status >= 400:
            self.refused = Refused(status, content_type, b"")
        elif content_type.lower().startswith("text/event-stream"):
            self._framing = Events()


def _receive(body: bytes, left: asyncio.Event | None) -> Callable[[], Any]:
    """What an application is given to read a request, and to hear that the client has left."""
    requests = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> MutableMapping[str, Any]:
        message = next(requests, None)
        if message is not None:
            return message
        await (left or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    return receive
