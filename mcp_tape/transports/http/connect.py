"""A client for servers at a URL: Streamable HTTP of both eras, and the older HTTP+SSE.

It runs an event loop in its own thread; callers use it like a pipe.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import queue
import threading
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx2

from ...errors import ServerError
from ...wire import frames, protocol, rewrite
from ...wire.frames import Message
from ...wire.framing import EVENT_STREAM
from ...wire.jsontext import Path
from ..headers import headers_of_message, tool_headers
from ..stdio.connect import ServerEnd
from .addresses import is_loopback
from .upstream import IncomingResponse, ResumeMark, failure_reason, origin_of, resolve_within, trusted_certificates

_CONNECT = 30.0  # seconds
_POSTED = 10.0  # seconds for a notification or a response to be accepted
_HEARD = 0.5  # seconds for a GET stream to be opened
_LEAVING = 5.0
_MOST_RESUMED = 100  # attempts to resume a stream
_MOST_REDIRECTS = 20
_ACCEPTS = {"POST": "application/json, text/event-stream", "GET": EVENT_STREAM, "DELETE": EVENT_STREAM}


class HttpConnection:
    """A connection to a server at a URL.

    `sse`: use HTTP+SSE. `listen`: open a GET stream for messages that belong to no request. `late`: open it only after
    `notifications/initialized`, so messages that the server sends at once are missed. `again`: reopen it whenever the
    server closes it.
    """

    def __init__(
        self,
        url: str,
        headers: Sequence[tuple[str, str]] = (),
        cacert: str | None = None,
        *,
        sse: bool = False,
        listen: bool = True,
        late: bool = False,
        again: bool = False,
    ) -> None:
        self._url = self._posts_to = url
        self._sse = sse
        self._listens = listen and not sse
        self._late = late
        self._again = again
        self._session: str | None = None
        self._version: str | None = None
        self._params: dict[str, dict[Path, str]] = {}
        self._inbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._posts: dict[str, asyncio.Task[None] | None] = {}  # unanswered requests of the modern era, by id
        self._unanswered: set[str] = set()  # the ids of requests
        self._gone: ServerEnd | None = None
        self._heard = threading.Event()  # the GET stream is open, or refused
        self.made_up: dict[str, str] = {}
        self._client = httpx2.AsyncClient(
            headers=list(headers),
            verify=trusted_certificates(url, cacert),
            timeout=httpx2.Timeout(None, connect=_CONNECT),
            trust_env=not is_loopback(urlsplit(url).hostname or ""),
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        if sse:
            try:
                self._run(self._open_old(), _CONNECT)
            except ServerError:
                self.close()
                raise

    def __enter__(self) -> HttpConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, text: bytes, headers: Mapping[str, str] = {}) -> None:
        """Send a message. Unless it is a request, wait until the server accepts it.

        Headers derived from the message override `headers`.
        """
        text = text.rstrip(b"\r\n")
        messages = frames.parse(text)[1]
        if self._cancels(messages):
            return
        body = messages[0].body if len(messages) == 1 else {}
        params = self._params.get(messages[0].name or "", {}) if body else {}
        own = dict(headers) | headers_of_message(body, params)
        is_legacy = any(message.method in protocol.INITIALIZED_NAMES for message in messages)
        if is_legacy and self._listens and not self._late:
            self._open_stream()  # before the notification: some servers send messages at once
        self._unanswered |= {message.rpc_id for message in messages if message.kind == "request" and message.rpc_id}
        posting = self._post(text, messages, own)
        if any(message.kind == "request" for message in messages) and not self._sse:
            self._start(posting, messages[0].rpc_id if protocol.is_modern(body) else None)
        else:
            self._run(posting, _POSTED)
        if is_legacy and self._listens and self._late:
            self._open_stream()

    def receive(self, timeout: float) -> bytes | None:
        """Return the next message of the server; None if none arrives in time."""
        try:
            return self._inbox.get(timeout=max(0.0, timeout))
        except queue.Empty:
            return None

    def wake(self) -> None:
        """Let `receive` return."""
        self._inbox.put(None)

    @property
    def is_waiting(self) -> bool:
        """Whether a request is unanswered, or an answer has not been taken yet."""
        return bool(self._unanswered) or not self._inbox.empty()  # an answer enters before its request is dropped

    @property
    def ended(self) -> ServerEnd | None:
        return self._gone if self._inbox.empty() else None

    def stderr(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        """Close all streams, and end the session."""
        self._run(self._leave(), _LEAVING)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_LEAVING)
        if not self._thread.is_alive():
            self._loop.close()

    # -- in the loop

    async def _post(self, text: bytes, messages: list[Message], headers: Mapping[str, str]) -> None:
        waiting = {message.rpc_id for message in messages if message.kind == "request" and message.rpc_id}
        try:
            async with self._request("POST", text, headers) as response:
                incoming = await self._receive_response(response, waiting)
                if incoming.is_error:
                    self._refuse(incoming.status, incoming.error, waiting)
                    waiting.clear()
                else:
                    await self._resume(incoming.mark, waiting)
            if not self._sse and response.status_code != 202:
                self._answer_with_error(waiting, "the response ended before the answer")
        except httpx2.HTTPError as error:
            self._answer_with_error(waiting, f"cannot reach {self._url}: {failure_reason(error)}")
        except Exception as error:  # any bug: without an answer, the caller would wait for ever
            self._answer_with_error(waiting, f"the answer cannot be read: {type(error).__name__}: {error}")

    async def _resume(self, mark: ResumeMark, waiting: set[str]) -> None:
        """Resume a stream that the server closed before the answer.

        https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server
        """
        for _ in range(_MOST_RESUMED):
            if not waiting or not mark.last:
                return
            await asyncio.sleep(min(mark.retry, _CONNECT))
            async with self._request("GET", b"", {protocol.RESUME_HEADER: mark.last}) as response:
                if (await self._receive_response(response, waiting, mark)).is_error:
                    return

    async def _listen(self) -> None:
        mark = ResumeMark()
        while True:
            with contextlib.suppress(httpx2.HTTPError):
                own = {protocol.RESUME_HEADER: mark.last} if mark.last else {}
                async with self._request("GET", b"", own) as response:
                    self._heard.set()
                    if (await self._receive_response(response, set(), mark)).is_error:
                        return
            if not self._again:
                return
            await asyncio.sleep(min(mark.retry, _CONNECT))

    async def _open_old(self) -> None:
        """HTTP+SSE: open the stream for all messages, and wait for the endpoint to post to."""
        endpoint: asyncio.Future[str] = self._loop.create_future()
        self._begin(self._listen_old(endpoint))
        named = await endpoint
        posts_to = resolve_within(self._url, named)
        if posts_to is None:
            raise ServerError(f"{self._url} wants messages at {_describe_elsewhere(self._url, named)}")
        self._posts_to = posts_to

    async def _listen_old(self, endpoint: asyncio.Future[str]) -> None:
        reason = "the server has closed its stream"
        try:
            async with self._request("GET", b"", {}) as response:
                if (await self._receive_response(response, set(), endpoint=endpoint)).is_error:
                    reason = f"{self._url} answers with HTTP status {response.status_code}"
        except httpx2.HTTPError as error:
            reason = f"cannot reach {self._url}: {failure_reason(error)}"
        self._gone = ServerEnd(None, (), reason)
        self.wake()
        if not endpoint.done():
            endpoint.set_exception(ServerError(reason))

    @contextlib.asynccontextmanager
    async def _request(self, verb: str, body: bytes, headers: Mapping[str, str]) -> AsyncIterator[httpx2.Response]:
        own = {"accept": _ACCEPTS[verb], "accept-encoding": "identity"}
        own |= {"content-type": "application/json"} if verb == "POST" else {}
        own |= {protocol.SESSION_HEADER: self._session} if self._session else {}
        own |= {protocol.VERSION_HEADER: self._version} if self._version else {}
        own |= headers
        url = self._posts_to if verb == "POST" else self._url
        response = await self._send_following(self._client.build_request(verb, url, content=body or None, headers=own))
        try:
            yield response
        finally:
            await response.aclose()

    async def _send_following(self, request: httpx2.Request) -> httpx2.Response:
        """Follow redirects within the server. No other server may get its tokens and restored secrets."""
        for _ in range(_MOST_REDIRECTS):
            try:
                response = await self._client.send(request, stream=True)
            except httpx2.InvalidURL:
                raise httpx2.RequestError("it redirects to an invalid URL") from None
            if response.next_request is None and not response.has_redirect_location:
                return response
            await response.aclose()
            if response.next_request is None:
                raise httpx2.RequestError("it redirects to an invalid URL")
            request = response.next_request
            if origin_of(str(request.url)) != origin_of(self._url):
                shown = request.url.copy_with(userinfo=b"", query=None)  # without the parts that may be secret
                raise httpx2.RequestError(
                    f"it redirects to {shown}, another server, which was sent nothing; to use that one, give its URL"
                )
        raise httpx2.TooManyRedirects(f"it redirects more than {_MOST_REDIRECTS} times")

    async def _receive_response(
        self,
        response: httpx2.Response,
        waiting: set[str],
        mark: ResumeMark | None = None,
        endpoint: asyncio.Future[str] | None = None,
    ) -> IncomingResponse:
        """Receive the messages of a response while it arrives."""
        incoming = IncomingResponse(response.status_code, response.headers.raw, mark)
        if response.status_code == 202:
            return incoming  # accepted; a body would not be a message
        if response.request.method == "POST" and not incoming.is_error:
            self._session = self._session or incoming.session
        async for piece in response.aiter_raw():
            for text, event in incoming.feed(piece):
                if event == "endpoint" and endpoint is not None and not endpoint.done():
                    endpoint.set_result(text.decode("utf-8", "replace").strip())
                else:
                    self._deliver(text, waiting)
        for text, _ in incoming.close():
            self._deliver(text, waiting)
        return incoming

    def _deliver(self, text: bytes, waiting: set[str]) -> None:
        answers = [message for message in frames.parse(text)[1] if message.kind == "response"]
        for message in answers:
            self._learn(message.body)
        self._inbox.put(text)
        for message in answers:
            waiting.discard(message.rpc_id or "")
            self._unanswered.discard(message.rpc_id or "")

    def _learn(self, body: dict[str, Any]) -> None:
        """Learn what later requests must repeat in their headers."""
        result = body.get("result")
        if protocol.member(result, "serverInfo") is not None and self._version is None:
            version = protocol.member(result, "protocolVersion")
            self._version = version if isinstance(version, str) else None
        self._params |= tool_headers(body)

    def _refuse(self, status: int, body: bytes, waiting: set[str]) -> None:
        """Answer the requests of a POST that got an HTTP error."""
        messages = frames.parse(body)[1]
        if status == 502 and b'"mcp-tape cannot reach' in body:  # from a recorder between us and the server
            said = str(protocol.member(messages[0].body.get("error"), "message")) if messages else ""
            self.made_up |= dict.fromkeys(waiting, said.removeprefix("mcp-tape "))
        if any(message.rpc_id in waiting for message in messages):
            self._deliver(body, waiting)
            return
        for rpc_id in waiting:
            what = f"HTTP status {status}", body[:1000].decode("utf-8", "replace")
            own = rewrite.error_response(rpc_id, protocol.SERVER_ERROR, *what)
            self._inbox.put(rewrite.refusal(body, rpc_id) if messages else own)
        self._unanswered -= waiting

    def _answer_with_error(self, waiting: set[str], reason: str) -> None:
        """Answer requests with an error, because no answer will come."""
        for rpc_id in waiting:
            self.made_up[rpc_id] = reason
            self._inbox.put(rewrite.error_response(rpc_id, protocol.SERVER_ERROR, reason))
        self._unanswered -= waiting

    async def _leave(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session:
            with contextlib.suppress(httpx2.HTTPError):
                async with self._request("DELETE", b"", {}):
                    pass
        await self._client.aclose()

    # -- between the threads

    def _open_stream(self) -> None:
        self._start(self._listen())
        self._heard.wait(_HEARD)

    def _cancels(self, messages: list[Message]) -> bool:
        """Cancel a request of the modern era by closing its POST; return False if the message is not such a cancel.

        https://modelcontextprotocol.io/specification/draft/basic/utilities/cancellation
        """
        params = messages[0].body.get("params") if messages and messages[0].method == protocol.CANCELLED else None
        rpc_id = frames.id_text(protocol.member(params, "requestId"))
        self._unanswered.discard(rpc_id or "")
        if params is None or rpc_id not in self._posts:
            return False
        self._loop.call_soon_threadsafe(lambda: (task := self._posts.get(rpc_id)) and task.cancel())
        return True

    def _start(self, work: Coroutine[Any, Any, None], rpc_id: str | None = None) -> None:
        if rpc_id is not None:
            self._posts[rpc_id] = None
        self._loop.call_soon_threadsafe(self._begin, work, rpc_id)

    def _begin(self, work: Coroutine[Any, Any, None], rpc_id: str | None = None) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if rpc_id is not None:
            self._posts[rpc_id] = task
            task.add_done_callback(lambda _: self._posts.pop(rpc_id, None))

    def _run(self, work: Coroutine[Any, Any, None], seconds: float) -> None:
        """Run work in the loop and wait for it, at most for this time."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            future.result(seconds)
        except concurrent.futures.TimeoutError:
            future.cancel()


def _describe_elsewhere(url: str, endpoint: str) -> str:
    try:
        return f"another server, {urljoin(url, endpoint)}"
    except ValueError:
        return f"{endpoint!r}, which is not a URL"
