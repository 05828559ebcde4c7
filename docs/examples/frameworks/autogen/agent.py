"""An agent of autogen with an MCP server; its ReplayChatCompletionClient plays its model."""

from __future__ import annotations

import json
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_core import FunctionCall
from autogen_core.models import CreateResult, ModelFamily, ModelInfo, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient
from autogen_ext.tools.mcp import McpWorkbench, StdioServerParams

NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
TIME = ["mcp-server-time", "--local-timezone", "UTC"]
FAKE = ModelInfo(
    vision=False, function_calling=True, json_output=False, family=ModelFamily.UNKNOWN, structured_output=False
)
CALL = FunctionCall(id="1", name="convert_time", arguments=json.dumps(NOON))


async def ask(question: str, command: list[str]) -> str:
    """What the agent said in the end: without a word of the model, what its tool said."""
    turn: Any = CreateResult(finish_reason="function_calls", content=[CALL], usage=RequestUsage(0, 0), cached=False)
    model = ReplayChatCompletionClient([turn], model_info=FAKE)
    server = StdioServerParams(command=command[0], args=command[1:], read_timeout_seconds=60)
    async with McpWorkbench(server) as workbench:
        agent = AssistantAgent("planner", model, workbench=workbench)
        return str((await agent.run(task=question)).messages[-1].to_text())
