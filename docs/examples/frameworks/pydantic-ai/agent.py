"""An agent of pydantic-ai with two MCP servers; a function plays its model."""

from __future__ import annotations

from fastmcp.client.transports import ClientTransport, StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
TIME = ["mcp-server-time", "--local-timezone", "UTC"]
WEATHER = ["python", "-m", "mcp_tape.demo.server"]


def think(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Call both tools, then repeat what they said."""
    said = [str(part.content) for part in messages[-1].parts if part.part_kind == "tool-return"]
    if said:
        return ModelResponse([TextPart("\n".join(said))])
    return ModelResponse([ToolCallPart("convert_time", NOON), ToolCallPart("forecast", {"city": "Tokyo"})])


async def ask(question: str, servers: list[ClientTransport]) -> str:
    agent = Agent(FunctionModel(think), toolsets=[MCPToolset(server) for server in servers])
    async with agent:
        return (await agent.run(question)).output


def started(command: list[str]) -> ClientTransport:
    return StdioTransport(command[0], command[1:])
