"""The conformance server's tools, in the suite's words."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

from . import conformance_inputs as inputs
from . import conformance_tasks as tasks
from .conformance_content import Block, audio, embedded, image, text

Ctx = ServerRequestContext[Any, Any]
Arguments = dict[str, Any]
Tool = Callable[[Ctx, Arguments], Awaitable[dict[str, Any]]]

FIXED: dict[str, list[Block]] = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [image()],
    "test_audio_content": [audio()],
    "test_embedded_resource": [embedded("test://embedded-resource", "This is an embedded resource content.")],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        image(),
        embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
    ],
    "json_schema_2020_12_tool": [text("The schema is what counts.")],
    "test_header_parameter": [text("The headers are what counts.")],
}

STRING = {"type": "string"}
ADDRESS = {"$anchor": "addressDef", "type": "object", "properties": {"street": STRING, "city": STRING}}
SCHEMAS: dict[str, dict[str, Any]] = {
    "json_schema_2020_12_tool": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": ADDRESS},
        "properties": {
            "name": STRING,
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": STRING,
            "email": STRING,
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
    "test_header_parameter": {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    },
    "test_sampling": {"type": "object", "properties": {"prompt": STRING}, "required": ["prompt"]},
    "test_elicitation": {"type": "object", "properties": {"message": STRING}, "required": ["message"]},
    "greet": {"type": "object", "properties": {"name": STRING}, "required": ["name"]},
    "slow_compute": {"type": "object", "properties": {"seconds": {"type": "number"}, "label": STRING}},
    "confirm_delete": {"type": "object", "properties": {"filename": STRING}, "required": ["filename"]},
}

PERSON = {
    "username": {"type": "string", "description": "User's response"},
    "email": {"type": "string", "description": "User's email address"},
}
DEFAULTS = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
OPTIONS = ["option1", "option2", "option3"]
TITLED = [{"const": f"value{number}", "title": f"{word} Option"} for number, word in enumerate(("First", "Second"), 1)]
ENUMS = {
    "untitledSingle": {"type": "string", "enum": OPTIONS},
    "titledSingle": {"type": "string", "oneOf": TITLED},
    "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
}


def answer(*blocks: Block, is_error: bool = False) -> dict[str, Any]:
    return {"content": list(blocks), "isError": is_error}


async def elicit(ctx: Ctx, message: str, properties: dict[str, Any], required: list[str] | None = None) -> str:
    """Ask the user during a call, and return the answer."""
    schema = {"type": "object", "properties": properties, "required": required or []}
    got = await ctx.session.elicit_form(message, schema, ctx.request_id)
    return f"action={got.action}, content={json.dumps(got.content, sort_keys=True)}"


async def ask_for_person(ctx: Ctx, given: Arguments) -> dict[str, Any]:
    return answer(text("User response: " + await elicit(ctx, given["message"], PERSON, list(PERSON))))


async def ask_with_defaults(ctx: Ctx, _: Arguments) -> dict[str, Any]:
    told = await elicit(ctx, "Please look through the defaults", DEFAULTS)
    return answer(text(f"Elicitation completed: {told}"))


async def ask_with_enums(ctx: Ctx, _: Arguments) -> dict[str, Any]:
    told = await elicit(ctx, "Please choose", ENUMS)
    return answer(text(f"Elicitation completed: {told}"))


async def sample(ctx: Ctx, given: Arguments) -> dict[str, Any]:
    words = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=given["prompt"]))
    request = types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[words], max_tokens=100))
    same_stream = ServerMessageMetadata(related_request_id=ctx.request_id)
    got = await ctx.session.send_request(request, types.CreateMessageResult, metadata=same_stream)
    return answer(text(f"LLM response: {got.content.text if got.content.type == 'text' else got.content.type}"))


async def log(ctx: Ctx, _: Arguments) -> dict[str, Any]:
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.session.send_log_message("info", words, related_request_id=ctx.request_id)
    return answer(text("Three messages, where they are wanted"))


async def progress(ctx: Ctx, _: Arguments) -> dict[str, Any]:
    for percent in (0, 50, 100):
        await ctx.session.report_progress(percent, 100)
    return answer(text("Three steps, where they are wanted"))


async def fail(*_: object) -> dict[str, Any]:
    return answer(text("This tool intentionally returns an error for testing"), is_error=True)


async def reconnect(ctx: Ctx, _: Arguments) -> dict[str, Any]:
    """Disconnect before the answer: the client must reconnect to get it."""
    if ctx.close_sse_stream:
        await ctx.close_sse_stream()
    return answer(text("Reconnected"))


async def need_sampling(ctx: Ctx, _: Arguments) -> dict[str, Any]:
    offered = ctx.session.client_capabilities
    if offered is None or offered.sampling is None:
        raise tasks.missing({"sampling": {}})
    return answer(text("The client can sample"))


async def greet(_: Ctx, given: Arguments) -> dict[str, Any]:
    return answer(text(f"Hello, {given['name']}!"))


async def ask_what_is_offered(ctx: Ctx, _: Arguments) -> dict[str, Any]:
    return inputs.ask_what_is_offered(ctx)


class Toolbox:
    """Every tool by its name."""

    def __init__(self, bus: InMemorySubscriptionBus, board: tasks.Tasks) -> None:
        self.tools: dict[str, Tool] = {name: self.fixed(blocks) for name, blocks in FIXED.items()}
        self.tools |= {name: self.form(form) for name, form in inputs.FORMS.items()}
        self.tools |= {
            "test_error_handling": fail,
            "test_tool_with_logging": log,
            "test_logging_tool": log,
            "test_tool_with_progress": progress,
            "test_sampling": sample,
            "test_elicitation": ask_for_person,
            "test_elicitation_sep1034_defaults": ask_with_defaults,
            "test_elicitation_sep1330_enums": ask_with_enums,
            "test_reconnection": reconnect,
            "test_missing_capability": need_sampling,
            "test_input_required_result_capabilities": ask_what_is_offered,
            "test_trigger_tool_change": self.publish(bus, ToolsListChanged()),
            "test_trigger_prompt_change": self.publish(bus, PromptsListChanged()),
            "greet": greet,
        }
        del self.tools["test_input_required_result_prompt"]
        for name in ("slow_compute", "failing_job", "protocol_error_job", "confirm_delete", "multi_input"):
            self.tools[name] = self.task(board, name)
        self.tools["test_tool_with_task"] = self.task_after_form(board, "test_tool_with_task")

    def listed(self) -> dict[str, Any]:
        nothing = {"type": "object", "properties": {}}
        return {
            "tools": [
                {"name": name, "description": f"The tool {name}", "inputSchema": SCHEMAS.get(name, nothing)}
                for name in self.tools
            ]
        }

    async def call(self, ctx: Ctx, name: str, given: Arguments) -> dict[str, Any]:
        if name not in self.tools:
            raise MCPError(types.INVALID_PARAMS, "Tool not found", {"name": name})
        return await self.tools[name](ctx, given)

    def fixed(self, blocks: list[Block]) -> Tool:
        async def tool(*_: object) -> dict[str, Any]:
            return answer(*blocks)

        return tool

    def form(self, form: inputs.Form) -> Tool:
        async def tool(ctx: Ctx, _: Arguments) -> dict[str, Any]:
            asked, told = inputs.fill(form, ctx)
            return asked or answer(text(told))

        return tool

    def publish(self, bus: InMemorySubscriptionBus, event: ToolsListChanged | PromptsListChanged) -> Tool:
        async def tool(*_: object) -> dict[str, Any]:
            await bus.publish(event)
            return answer(text("Everybody who listens is told"))

        return tool

    def task(self, board: tasks.Tasks, name: str) -> Tool:
        async def tool(ctx: Ctx, given: Arguments) -> dict[str, Any]:
            if tasks.is_offered(ctx):
                return board.begin(name, given)
            if name == "slow_compute":
                return answer(text(tasks.computed(given)))
            raise tasks.missing({"extensions": {tasks.EXTENSION: {}}})

        return tool

    def task_after_form(self, board: tasks.Tasks, name: str) -> Tool:
        async def tool(ctx: Ctx, _: Arguments) -> dict[str, Any]:
            asked, told = inputs.fill(inputs.FORMS[name], ctx)
            return asked or board.begin(name, {"name": told})

        return tool
