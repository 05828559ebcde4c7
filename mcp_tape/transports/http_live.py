"""A live HTTP server beside a replay: what the tape cannot answer is asked there, and recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, MutableMapping
from typing import TYPE_CHECKING, Any

from .. import frames, protocol, rewrite
from ..framing import Event, Events, Whole
from ..playback import MISS, Send, said
from .conversation import Conversation
from .http import Server
from .proxy import Proxy
from .web import Headers, Scope, header

if TYPE_CHECKING:
    from ..calls import Call
    from .http import Stage

_SESSION = protocol.SESSION_HEADER.encode()
_DROPPED = (b"content-length", b"transfer-encoding", b"accept-encoding", b"host", _SESSION)


class LiveServer(Server):
    """Plays the tape; asks the server behind a recording proxy for the rest."""

    def __init__(self, stage: Stage, stop: Callable[[], None], proxy: Proxy, path: bytes, note: Callable[[str], None]):
        super().__init__(stage, stop)
        self._proxy = proxy
        self._path = path
        self._note = note
        self._links: dict[str, _Link] = {}  # by session
        self._missed: list[Call] = []
        self.passed_on = 0

    def _pass_on(self, call: Call) -> bool:
        self._missed.append(call)
        self.passed_on += 1
        self._note(f"passed on to the live server: {' '.join(filter(None, (call.message.method, call.message.name)))}")
        return True

    def _take(self, conversation: Conversation, headers: Headers, body: bytes, channel: str) -> None:
        messages = frames.parse(body)[1]
        link = self._links.get(conversation.number)
        if link is None:
            link = self._links[conversation.number] = _Link(self._proxy, self._path, conversation, self._note)
        link.hear(messages, headers, body)
        if len(messages) == 1 and messages[0].kind == "response" and link.takes(messages[0], headers, body):
            return
        super()._take(conversation, headers, body, channel)
        missed, self._missed = self._missed, []
        for call in missed:
            link.tell(headers, call.text, call)


class _Link:
    """One client's session at the live server."""

    def __init__(self, proxy: Proxy, path: bytes, conversation: Conversation, note: Callable[[str], None]) -> None:
        self._proxy = proxy
        self._path = path
        self._conversation = conversation
        self._note = note
        self._handshake: list[tuple[Headers, bytes]] = []
        self._session: bytes | None = None
        self._ready: asyncio.Task[None] | None = None
        self._asked: dict[str, str] = {}  # its own requests: the id they went out with, and theirs
        self._tasks: set[asyncio.Task[None]] = set()

    def hear(self, messages: list[frames.Message], headers: Headers, body: bytes) -> None:
        """Remember how the client began; what it tells everybody is told the live server too."""
        for message in messages:
            begins = message.method == protocol.INITIALIZE
            if begins or message.method in protocol.notification_names("initialized"):
                self._handshake.append((headers, body))
            elif message.kind == "notification" and self._ready is not None:
                self.tell(headers, body, None)

    def takes(self, answer: frames.Message, headers: Headers, body: bytes) -> bool:
        """Pass on an answer to a question of the live server, if it is one."""
        theirs = self._asked.pop(answer.rpc_id or "", None)
        if theirs is not None:
            self.tell(headers, rewrite.with_id(body, answer.rpc_id, theirs), None)
        return theirs is not None

    def tell(self, headers: Headers, body: bytes, call: Call | None) -> None:
        if self._ready is None:
            self._note("a miss: asking the live server; only the handshake was replayed to it")
            self._ready = self._start(self._greet())
        asking = self._start(self._ask(self._ready, headers, body, call))
        if call is not None and not self._conversation.number:
            self._conversation.when_left(call.channel, asking.cancel)  # the modern way to cancel

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _greet(self) -> None:
        for headers, body in self._handshake:
            await self._request("POST", headers, body, lambda text: None)
        if self._session is not None:
            headers = [(b"accept", b"text/event-stream")]
            self._start(self._request("GET", headers, b"", lambda text: self._send(text, None)))

    async def _ask(self, ready: asyncio.Task[None], headers: Headers, body: bytes, call: Call | None) -> None:
        await ready
        answered = False

        def heard(text: bytes) -> None:
            nonlocal answered
            answered = self._send(text, call) or answered

        await self._request("POST", headers, body, heard)
        if call is not None and not answered:
            error = rewrite.error(MISS, "the live server ended before the answer")
            self._conversation.pass_on(said(call, "error", error))

    def _send(self, text: bytes, call: Call | None) -> bool:
        """Pass on a message of the live server; whether it answers the call."""
        messages = frames.parse(text)[1]
        if not messages:
            return False
        first = messages[0]
        if first.kind == "request" and first.rpc_id is not None:
            text = self._with_free_id(first.rpc_id, text)
        answers = first.kind == "response" and call is not None
        self._conversation.pass_on(Send(text + b"\n", call.channel if call else "", call, answers))
        return answers

    def _with_free_id(self, theirs: str, text: bytes) -> bytes:
        """Both servers count for themselves: an id that is in flight is replaced."""
        names = (theirs, *(f'"live-{n}"' for n in range(1, len(self._asked) + 3)))
        deck = self._conversation.deck
        live = next(name for name in names if name not in self._asked and not deck.is_asking(name))
        self._asked[live] = theirs
        return rewrite.with_id(text, theirs, live)

    async def _request(self, verb: str, headers: Headers, body: bytes, hear: Callable[[bytes], object]) -> None:
        """One request, through the proxy that records it; each message of the response is heard."""
        framing: Events | Whole = Whole()
        own = [(b"content-length", b"%d" % len(body))] if body else []
        session = [(_SESSION, self._session)] if self._session else []
        kept = [(name, value) for name, value in headers if name not in _DROPPED]
        scope: Scope = {"method": verb, "raw_path": self._path, "query_string": b"", "headers": [*kept, *own, *session]}
        requests = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> dict[str, Any]:
            message = next(requests, None)
            return message if message is not None else await asyncio.Future()

        async def send(message: MutableMapping[str, Any]) -> None:
            nonlocal framing
            if message["type"] == "http.response.start":
                told = message["headers"]
                session = header(told, _SESSION)
                self._session = session.encode() if session and not self._session else self._session
                if (header(told, b"content-type") or "").startswith("text/event-stream"):
                    framing = Events()
                return
            units: list[Any] = [*framing.feed(message["body"])]
            for unit in units if message.get("more_body") else [*units, *framing.close()]:
                text = unit.text if isinstance(unit, Event) else unit[0]
                if text:
                    hear(text)

        await self._proxy(scope, receive, send)
