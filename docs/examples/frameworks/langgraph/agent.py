"""A graph of LangGraph that calls an MCP tool, without a model."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, ToolCall
from langchain_mcp_adapters.client import MultiServerMCPClient
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
SERVERS: dict[str, Any] = {
    "time": {"transport": "stdio", "command": "mcp-server-time", "args": ["--local-timezone", "UTC"]}
}


async def ask(servers: dict[str, Any]) -> str:
    tools = await MultiServerMCPClient(servers).get_tools()
    graph = StateGraph(MessagesState).add_node("tools", ToolNode(tools)).add_edge(START, "tools").compile()
    call = ToolCall(name="convert_time", args=NOON, id="1")
    state = await graph.ainvoke({"messages": [AIMessage("", tool_calls=[call])]})
    return str(state["messages"][-1].content)
