"""An agent of LangChain with two MCP servers, by its own `langchain.mcp`; a list plays its model."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core._api import LangChainBetaWarning
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolCall

warnings.filterwarnings("ignore", category=LangChainBetaWarning)
from langchain.mcp import MCPAdapter  # noqa: E402

NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
SERVERS: dict[str, Any] = {
    "time": {"command": "mcp-server-time", "args": ["--local-timezone", "UTC"]},
    "weather": {"command": "python", "args": ["-m", "mcp_tape.demo.server"]},
}
CALLS = [
    ToolCall(name="time_convert_time", args=NOON, id="1"),
    ToolCall(name="weather_forecast", args={"city": "Tokyo"}, id="2"),
]


class FakeModel(GenericFakeChatModel):
    def bind_tools(self, tools: Sequence[Any], **_: Any) -> FakeModel:
        return self


async def ask(question: str, config: dict[str, Any]) -> str:
    """What the tools said to the agent."""
    model = FakeModel(messages=iter([AIMessage("", tool_calls=CALLS), AIMessage("There you are.")]))
    async with MCPAdapter(config) as adapter:
        agent = create_agent(model, await adapter.list_tools())
        state = await agent.ainvoke({"messages": [("user", question)]})
    return "\n".join(str(message.content) for message in state["messages"] if message.type == "tool")
