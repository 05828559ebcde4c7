"""The conformance server's calls that need input: a result requests it, and the client calls again with the answers.

The state that a client carries from one round to the next is signed with a fixed key. A changed state is refused, and
the same round has the same state in every run.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

Answers = dict[str, Any]
Inputs = dict[str, dict[str, Any]]
KEY = b"known to everybody who reads this: it guards a test"


@dataclass(frozen=True)
class Form:
    """The requests of each round, whether a state connects the rounds, and the outcome of the answers."""

    rounds: tuple[Inputs, ...]
    told: Callable[[Answers], str]
    has_state: bool = False


def ask_user(message: str, field: str, kind: str = "string") -> dict[str, Any]:
    """Elicitation with a single field."""
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return {"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}}


def ask_model(words: str, limit: int = 100) -> dict[str, Any]:
    """Sampling with a single message."""
    messages = [{"role": "user", "content": {"type": "text", "text": words}}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": limit}}


def ask_roots() -> dict[str, Any]:
    return {"method": "roots/list", "params": {}}


def entered(answers: Answers, key: str, field: str) -> Any:
    """The user's input, or None if the user did not accept."""
    return (answers[key].get("content") or {}).get(field)


NAME = ask_user("What is your name?", "name")
CONFIRM = ask_user("Please confirm", "ok", "boolean")
CAPITAL = ask_model("What is the capital of France?")

FORMS = {
    "test_input_required_result_elicitation": Form(
        ({"user_name": NAME},), lambda answers: f"Hello, {entered(answers, 'user_name', 'name')}!"
    ),
    "test_input_required_result_sampling": Form(
        ({"capital_question": CAPITAL},), lambda answers: f"Answered: {answers['capital_question']['content']['text']}"
    ),
    "test_input_required_result_list_roots": Form(
        ({"client_roots": ask_roots()},),
        lambda answers: "Roots: " + ", ".join(root["uri"] for root in answers["client_roots"]["roots"]),
    ),
    "test_input_required_result_request_state": Form(({"confirm": CONFIRM},), lambda _: "state-ok", has_state=True),
    "test_input_required_result_tampered_state": Form(({"confirm": CONFIRM},), lambda _: "state-ok", has_state=True),
    "test_input_required_result_multiple_inputs": Form(
        ({"user_name": NAME, "greeting": ask_model("Generate a greeting", 50), "client_roots": ask_roots()},),
        lambda answers: f"Three answers, {entered(answers, 'user_name', 'name')}",
        has_state=True,
    ),
    "test_input_required_result_multi_round": Form(
        (
            {"step1": ask_user("Step 1: What is your name?", "name")},
            {"step2": ask_user("Step 2: What is your favorite color?", "color")},
        ),
        lambda answers: f"{entered(answers, 'step1', 'name')} likes {entered(answers, 'step2', 'color')}",
        has_state=True,
    ),
    "test_streaming_elicitation": Form(
        ({"user_name": NAME},), lambda answers: f"Hello, {entered(answers, 'user_name', 'name')}!"
    ),
    "test_tool_with_task": Form(({"user_name": NAME},), lambda answers: entered(answers, "user_name", "name")),
    "test_input_required_result_prompt": Form(
        ({"user_context": ask_user("What context should the prompt use?", "context")},),
        lambda answers: f"In the context of {entered(answers, 'user_context', 'context')}",
    ),
}


def fill(form: Form, ctx: ServerRequestContext[Any, Any]) -> tuple[dict[str, Any] | None, str]:
    """The result with the remaining requests, or None and the outcome of the answers."""
    params = ctx.params or {}
    known, step = unseal(params.get("requestState")) if form.has_state else ({}, 0)
    given = (params.get("inputResponses") or {}) if step is not None else {}
    step = step or 0
    if any(key not in given for key in form.rounds[step]):
        return asking(form, known, step), ""
    known |= {key: given[key] for key in form.rounds[step]}
    if step + 1 < len(form.rounds):
        return asking(form, known, step + 1), ""
    return None, form.told(known)


def asking(form: Form, known: Answers, step: int) -> dict[str, Any]:
    asked: dict[str, Any] = {"resultType": "input_required", "inputRequests": form.rounds[step]}
    return asked | ({"requestState": seal(known, step)} if form.has_state else {})


def seal(known: Answers, step: int) -> str:
    content = json.dumps([known, step], sort_keys=True)
    return f"{signature(content)}.{content}"


def unseal(state: str | None) -> tuple[Answers, int | None]:
    """The answers from an earlier round and its step; without a state, no step."""
    if state is None:
        return {}, None
    signed, _, content = state.partition(".")
    if not hmac.compare_digest(signed, signature(content)):
        raise MCPError(INVALID_PARAMS, "The requestState is not one of this server's")
    known, step = json.loads(content)
    return known, step


def signature(content: str) -> str:
    return hmac.digest(KEY, content.encode(), "sha256").hex()


def ask_what_is_offered(ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
    """Request only inputs that this client supports."""
    offered = ctx.session.client_capabilities
    asked: Inputs = {}
    if offered and offered.elicitation is not None:
        asked["user_name"] = NAME
    if offered and offered.sampling is not None:
        asked["capital_question"] = CAPITAL
    if offered and offered.roots is not None:
        asked["client_roots"] = ask_roots()
    return {"resultType": "input_required", "inputRequests": asked}
