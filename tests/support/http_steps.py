"""The steps of clients with a server at a URL, and the callbacks that each call triggers.

The tests read it and pass it to the client programs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.support import provision
from tests.support.sdk import call, steps

Document = Step = dict[str, Any]

COUNT = {"do": "call", "name": "count", "progress": True}
CONVERSE = {"do": "call", "name": "converse", "progress": True}
FAST: list[Step] = [
    {"do": "tools"},
    {"do": "ping"},
    {"do": "log-level", "level": "info"},
    call("add", a=1, b=2),
    call("fail", why="because"),
    COUNT | {"arguments": {"to": 3}},
    CONVERSE | {"arguments": {"topic": "tapes"}},
    call("hidden"),
    call("reveal"),
    {"do": "tools"},
    call("hidden"),
    {"do": "resources"},
    {"do": "templates"},
    {"do": "read", "uri": "fast://poem"},
    {"do": "read", "uri": "fast://squares/7"},
    {"do": "read", "uri": "fast://none"},
    {"do": "prompts"},
    {"do": "prompt", "name": "greet", "arguments": {"name": "Ada"}},
    {
        "do": "together",
        "steps": [
            COUNT | {"arguments": {"to": 2}},
            call("add", a=3, b=4),
            CONVERSE | {"arguments": {"topic": "meanwhile"}},
        ],
    },
]
EVERYTHING: list[Step] = json.loads((provision.TESTS / "clients" / "sessions.json").read_text())["echo"]
# The callbacks of a call before its result, in this order.
HEARD: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "trigger-long-running-operation": lambda arguments: ["progress"] * arguments["steps"],
    "trigger-sampling-request": lambda _: ["sampling"],
    "trigger-elicitation-request": lambda _: ["elicitation"],
    "count": lambda arguments: ["progress", "message"] * arguments["to"],
    "converse": lambda _: ["progress", "sampling", "progress", "elicitation", "progress"],
    "reveal": lambda _: ["tools/list_changed"],
}
OWN = "Fulfilling input required"  # progress that the TypeScript SDK 2.x reports to itself


def scripted(server: str) -> dict[str, str]:
    """The steps for a server, each with the callbacks to record."""
    # If calls share a stream, a server request cannot be attributed to one of several open calls.
    apart = provision.HTTP_SERVERS.get(server) == "/mcp"
    return {"CLIENT_STEPS": json.dumps([attentive(step, apart) for step in (FAST if server == "fast" else EVERYTHING)])}


def attentive(step: Step, apart: bool, together: bool = False) -> Step:
    if "steps" in step:
        return step | {"steps": [attentive(part, apart, together=True) for part in step["steps"]]}
    heard = set(HEARD[step["name"]](step["arguments"])) if step.get("name") in HEARD else set()
    known = apart or not together or heard == {"progress"}
    return step | ({"hears": sorted(heard)} if heard and known else {})


def check_heard(document: Document) -> None:
    """Every callback ran before its call's result, and in order."""
    listened = [step for step in steps(document) if "hears" in step]
    assert listened
    for step in listened:
        what = [name for name, params in step["heard"] if OWN not in json.dumps(params)]
        assert what == HEARD[step["name"]](step["arguments"]), step
