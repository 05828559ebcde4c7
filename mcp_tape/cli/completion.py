"""The script by which a shell completes commands, options and files: `mcp-tape --completion SHELL`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


def script(command: click.Command, shell: str) -> str:
    """Return the script for a shell that click knows."""
    found = get_completion_class(shell)
    assert found is not None
    completion = found(command, {}, "mcp-tape", "_MCP_TAPE_COMPLETE")
    return completion.source_template % completion.source_vars()  # source() starts a shell to ask how old it is
