"""An agent of CrewAI with an MCP server; a class plays its model."""

from __future__ import annotations

import json
import os
import re
from typing import Any

os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"  # before it is imported
from crewai import Agent, BaseLLM
from crewai_tools import MCPServerAdapter
from mcp import StdioServerParameters

NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
TIME = ["mcp-server-time", "--local-timezone", "UTC"]


class FakeModel(BaseLLM):
    def call(self, messages: Any, *_: Any, **__: Any) -> str:
        """Call the tool, then repeat what it said."""
        talk = "\n".join(str(message["content"]) for message in messages)
        if said := re.search(r"^Observation: (\{.*)", talk, re.S | re.M):
            return f"Thought: I know.\nFinal Answer: {said[1]}"
        return f"Thought: I ask.\nAction: convert_time\nAction Input: {json.dumps(NOON)}"

    def supports_function_calling(self) -> bool:
        return False


def ask(question: str, server: StdioServerParameters) -> str:
    with MCPServerAdapter(server, connect_timeout=60) as tools:
        agent = Agent(role="planner", goal="plan", backstory="", llm=FakeModel(model="fake"), tools=[*tools])
        return str(agent.kickoff(question).raw)


def started(command: list[str]) -> StdioServerParameters:
    return StdioServerParameters(command=command[0], args=command[1:])
