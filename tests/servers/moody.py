"""A small server of the legacy era that fails on request: python -m tests.servers.moody MOOD

Its tool `say` repeats its argument; most moods take effect if that is "two".
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import Any

Body = dict[str, Any]
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "hello"}}
BIG = 5 << 20


class Moody:
    def __init__(self, mood: str) -> None:
        self._mood = mood
        self._lock = threading.Lock()
        self._for_ever = threading.Event()  # never set

    def say(self, body: Body) -> None:
        with self._lock:
            print(json.dumps({"jsonrpc": "2.0"} | body), flush=True)

    def hear(self, body: Body) -> None:
        if body.get("method") == "notifications/initialized" and self._mood != "silent":
            self.say({"method": "notifications/message", "params": {"level": "info", "data": "hello"}})
        if "id" not in body or "method" not in body:
            return
        if self._mood == "hang" and body["method"] != "initialize":
            return
        method = getattr(self, "_" + body["method"].replace("/", "_"), None)
        if method is None:
            self.say({"id": body["id"], "error": {"code": -32601, "message": "Method not found"}})
        else:
            method(body["id"], body.get("params") or {})

    def _initialize(self, number: Any, params: Body) -> None:
        info = {"name": "moody", "version": "1.0"}
        self._answer(number, protocolVersion="2025-11-25", capabilities={"tools": {}}, serverInfo=info)

    def _tools_list(self, number: Any, params: Body) -> None:
        read_only = self._mood != "writing"
        schema = {"type": "object", "properties": {"what": {"type": "string"}}}
        say = {"name": "say", "annotations": {"readOnlyHint": read_only}, "inputSchema": schema}
        write = {"name": "write", "inputSchema": schema}
        if self._mood != "paged":
            self._answer(number, tools=[say, write])
        elif "cursor" in params:
            self._answer(number, tools=[write])
        else:
            self._answer(number, tools=[say], nextCursor="more")

    def _tools_call(self, number: Any, params: Body) -> None:
        what = params["arguments"].get("what", "")
        if what == "two":
            getattr(self, f"_{self._mood}", self._in_good_mood)(number, what)
        else:
            self._in_good_mood(number, what)

    def _in_good_mood(self, number: Any, what: str) -> None:
        self._answer(number, content=[{"type": "text", "text": what}])

    def _crash(self, number: Any, what: str) -> None:
        print("about to\nfall over", file=sys.stderr, flush=True)
        os._exit(3)

    def _stuck(self, number: Any, what: str) -> None:
        """Never answer this request."""

    def _flood(self, number: Any, what: str) -> None:
        for count in range(30_000):
            self.say({"method": "notifications/message", "params": {"level": "info", "data": count}})
        self._in_good_mood(number, what)

    def _flood_for_ever(self, number: Any, what: str) -> None:
        while not self._for_ever.wait(0.001):
            self.say({"method": "notifications/message", "params": {"level": "info", "data": "on and on"}})

    def _big(self, number: Any, what: str) -> None:
        self._answer(number, content=[{"type": "text", "text": "x" * BIG}])

    def _asking(self, number: Any, what: str) -> None:
        self.say({"id": 77, "method": "elicitation/create", "params": {"message": "Really?"}})
        answer = json.loads(sys.stdin.readline())
        self._answer(number, content=[{"type": "text", "text": json.dumps(answer.get("error"))}])

    def _answer(self, number: Any, **result: Any) -> None:
        self.say({"id": number, "result": result})


def main(mood: str) -> None:
    if mood == "exit":
        sys.exit("no configuration")
    if mood == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    moody = Moody(mood)
    for line in iter(sys.stdin.readline, ""):
        moody.hear(json.loads(line))
    if mood == "deaf":
        threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1])
