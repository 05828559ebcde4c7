"""mcp-tape completion"""

from __future__ import annotations

import click

from . import cli

_SHELLS = ("bash", "zsh", "fish")


@click.command(
    "completion",
    epilog="\b\nExamples:\n"
    '  bash:  eval "$(mcp-tape completion bash)"       in ~/.bashrc\n'
    '  zsh:   eval "$(mcp-tape completion zsh)"        in ~/.zshrc, after compinit\n'
    "  fish:  mcp-tape completion fish > ~/.config/fish/completions/mcp-tape.fish",
)
@click.argument("shell", type=click.Choice(_SHELLS))
def command(shell: str) -> None:
    """Print what lets a shell complete commands, options and files."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    completion = found(cli, {}, "mcp-tape", "_MCP_TAPE_COMPLETE")
    # Not source(), which starts a shell to ask how old it is.
    click.echo(completion.source_template % completion.source_vars())
