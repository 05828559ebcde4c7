"""Tapes of scripted HTTP servers, recorded by the real recorder: one of each era, with all that HTTP can do."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from tests.support.http import JSON, LAST, Client, Message, Upstream, Wire, answer, ask, begin, chunk
from tests.support.http_running import (
    HELLO,
    INITIALIZE,
    INITIALIZED,
    call,
    event,
    failure,
    modern,
    recording,
    result,
    said,
)
from tests.support.running import WAIT

NUMBER = "a+b/c=1"  # the id of the recorded session, in the form of real servers
CHANGED = said(method="notifications/tools/list_changed")
SAMPLING = said(id=1, method="sampling/createMessage", params={"messages": []})
SAMPLED = result(1, role="assistant")
TOOLS = b'{\n  "jsonrpc": "2.0",\n  "id": 1,\n  "result": {\n    "tools": []\n  }\n}'  # for people
NO_RPC = b'{"detail": [{"loc": ["body"], "msg": "field required"}]}'


def tool(rpc_id: int | str, name: str, **more: Any) -> bytes:
    return call(rpc_id, name=name, **more)


def progress(token: int | str, done: int) -> bytes:
    return said(method="notifications/progress", params={"progressToken": token, "progress": done})


def with_token(rpc_id: int | str, name: str, token: int | str) -> bytes:
    """A call that asks for progress."""
    return tool(rpc_id, name, _meta={"progressToken": token})


EVENTFUL = [
    event(progress("t", 1), b"id: e1\r\nevent: message\r\n", b"\r\n"),
    event(said(method="notifications/message", params={"data": "é"}), b"id: e2\r\n", b"\r\n"),
    event(result(3, text="with events"), b"id: e3\r\nevent: message\r\n", b"\r\n"),
]


class Legacy:
    """A server of the legacy era; each tool answers in another way that HTTP allows."""

    def __init__(self) -> None:
        self._listening: Wire | None = None
        self._answered = threading.Event()

    def __call__(self, request: Message, wire: Wire) -> None:
        if request.verb == "GET":
            self._get(request, wire)
        elif request.verb == "DELETE":
            wire.send(answer())
        else:
            self._post(request.document, wire)

    def _get(self, request: Message, wire: Wire) -> None:
        if request.header("last-event-id"):
            wire.send(begin() + chunk(event(result(8, text="resumed"), b"id: late/2\n")) + LAST)
        else:
            wire.send(begin())
            self._listening = wire
            wire.how_it_ends()
            wire.close()

    def _post(self, message: Any, wire: Wire) -> None:
        method = message.get("method")
        if method == "initialize":
            wire.send(answer(result(0, **HELLO), mcp_session_id=NUMBER))
        elif method == "tools/list":
            wire.send(answer(TOOLS))
        elif method == "tools/call":
            getattr(self, "_" + message["params"]["name"])(message["id"], wire)
        elif "result" in message:
            self._answered.set()
            wire.send(answer(status=202))
        else:
            wire.send(answer(status=202))

    def _plain(self, rpc_id: Any, wire: Wire) -> None:
        wire.send(answer(result(rpc_id, text="plain")))

    def _events(self, rpc_id: Any, wire: Wire) -> None:
        wire.send(begin() + b"".join(map(chunk, EVENTFUL)) + LAST)

    def _asks(self, rpc_id: Any, wire: Wire) -> None:
        wire.send(begin() + chunk(event(SAMPLING)))
        assert self._answered.wait(WAIT)
        wire.send(chunk(event(result(rpc_id, text="asked"))) + LAST)

    def _changes(self, rpc_id: Any, wire: Wire) -> None:
        assert self._listening
        self._listening.send(chunk(event(CHANGED, b"id: 1\n")))
        wire.send(answer(result(rpc_id, text="changed")))

    def _no_rpc(self, rpc_id: Any, wire: Wire) -> None:
        wire.send(answer(NO_RPC, 422, "application/problem+json"))

    def _bad(self, rpc_id: Any, wire: Wire) -> None:
        wire.send(answer(failure(None, -32600, "Bad Request"), 400))

    def _late(self, rpc_id: Any, wire: Wire) -> None:
        wire.send(begin() + chunk(b"id: late/1\nretry: 1\ndata:\n\n") + LAST)


def legacy_tape(tape: Path) -> Path:
    """A whole session of the legacy era."""
    with Upstream(Legacy()) as upstream, recording(tape, upstream.url) as recorder:
        assert ask(recorder.url, INITIALIZE).header("mcp-session-id") == NUMBER
        url, own = recorder.url, {"mcp_session_id": NUMBER}
        with Client(url) as listener, Client(url) as asked:
            listener.ask(verb="GET", **own)
            listener.answer_head()
            for message in (INITIALIZED, call(1, "tools/list"), tool(2, "plain"), with_token(3, "events", "t")):
                ask(url, message, **own)
            asked.ask(tool(4, "asks"), **own)
            asked.answer_head()
            asked.read(len(event(SAMPLING)))
            ask(url, SAMPLED, **own)
            assert asked.chunk() == event(result(4, text="asked"))
            ask(url, tool(5, "changes"), **own)
            listener.read(len(event(CHANGED, b"id: 1\n")))
            ask(url, tool(6, "no_rpc"), **own)
            ask(url, tool(7, "bad"), **own)
            ask(url, tool(8, "late"), **own)
            ask(url, verb="GET", last_event_id="late/1", **own)
            ask(url, verb="DELETE", **own)
    return tape


LISTEN = modern("l", "subscriptions/listen", notifications={"toolsListChanged": True})


def subscribed(rpc_id: int | str, method: str) -> bytes:
    return said(method=method, params={"_meta": {"io.modelcontextprotocol/subscriptionId": rpc_id}})


def modern_script(request: Message, wire: Wire) -> None:
    """A server of the modern era."""
    message = request.document
    if message["method"] == "subscriptions/listen":
        rpc_id = message["id"]
        wire.send(begin() + chunk(event(subscribed(rpc_id, "notifications/subscriptions/acknowledged"))))
        wire.send(chunk(event(subscribed(rpc_id, "notifications/tools/list_changed"))))
        wire.how_it_ends()
        wire.close()
    elif message["method"] == "no/such":
        wire.send(answer(failure(message["id"], -32601, "Method not found"), 404))
    elif message["params"].get("name") == "events":
        wire.send(begin() + chunk(event(progress("t", 1))) + chunk(event(result(message["id"], text="events"))) + LAST)
    else:
        wire.send(answer(result(message["id"], text=f"answer {message['id']}"), kind=f"{JSON}; charset=utf-8"))


def modern_tape(tape: Path) -> Path:
    """The requests of several modern clients to one server."""
    with Upstream(modern_script) as upstream, recording(tape, upstream.url) as recorder:
        for number in (1, 2):
            ask(recorder.url, modern(number, name="counted"))
        ask(recorder.url, json.dumps(asking_for_progress(3, "t")).encode())
        ask(recorder.url, modern(4, "no/such"))
        with Client(recorder.url) as listener:
            listener.ask(LISTEN)
            listener.answer_head()
            listener.read(len(event(subscribed("l", "notifications/subscriptions/acknowledged"))) + 10)
            assert recorder.stop() == 0
    return tape


def asking_for_progress(rpc_id: int | str, token: int | str) -> Any:
    message = json.loads(modern(rpc_id, name="events"))
    message["params"]["_meta"]["progressToken"] = token
    return message
