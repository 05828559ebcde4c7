"""Being an HTTP server: Streamable HTTP of both eras at /mcp, HTTP+SSE at /sse."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from .. import frames, framing, protocol, rewrite
from ..playback import Hangup, Refuse, Reset, Send
from .conversation import Conversation, Stream
from .web import Headers, Receive, Scope, abort, answer, header, reset
from .web import Send as Reply

if TYPE_CHECKING:
    from typing import Protocol

    from ..calls import Call
    from ..deck import Deck
    from ..finding import Repeats
    from ..playback import Player

    class Stage(Protocol):
        """Has a deck for each client that comes."""

        def deck(
            self,
            pass_on: Callable[[Call], bool],
            *,
            repeats: Repeats = "error",
            legacy: bool | None = None,
            shortcuts: bool = True,
        ) -> tuple[Player, Deck]: ...


PATH, SSE_PATH, MESSAGES_PATH = "/mcp", "/sse", "/messages"
_JSON = b"application/json"
_READING = 0.01  # seconds for a client to read; there is no telling when it has
_EVENTS: Headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform")]
_MESSAGE = b"event: message\n"
_NO_SESSION = rewrite.error(-32001, "mcp-tape: there is no such session; begin one with initialize")
_SESSION_WANTED = rewrite.error(-32000, "mcp-tape: the header Mcp-Session-Id is missing")
_NOT_JSON = rewrite.error(-32700, "mcp-tape: the body is no JSON-RPC message")
_ERA_STATUSES = {-32601: 404, -32020: 400, -32021: 400, -32022: 400}  # of the modern era


class Server:
    """An ASGI application: a deck for each session of the legacy era, one for all of the modern."""

    def __init__(self, stage: Stage, stop: Callable[[], None]) -> None:
        self._stage = stage
        self._stop = stop
        self._numbers = count(1)
        self._conversations: dict[str, Conversation] = {}
        self._modern: Conversation | None = None
        self.code: int | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Reply) -> None:
        route = (scope["method"], scope["path"].rstrip("/"))
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
        elif scope["path"].rstrip("/") in (PATH, SSE_PATH, MESSAGES_PATH):
            await answer(send, 405, "mcp-tape: method not allowed\n")
        else:
            await answer(send, 404, f"mcp-tape: nothing is served here; see {PATH} and {SSE_PATH}\n")

    # -- Streamable HTTP

    async def _post(self, scope: Scope, receive: Receive, send: Reply) -> None:
        body = await _read(receive)
        if body is None:
            return
        messages = frames.parse(body)[1]
        if not messages:
            await _refuse(send, 400, _NOT_JSON)
            return
        conversation = self._whose(scope["headers"], messages)
        if isinstance(conversation, str):
            await _refuse(send, 404 if conversation is _NO_SESSION else 400, conversation)
            return
        channel = f"post-{next(self._numbers)}"
        asked = [message for message in messages if message.kind == "request"]
        if not asked:
            self._take(conversation, scope["headers"], body, channel)
            await _accept(send, conversation)
            return
        stream = conversation.open(channel, len(asked), any(message.method == protocol.LISTEN for message in asked))
        self._take(conversation, scope["headers"], body, channel)
        await _Response(self, conversation, stream, scope, receive, send).run()

    def _whose(self, headers: Headers, messages: list[frames.Message]) -> Conversation | str:
        number = header(headers, protocol.SESSION_HEADER.encode())
        if number is not None:
            return self._conversations.get(number, _NO_SESSION)
        if any(message.method == protocol.INITIALIZE for message in messages):
            return self._begin()
        version = header(headers, protocol.VERSION_HEADER.encode())
        if any(protocol.is_modern(message.body, version) for message in messages):
            if self._modern is None:
                decks = self._stage.deck(self._pass_on, repeats="cycle", legacy=False, shortcuts=False)
                self._modern = Conversation(*decks, "")
            return self._modern
        return _SESSION_WANTED

    def _begin(self) -> Conversation:
        """A new session: the first has the recorded id, others that with a number."""
        player, deck = self._stage.deck(self._pass_on, legacy=True, shortcuts=False)
        first = deck.selection.controls.session_id(deck.selection.sessions[0])
        ids = (f"{first}-{n}" if n > 1 else first for n in count(1)) if first else (f"tape-{n}" for n in count(1))
        number = next(one for one in ids if one not in self._conversations)
        self._conversations[number] = Conversation(player, deck, number)
        return self._conversations[number]

    async def _get(self, scope: Scope, receive: Receive, send: Reply) -> None:
        number = header(scope["headers"], protocol.SESSION_HEADER.encode())
        conversation = self._conversations.get(number or "")
        if number is None:
            await answer(send, 405, "mcp-tape: without a session there is no GET stream\n")
        elif conversation is None:
            await _refuse(send, 404, _NO_SESSION)
        elif conversation.refuses_listeners:
            await answer(send, 405, "mcp-tape: as recorded, there is no GET stream\n")
        else:
            resumed = header(scope["headers"], protocol.RESUME_HEADER.encode())
            stream = conversation.listen(f"get-{next(self._numbers)}", resumed)
            await _Response(self, conversation, stream, scope, receive, send).run()

    async def _delete(self, scope: Scope, send: Reply) -> None:
        conversation = self._conversations.pop(header(scope["headers"], protocol.SESSION_HEADER.encode()) or "", None)
        if conversation is None:
            await _refuse(send, 404, _NO_SESSION)
        else:
            conversation.end()
            await answer(send, 200, b"")

    # -- HTTP+SSE

    async def _sse(self, scope: Scope, receive: Receive, send: Reply) -> None:
        conversation = self._begin()
        conversation.everything = stream = conversation.listen("sse", None)
        conversation.flush()
        endpoint = f"{MESSAGES_PATH}?sessionId={conversation.number}"
        opening = framing.encode(b"event: endpoint\n", endpoint.encode(), b"\n")
        await _Response(self, conversation, stream, scope, receive, send).run(opening)
        self._conversations.pop(conversation.number, None)

    async def _sse_post(self, scope: Scope, receive: Receive, send: Reply) -> None:
        number = parse_qs(scope["query_string"].decode("latin-1")).get("sessionId", [""])[0]
        conversation = self._conversations.get(number)
        body = await _read(receive)
        if conversation is None or conversation.everything is None:
            await _refuse(send, 404, _NO_SESSION)
        elif body is not None and not frames.parse(body)[1]:
            await _refuse(send, 400, _NOT_JSON)
        elif body is not None:
            await answer(send, 202, "Accepted")
            self._take(conversation, scope["headers"], body, "sse")

    # -- where a live server may step in

    def _pass_on(self, call: Call) -> bool:
        return False

    def _take(self, conversation: Conversation, headers: Headers, body: bytes, channel: str) -> None:
        """What a client posted, for the deck."""
        conversation.receive(body, channel)

    def rewind(self) -> None:
        """The next client of the modern era finds the tape at its start; those of the legacy era always do."""
        self._modern = None

    def hang_up(self, code: int) -> None:
        self.code = code
        self._stop()


class _Response:
    """One response: JSON or events, as it was recorded."""

    def __init__(
        self, server: Server, conversation: Conversation, stream: Stream, scope: Scope, receive: Receive, send: Reply
    ) -> None:
        self._server = server
        self._conversation = conversation
        self._stream = stream
        self._scope = scope
        self._receive = receive
        self._send = send
        self._started = False
        self._told: set[Call] = set()  # unanswered calls that something was sent for

    async def run(self, opening: bytes = b"") -> None:
        leaving = asyncio.ensure_future(self._watch())
        try:
            if opening or (self._stream.is_held and self._stream.peek() is None):
                await self._event(opening)
            while (item := await self._stream.next()) is not None:
                if not await self._perform(item):
                    break
            if self._started:
                await self._send({"type": "http.response.body", "body": b""})
        finally:
            leaving.cancel()
            self._conversation.close(self._stream)

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._stream.leave()

    async def _perform(self, item: Send | Hangup | Refuse | Reset) -> bool:
        """Do one thing; whether more may follow."""
        if isinstance(item, Send):
            if not self._started and item.answers and (item.recorded is None or item.recorded.head is None):
                await self._whole(item)
                return False
            await self._be_read(item)
            await self._event(self._encoded(item))
            return self._stream.unanswered > 0 or self._stream.waits_for_ever
        if isinstance(item, Refuse):
            await answer(self._send, item.status, b"") if not self._started else abort(self._scope)
        elif isinstance(item, Reset):
            reset(self._scope)
        elif item.call is None:
            self._server.hang_up(item.code)
        else:
            abort(self._scope)
        self._started = False
        return False

    async def _be_read(self, send: Send) -> None:
        """Let the client read what a call has told before its answer follows on the one stream of HTTP+SSE.

        TypeScript clients forget a call's progress when its answer comes in the same read.
        """
        if self._stream is not self._conversation.everything or send.call is None:
            return
        if not send.answers:
            self._told.add(send.call)
        elif send.call in self._told:
            self._told.discard(send.call)
            await asyncio.sleep(_READING)

    async def _whole(self, first: Send) -> None:
        """An answer that is all there is; those of a batch in one array."""
        sends = [first]
        while self._stream.unanswered and not first.text.lstrip().startswith(b"["):
            item = await self._stream.next()
            if item is None:
                return
            if isinstance(item, Send) and item.answers:
                sends.append(item)
        texts = [self._text(send) for send in sends]
        body = texts[0] if len(texts) == 1 else b"[" + b",".join(texts) + b"]"
        cut = self._stream.peek()
        length = len(body) + 1 if isinstance(cut, Hangup) else len(body)
        headers = [(b"content-type", _JSON), (b"content-length", b"%d" % length), *_session(self._conversation)]
        await self._send({"type": "http.response.start", "status": self._status(first), "headers": headers})
        await self._send({"type": "http.response.body", "body": body, "more_body": length > len(body)})

    async def _event(self, data: bytes) -> None:
        if not self._started:
            headers = [*_EVENTS, *_session(self._conversation)]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
            self._started = True
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    def _encoded(self, send: Send) -> bytes:
        recorded, text = send.recorded, send.text.rstrip(b"\r\n")
        if recorded is None or recorded.head is None:
            return framing.encode(_MESSAGE, text, b"\n")
        return framing.encode(recorded.head, text, (recorded.eol or "\n").encode())

    def _text(self, send: Send) -> bytes:
        if send.recorded is not None and send.recorded.status == "refused":
            return self._conversation.selection.text(send.recorded)
        return send.text.rstrip(b"\r\n")

    def _status(self, send: Send) -> int:
        """As recorded; where that was no HTTP, as the era has it."""
        recorded, selection = send.recorded, self._conversation.selection
        if recorded is not None and recorded.status not in ("error", "refused"):
            return 200
        if recorded is not None and recorded.channel not in (None, "stdio"):
            return selection.controls.status(recorded.session, recorded.channel or "", recorded.seq) or 200
        if self._conversation.number:
            return 200
        error = frames.parse(send.text)[1][0].body.get("error")
        return _ERA_STATUSES.get(protocol.member(error, "code"), 200)


async def _read(receive: Receive) -> bytes | None:
    """A request's body; None where the client left before it was whole."""
    pieces = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(pieces)


async def _accept(send: Reply, conversation: Conversation) -> None:
    headers = [(b"content-length", b"0"), *_session(conversation)]
    await send({"type": "http.response.start", "status": 202, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def _refuse(send: Reply, status: int, error: str) -> None:
    await answer(send, status, f'{{"jsonrpc":"2.0","id":null,"error":{error}}}', _JSON)


def _session(conversation: Conversation) -> Headers:
    number = conversation.number
    return [(protocol.SESSION_HEADER.encode(), number.encode())] if number else []
