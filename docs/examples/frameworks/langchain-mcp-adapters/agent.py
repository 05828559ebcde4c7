"""An agent of LangChain with two MCP servers, by langchain-mcp-adapters; a list plays its model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolCall
from langchain_mcp_adapters.client import MultiServerMCPClient

NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
SERVERS: dict[str, Any] = {
    "time": {"transport": "stdio", "command": "mcp-server-time", "args": ["--local-timezone", "UTC"]},
    "weather": {"transport": "stdio", "command": "python", "args": ["-m", "mcp_tape.demo.server"]},
}
CALLS = [ToolCall(name="convert_time", args=NOON, id="1"), ToolCall(name="forecast", args={"city": "Tokyo"}, id="2")]


class FakeModel(GenericFakeChatModel):
    def bind_tools(self, tools: Sequence[Any], **_: Any) -> FakeModel:
        return self


async def ask(question: str, servers: dict[str, Any]) -> str:
    """What the tools said to the agent. Each call of a tool is a connection of its own."""
    model = FakeModel(messages=iter([AIMessage("", tool_calls=CALLS), AIMessage("There you are.")]))
    agent = create_agent(model, await MultiServerMCPClient(servers).get_tools())
    state = await agent.ainvoke({"messages": [("user", question)]})
    return "\n".join(str(message.content) for message in state["messages"] if message.type == "tool")
