"""One HTTP response of a replay: JSON or events, as recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...cassette import schema
from ...replay.sends import Action, Challenge, Hangup, Refuse, Reset, Send, Silence
from ...wire import frames, framing, protocol, rewrite
from ...wire.channels import is_http
from .message import Headers
from .streams import Conversation, Stream

if TYPE_CHECKING:
    from ...replay.sends import ClientCall
    from .listen import HttpRequest

JSON = b"application/json"
_READING = 0.01  # seconds for a client to read: over HTTP nothing shows when it has
_EVENTS: Headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform")]
_ENDED = "mcp-tape: the session ended before the answer"
_MESSAGE = b"event: message\n"


class Response:
    """Sends the actions of one stream until its end."""

    def __init__(
        self,
        conversation: Conversation,
        stream: Stream,
        request: HttpRequest,
        hang_up: Callable[[int], None],
        fail: Callable[[HttpRequest, Exception], None],
        when_closed: Callable[[], object] = lambda: None,
        challenge: Callable[[HttpRequest, Challenge], None] = lambda request, fault: None,
    ) -> None:
        """`hang_up` ends the server with an exit code. `fail` answers a request that failed, `challenge` one that needs
        another token.
        """
        self._challenge = challenge
        self._conversation = conversation
        self._stream = stream
        self._request = request
        self._hang_up = hang_up
        self._fail = fail
        self._when_closed = when_closed
        self._begun: set[ClientCall] = set()  # unanswered calls with messages already sent
        self._is_reading = False  # waiting for the client to read

    def run(self, opening: bytes = b"") -> None:
        """Send the stream's actions, now and as they are queued. `opening` goes first."""
        stream, request = self._stream, self._request
        request.when_left = self._leave
        request.when_writable = self.go_on
        stream.sender = self
        if opening or stream.is_get or (stream.is_held and stream.peek() is None):
            self._event(opening)
        self.go_on()

    def go_on(self) -> None:
        stream, request = self._stream, self._request
        try:
            while stream.items and not (request.is_over or request.is_held_up or self._is_reading):
                self._perform(stream.take())
        except Exception as error:
            self._fail(request, error)
        if request.is_over:
            self._close()

    def fail(self, error: Exception) -> None:
        self._fail(self._request, error)
        self._close()

    def stop(self) -> None:
        self._detach()
        self._request.end()

    def _leave(self) -> None:
        self._stream.leave()
        self._close()

    def _close(self) -> None:
        self._detach()
        self._conversation.close(self._stream)
        self._when_closed()

    def _detach(self) -> None:
        self._stream.sender = None
        self._request.when_left = self._request.when_writable = lambda: None

    def _perform(self, item: Action | None) -> None:
        request = self._request
        if isinstance(item, Send):
            self._send(item)
        elif item is None:
            self._end()
        elif isinstance(item, Refuse):
            if request.has_begun:
                request.abort()
            else:
                about = {b"content-type": item.content_type if item.body else "", b"www-authenticate": item.challenge}
                headers = [(name, value.encode("latin-1", "replace")) for name, value in about.items() if value]
                request.respond(item.status, headers, item.body)
        elif isinstance(item, Challenge):
            if request.has_begun:
                request.abort()
            else:
                self._challenge(request, item)
        elif isinstance(item, Reset):
            request.reset()
        elif isinstance(item, Silence):
            self._begin_as_recorded(item.call)
        else:
            if item.call is None:
                self._hang_up(item.code)
            request.abort()

    def _begin_as_recorded(self, call: ClientCall) -> None:
        """Begin a response without an answer, if the recorded one had begun."""
        selection, recorded = self._conversation.selection, call.recorded
        channel = selection.facts(recorded).channel if recorded else None
        if recorded and channel and not self._request.has_begun:
            _, content = selection.controls.response(recorded.session, channel, schema.MOST)
            if content.startswith("text/event-stream"):
                self._event(b"")

    def _send(self, item: Send) -> None:
        stream = self._stream
        if not self._request.has_begun and item.answers and (item.recorded is None or item.recorded.head is None):
            sends = [item, *stream.take_answers()]
            is_cut = isinstance(stream.peek(), Hangup)
            if stream.unanswered <= 0 and (is_cut or not self._conversation.goes_on(stream, sends[-1])):
                self._send_whole(sends, is_cut)
                return
        else:
            sends = [item]
            if self._lets_read(item):
                return
        for send in sends:
            self._event(encode_event(send))
        if stream.unanswered <= 0 and not stream.waits_for_ever and not self._conversation.goes_on(stream, sends[-1]):
            self._request.end()

    def _send_whole(self, sends: list[Send], is_cut: bool) -> None:
        """Send answers as the whole response, those of a batch in one array, unless other messages come with them.

        Answers do not wait for others of the batch that are missing and may never come.
        """
        texts = [_text(self._conversation, send) for send in sends]
        body = texts[0] if len(texts) == 1 else b"[" + b",".join(map(_elements, texts)) + b"]"
        status, content = _recorded_status(self._conversation, sends[0])
        headers = [*([(b"content-type", content)] if content else []), *session_header(self._conversation)]
        if is_cut:  # the content-length is larger than the body
            self._request.begin(status, headers, len(body) + 1)
            self._request.put(body)
        else:
            self._request.respond(status, headers, body)

    def _lets_read(self, send: Send) -> bool:
        """Let the client read the messages of a call before its answer follows on the one stream of HTTP+SSE.

        TypeScript clients lose a call's progress if its answer comes in the same read.
        """
        if self._stream is not self._conversation.everything or send.call is None:
            return False
        if not send.answers:
            self._begun.add(send.call)
        elif send.call in self._begun:
            self._begun.discard(send.call)
            self._stream.put_back(send)
            self._is_reading = True
            asyncio.get_running_loop().call_later(_READING, self._resume_after_read)
            return True
        return False

    def _resume_after_read(self) -> None:
        self._is_reading = False
        self.go_on()

    def _end(self) -> None:
        """End a stream before its answer, with an error if nothing was sent: the client has ended the session."""
        if self._request.has_begun:
            self._request.end()
            return
        texts = [rewrite.error_response(rpc_id, protocol.NO_SESSION, _ENDED) for rpc_id in self._stream.asked]
        body = texts[0] if len(texts) == 1 else b"[" + b",".join(texts) + b"]"
        self._request.respond(404, [(b"content-type", JSON)], body)

    def _event(self, data: bytes) -> None:
        if not self._request.has_begun:
            self._request.begin(200, [*_EVENTS, *session_header(self._conversation)])
        self._request.put(data)


def encode_event(send: Send) -> bytes:
    """Return a message as an event."""
    recorded, text = send.recorded, send.text.rstrip(b"\r\n")
    if recorded is None or recorded.head is None:
        return framing.encode(_MESSAGE, text, b"\n")
    return framing.encode(recorded.head, text, (recorded.eol or "\n").encode())


def _elements(text: bytes) -> bytes:
    """The answer, or the answers of a batch, without the brackets of an array."""
    text = text.strip()
    return text[1:-1] if text.startswith(b"[") else text


def _text(conversation: Conversation, send: Send) -> bytes:
    if send.recorded is not None and send.recorded.status == "refused":
        return conversation.selection.text(send.recorded)
    return send.text.rstrip(b"\r\n")


def _recorded_status(conversation: Conversation, send: Send) -> tuple[int, bytes]:
    """Status and content type: as recorded, or as usual in the era if the recording was not made over HTTP."""
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
