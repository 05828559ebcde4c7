"""An agent of openai-agents with two MCP servers; a class plays its model."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from agents.mcp import MCPServerStdio
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
SERVERS: dict[str, Any] = {
    "time": {"command": "mcp-server-time", "args": ["--local-timezone", "UTC"]},
    "weather": {"command": "python", "args": ["-m", "mcp_tape.demo.server"]},
}
set_tracing_disabled(True)  # it would ask for a key


class FakeModel(Model):
    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:  # noqa: A002
        """Call both tools, then repeat what they said."""
        items = [] if isinstance(input, str) else input
        said = [str(item["output"]) for item in items if item.get("type") == "function_call_output"]
        output = [text("\n".join(said))] if said else [call("convert_time", NOON), call("forecast", {"city": "Tokyo"})]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


def call(tool: str, arguments: dict[str, str]) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(name=tool, arguments=json.dumps(arguments), call_id=tool, type="function_call")


def text(words: str) -> ResponseOutputMessage:
    content = ResponseOutputText(text=words, type="output_text", annotations=[])
    return ResponseOutputMessage(id="1", content=[content], role="assistant", status="completed", type="message")


async def ask(question: str, servers: dict[str, Any]) -> str:
    async with AsyncExitStack() as stack:
        started = [
            await stack.enter_async_context(MCPServerStdio(entry, name=name, client_session_timeout_seconds=60))
            for name, entry in servers.items()
        ]
        agent = Agent("planner", model=FakeModel(), mcp_servers=started)
        return str((await Runner.run(agent, question)).final_output)
