"""An agent of google-adk with an MCP server; a class plays its model."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams
from google.genai import types
from mcp import StdioServerParameters

NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
TIME = ["mcp-server-time", "--local-timezone", "UTC"]


class FakeModel(BaseLlm):
    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Call the tool, then repeat what it said."""
        said = llm_request.contents[-1].parts[-1].function_response
        part = (
            types.Part(text=str(said.response))
            if said
            else types.Part.from_function_call(name="convert_time", args=NOON)
        )
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def ask(question: str, server: StdioServerParameters) -> str:
    toolset = McpToolset(connection_params=StdioConnectionParams(server_params=server, timeout=60))
    runner = InMemoryRunner(LlmAgent(name="planner", model=FakeModel(model="fake"), tools=[toolset]))
    try:
        events = await runner.run_debug(question, quiet=True)
    finally:
        await toolset.close()
    return "\n".join(part.text for event in events for part in event.content.parts if part.text)


def started(command: list[str]) -> StdioServerParameters:
    return StdioServerParameters(command=command[0], args=command[1:])
