"""One HTTP response of a replay: JSON or events, as it was recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...replay.sends import Hangup, Refuse, Reset, Send
from ...wire import frames, framing, protocol, rewrite
from ...wire.channels import is_http
from . import shortcut
from .asgi import Headers, Receive, Scope, abort, answer, reset
from .asgi import Send as Reply
from .streams import Conversation, Stream

if TYPE_CHECKING:
    from ...replay.sends import Call

JSON = b"application/json"
_READING = 0.01  # seconds for a client to read, which nothing shows over HTTP
_EVENTS: Headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform")]
_ENDED = "mcp-tape: the session was ended before the answer"
_MESSAGE = b"event: message\n"


class Response:
    """Sends the actions of one stream, until its end."""

    def __init__(
        self,
        conversation: Conversation,
        stream: Stream,
        scope: Scope,
        receive: Receive,
        send: Reply,
        hang_up: Callable[[int], None],
    ) -> None:
        self._hang_up = hang_up
        self._conversation = conversation
        self._stream = stream
        self._scope = scope
        self._receive = receive
        self._send = send
        self._started = False
        self._begun: set[Call] = set()  # unanswered calls that something was sent for

    async def run(self, opening: bytes = b"") -> None:
        leaving = asyncio.ensure_future(self._watch())
        try:
            if opening or self._stream.is_get or (self._stream.is_held and self._stream.peek() is None):
                await self._event(opening)
            while (item := await self._stream.next()) is not None:
                if not await self._perform(item):
                    break
            else:
                if not self._started:
                    await self._end_session()
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
        """Perform one action; return whether more may follow."""
        if isinstance(item, Send):
            if not self._started and item.answers and (item.recorded is None or item.recorded.head is None):
                return await self._whole(item)
            await self._be_read(item)
            await self._event(encoded(item))
            return self._stream.unanswered > 0 or self._stream.waits_for_ever or isinstance(self._stream.peek(), Hangup)
        if isinstance(item, Refuse):
            if self._started:
                abort(self._scope)
            else:
                await answer(self._send, item.status, item.body, item.content_type.encode("latin-1", "replace"))
        elif isinstance(item, Reset):
            reset(self._scope)
        else:
            if item.call is None:
                self._hang_up(item.code)
            abort(self._scope)
        self._started = False
        return False

    async def _be_read(self, send: Send) -> None:
        """Let the client read the messages of a call before its answer follows on the one stream of HTTP+SSE.

        TypeScript clients forget a call's progress when its answer comes in the same read.
        """
        if self._stream is not self._conversation.everything or send.call is None:
            return
        if not send.answers:
            self._begun.add(send.call)
        elif send.call in self._begun:
            self._begun.discard(send.call)
            await asyncio.sleep(_READING)

    async def _whole(self, first: Send) -> bool:
        """Send an answer that is the whole response; those of a batch in one array, unless something comes between.

        Where others of the batch have no answer yet, and perhaps never will, those that are there do not wait.
        """
        sends = [first]
        while self._stream.unanswered > 0:
            item = self._stream.peek()
            if not isinstance(item, Send) or not item.answers:
                for send in sends:
                    await self._event(encoded(send))
                return True
            if await self._stream.next() is None:
                return False  # the client has left
            sends.append(item)
        is_cut = isinstance(self._stream.peek(), Hangup)
        status, headers, body = whole(self._conversation, sends, is_cut)
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body, "more_body": is_cut})
        return False

    async def _end_session(self) -> None:
        """Refuse the requests that still wait: the client has ended the session."""
        texts = [rewrite.error_response(rpc_id, protocol.NO_SESSION, _ENDED) for rpc_id in self._stream.asked]
        await answer(self._send, 404, texts[0] if len(texts) == 1 else b"[" + b",".join(texts) + b"]", JSON)

    async def _event(self, data: bytes) -> None:
        if not self._started:
            headers = event_headers(self._conversation)
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
            self._started = True
        await self._send({"type": "http.response.body", "body": data, "more_body": True})


def at_once(conversation: Conversation, stream: Stream) -> bytes | None:
    """Return the whole response of a stream, if nothing more will come."""
    sends = stream.finish()
    if sends is None:
        return None
    conversation.close(stream)
    if len(sends) == 1 and (sends[0].recorded is None or sends[0].recorded.head is None):
        return shortcut.whole(*whole(conversation, sends))
    return shortcut.chunked(event_headers(conversation), [encoded(send) for send in sends])


def whole(conversation: Conversation, sends: list[Send], is_cut: bool = False) -> tuple[int, Headers, bytes]:
    """Status, headers and body of a whole response; the length of one that is to be cut off is larger."""
    texts = [_text(conversation, send) for send in sends]
    body = texts[0] if len(texts) == 1 else b"[" + b",".join(map(_elements, texts)) + b"]"
    status, content = _as_recorded(conversation, sends[0])
    kind = [(b"content-type", content)] if content else []
    return status, [*kind, (b"content-length", b"%d" % (len(body) + is_cut)), *session_header(conversation)], body


def encoded(send: Send) -> bytes:
    """A message as an event."""
    recorded, text = send.recorded, send.text.rstrip(b"\r\n")
    if recorded is None or recorded.head is None:
        return framing.encode(_MESSAGE, text, b"\n")
    return framing.encode(recorded.head, text, (recorded.eol or "\n").encode())


def event_headers(conversation: Conversation) -> Headers:
    return [*_EVENTS, *session_header(conversation)]


def _elements(text: bytes) -> bytes:
    """An answer, or those of a batch, as they stand within an array."""
    text = text.strip()
    return text[1:-1] if text.startswith(b"[") else text


def _text(conversation: Conversation, send: Send) -> bytes:
    if send.recorded is not None and send.recorded.status == "refused":
        return conversation.selection.text(send.recorded)
    return send.text.rstrip(b"\r\n")


def _as_recorded(conversation: Conversation, send: Send) -> tuple[int, bytes]:
    """Status and content type, as recorded; if that was not over HTTP, as the era has it."""
    recorded = send.recorded
    if recorded is not None and recorded.status not in ("error", "refused"):
        return 200, JSON
    is_older = conversation.number and recorded and recorded.status == "error" and conversation.deck.is_older
    if is_older:  # whose era has no statuses for errors: 404 means that the session is over
        return 200, JSON
    if recorded is not None and recorded.channel is not None and is_http(recorded.channel):
        controls = conversation.selection.controls
        status, content = controls.response(recorded.session, recorded.channel or "", recorded.seq)
        return status, content.encode("latin-1", "replace") if recorded.status == "refused" else JSON
    if conversation.number:
        return 200, JSON
    error = next((message.body.get("error") for message in frames.parse(send.text)[1]), None)
    code = protocol.member(error, "code")
    return protocol.ERROR_STATUSES.get(code, 200) if isinstance(code, int) else 200, JSON


def session_header(conversation: Conversation) -> Headers:
    number = conversation.number
    return [(protocol.SESSION_HEADER.encode(), number.encode())] if number else []
