"""The conformance server's content: blocks, resources and prompts, in the suite's words."""

from __future__ import annotations

import re
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

Block = dict[str, Any]

PNG = (  # one red pixel
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
)
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQIAAACAgA=="  # two silent samples


def text(words: str) -> Block:
    return {"type": "text", "text": words}


def image() -> Block:
    return {"type": "image", "data": PNG, "mimeType": "image/png"}


def audio() -> Block:
    return {"type": "audio", "data": WAV, "mimeType": "audio/wav"}


def embedded(uri: str, words: str, mime_type: str = "text/plain") -> Block:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": words}}


RESOURCES = {
    "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": PNG},
    "test://watched-resource": {"mimeType": "text/plain", "text": "Nothing has happened to this resource."},
}
TEMPLATE = "test://template/{id}/data"
FROM_TEMPLATE = re.compile(r"test://template/([^/]+)/data")


def list_resources() -> dict[str, Any]:
    """The resources with a fixed URI."""
    listed = [
        {"uri": uri, "name": uri.partition("//")[2], "description": f"What is at {uri}", "mimeType": held["mimeType"]}
        for uri, held in RESOURCES.items()
    ]
    return {"resources": listed}


def list_templates() -> dict[str, Any]:
    """The one family of resources."""
    template = {
        "uriTemplate": TEMPLATE,
        "name": "template",
        "description": "Data by id",
        "mimeType": "application/json",
    }
    return {"resourceTemplates": [template]}


def read_resource(uri: str) -> dict[str, Any]:
    """The content of a resource, or the error that the newest revision requires."""
    if held := RESOURCES.get(uri):
        return {"contents": [{"uri": uri, **held}]}
    if found := FROM_TEMPLATE.fullmatch(uri):
        number = found[1]
        data = f'{{"id":"{number}","templateTest":true,"data":"Data for ID: {number}"}}'
        return {"contents": [{"uri": uri, "mimeType": "application/json", "text": data}]}
    raise MCPError(INVALID_PARAMS, "Resource not found", {"uri": uri})


def argument(name: str, description: str) -> dict[str, Any]:
    return {"name": name, "description": description, "required": True}


PROMPTS: dict[str, list[dict[str, Any]]] = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": [
        argument("arg1", "First test argument"),
        argument("arg2", "Second test argument"),
    ],
    "test_prompt_with_embedded_resource": [argument("resourceUri", "URI of the resource to embed")],
    "test_prompt_with_image": [],
    "test_input_required_result_prompt": [],
}


def list_prompts() -> dict[str, Any]:
    """Every prompt and its arguments."""
    listed = [
        {"name": name, "description": f"The prompt {name}", "arguments": arguments}
        for name, arguments in PROMPTS.items()
    ]
    return {"prompts": listed}


def said(*blocks: Block) -> dict[str, Any]:
    """A prompt with these blocks as user messages."""
    return {"messages": [{"role": "user", "content": block} for block in blocks]}


def get_prompt(name: str, given: dict[str, str]) -> dict[str, Any]:
    """A prompt, filled with its arguments."""
    match name:
        case "test_simple_prompt":
            return said(text("This is a simple prompt for testing."))
        case "test_prompt_with_arguments":
            return said(text(f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'"))
        case "test_prompt_with_embedded_resource":
            resource = embedded(given.get("resourceUri", ""), "Embedded resource content for testing.")
            return said(resource, text("Please process the embedded resource above."))
        case "test_prompt_with_image":
            return said(image(), text("Please analyze the image above."))
    raise MCPError(INVALID_PARAMS, "Prompt not found", {"name": name})
