"""The conformance server's tasks: the extension of the newest revision, without a clock.

A task ends after a number of polls instead of a time, so every run has the same states in the same order on any
machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    RequestParams,
)

from .conformance_content import text
from .conformance_inputs import Inputs, ask_user

EXTENSION = "io.modelcontextprotocol/tasks"
ENDLESS = 10  # seconds; longer tasks run until they are cancelled
THEN = "2026-07-28T00:00:00Z"

Ctx = ServerRequestContext[Any, Any]


class TaskParams(RequestParams):
    """The common params of all requests about a task."""

    task_id: str


class UpdateParams(TaskParams):
    """The answers to a task's requests for input."""

    input_responses: dict[str, Any]


@dataclass
class Task:
    """One task: its outcome, the polls until then, and its open requests for input."""

    name: str
    outcome: dict[str, Any]
    looks: float = 1
    asks: Inputs = field(default_factory=dict)
    is_cancelled: bool = False

    @property
    def status(self) -> str:
        if self.is_cancelled:
            return "cancelled"
        if self.asks:
            return "input_required"
        if self.looks > 0:
            return "working"
        return "failed" if "error" in self.outcome else "completed"

    def described(self) -> dict[str, Any]:
        times = {"createdAt": THEN, "lastUpdatedAt": THEN, "ttlMs": 3_600_000, "pollIntervalMs": 100}
        return {"taskId": self.name, "status": self.status, **times}

    def detailed(self) -> dict[str, Any]:
        status = self.status
        more = {"inputRequests": self.asks} if status == "input_required" else {}
        more = self.outcome if status in ("completed", "failed") else more
        return self.described() | more


def ended(words: str, is_error: bool = False) -> dict[str, Any]:
    """The outcome of a finished tool."""
    return {"result": {"resultType": "complete", "content": [text(words)], "isError": is_error}}


class Tasks:
    """All tasks of the server, and the requests about them."""

    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}

    def begin(self, tool: str, given: dict[str, Any]) -> dict[str, Any]:
        """Begin the task of a tool."""
        name = f"task-{len(self.tasks) + 1}"
        match tool:
            case "slow_compute":
                seconds = given.get("seconds", 0)
                looks = float("inf") if seconds > ENDLESS else min(seconds, 1)
                task = Task(name, ended(computed(given)), looks)
            case "failing_job":
                task = Task(name, ended("The job failed", is_error=True))
            case "protocol_error_job":
                task = Task(name, {"error": {"code": INTERNAL_ERROR, "message": "The job broke"}})
            case "confirm_delete":
                asks = {"confirm": ask_user(f"Delete {given.get('filename')}?", "confirm", "boolean")}
                task = Task(name, ended(f"Deleted {given.get('filename')}"), 0, asks)
            case "multi_input":
                asks = {"first": ask_user("The first name?", "name"), "second": ask_user("The second name?", "name")}
                task = Task(name, ended("Both are known"), 0, asks)
            case _:
                task = Task(name, ended(f"Hello from a task, {given.get('name')}"))
        self.tasks[name] = task
        return {"resultType": "task", **task.described()}

    async def get(self, ctx: Ctx, params: TaskParams) -> dict[str, Any]:
        task = self.find(ctx, params)
        seen = task.detailed()
        task.looks -= 1
        return seen

    async def update(self, ctx: Ctx, params: UpdateParams) -> dict[str, Any]:
        task = self.find(ctx, params)
        task.asks = {key: asked for key, asked in task.asks.items() if key not in params.input_responses}
        return {}

    async def cancel(self, ctx: Ctx, params: TaskParams) -> dict[str, Any]:
        task = self.find(ctx, params)
        task.is_cancelled = task.is_cancelled or task.status in ("working", "input_required")
        return {}

    def find(self, ctx: Ctx, params: TaskParams) -> Task:
        """The task of a request, after checking the client's capabilities and headers."""
        if not is_offered(ctx):
            raise missing({"extensions": {EXTENSION: {}}})
        if ctx.request is not None and ctx.request.headers.get("mcp-name") != params.task_id:
            raise MCPError(HEADER_MISMATCH, "The Mcp-Name header is not the taskId")
        if params.task_id not in self.tasks:
            raise MCPError(INVALID_PARAMS, "Task not found", {"taskId": params.task_id})
        return self.tasks[params.task_id]


def computed(given: dict[str, Any]) -> str:
    return f"Computed {given.get('label')}"


def is_offered(ctx: Ctx) -> bool:
    """Whether the client declares support for tasks."""
    offered = ctx.session.client_capabilities
    return offered is not None and EXTENSION in (offered.extensions or {})


def missing(capabilities: dict[str, Any]) -> MCPError:
    """The error for a client that lacks these."""
    data = {"requiredCapabilities": capabilities}
    return MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "The client lacks a capability", data)
