"""The common part of the Python client programs: the session to play, and the one document they print.

Knows no SDK. A program provides one coroutine function per kind of step; everything else is here, so that the
programs differ only in the SDK that they use.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

Step = dict[str, Any]
Do = Callable[[Step, Callable[..., Awaitable[None]]], Awaitable[Any]]

# Kinds of steps that the newest revision no longer has.
LEGACY_ONLY = {"ping", "log-level"}
SESSIONS = json.loads((Path(__file__).parent / "sessions.json").read_text(encoding="utf-8"))
# A test may set other steps, and a client with fewer capabilities.
STEPS = json.loads(os.environ.get("CLIENT_STEPS", "null"))
WITHOUT = os.environ.get("CLIENT_WITHOUT", "").split(",")

SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "Hello from the client."}, "model": "scripted"}
ELICITED = {"action": "accept", "content": {"name": "Ada", "check": True, "integer": 7}}
ROOTS = {"roots": [{"uri": "file:///project", "name": "project"}]}


def offered(callbacks: dict[str, Any]) -> dict[str, Any]:
    """The callbacks that this client offers: SDKs declare a capability for each."""
    return {name: callback for name, callback in callbacks.items() if name.partition("_")[0] not in WITHOUT}


class Seen:
    """The client's view, in a form that is the same in two runs of the same session."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = {"steps": [], "asked": {}, "notifications": []}

    def asked(self, what: str, params: Any) -> None:
        """Note a server request. Their number and order are up to the server."""
        _add(self.document["asked"].setdefault(what, []), params)

    def notified(self, notification: Any) -> None:
        # Progress is reported with its step, and carries a token of the SDK's own choosing.
        if notification["method"] != "notifications/progress":
            _add(self.document["notifications"], notification)

    async def play(self, do: Do, tools: list[str], modern: bool) -> None:
        """The session for the server that offers these tools."""
        steps = STEPS if STEPS is not None else next(steps for tool, steps in SESSIONS.items() if tool in tools)
        for step in steps:
            if not (modern and step["do"] in LEGACY_ONLY):
                self.document["steps"].append(await _outcome(do, step))

    def print(self) -> None:
        print(json.dumps(self.document, indent=1, sort_keys=True))


async def _outcome(do: Do, step: Step) -> Step:
    if step["do"] == "together":
        return {"do": "together", "steps": await asyncio.gather(*(_outcome(do, part) for part in step["steps"]))}
    progress: list[Any] = []

    async def on_progress(*report: Any) -> None:
        progress.append(report)

    try:
        outcome: Step = {"result": await do(step, on_progress)}
    except Exception as failure:
        error = getattr(failure, "error", None)
        if error is None:
            raise
        outcome = {"error": error.model_dump(mode="json", exclude_none=True)}
    # A copy, so that it has only the progress reported before the result.
    return step | outcome | ({"progressed": list(progress)} if progress else {})


def _add(items: list[Any], item: Any) -> None:
    if item not in items:
        items.append(item)
        items.sort(key=lambda each: json.dumps(each, sort_keys=True))
