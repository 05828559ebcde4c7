"""The offer to agents is stable: tools with their input and output, and the resource template.

To write the golden file again: FREEZE=1 pytest -n 0 tests/end_to_end/test_promises_tools.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.agents import with_client
from tests.support.golden import path_of
from tests.support.promises import frozen_json

if TYPE_CHECKING:
    from mcp import Client


def test_tools_and_templates_stay() -> None:
    async def work(client: Client) -> dict[str, Any]:
        tools = (await client.list_tools()).tools
        templates = (await client.list_resource_templates()).resource_templates
        found = {"tools": tools, "templates": templates}
        return {
            name: [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in several]
            for name, several in found.items()
        }

    frozen_json("tools.json", with_client(work, path_of("demo")))
