"""An agent of smolagents with an MCP server; a class plays its model."""

from __future__ import annotations

from typing import Any

from mcp import StdioServerParameters
from smolagents import ChatMessage, MCPClient, MessageRole, Model, ToolCallingAgent
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction

NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
TIME = ["mcp-server-time", "--local-timezone", "UTC"]


class FakeModel(Model):
    def generate(self, messages: list[ChatMessage], *_: Any, **__: Any) -> ChatMessage:
        """Call the tool, then repeat what it said."""
        said = [str(message.content) for message in messages if message.role == MessageRole.TOOL_RESPONSE]
        return call("final_answer", {"answer": said[-1]}) if said else call("convert_time", NOON)


def call(tool: str, arguments: dict[str, str]) -> ChatMessage:
    function = ChatMessageToolCallFunction(name=tool, arguments=arguments)
    return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[
        ChatMessageToolCall(function=function, id=tool, type="function")
    ])  # fmt: skip


def ask(question: str, server: StdioServerParameters) -> str:
    with MCPClient(server, structured_output=False) as tools:
        return str(ToolCallingAgent(tools=tools, model=FakeModel(), verbosity_level=0).run(question))


def started(command: list[str]) -> StdioServerParameters:
    return StdioServerParameters(command=command[0], args=command[1:])
