"""mcp-tape completion"""

from __future__ import annotations

import click

from ...console.terminal import echo_json
from .. import cli

_SHELLS = ("bash", "zsh", "fish")


@click.command(
    "completion",
    epilog="\b\nExamples:\n"
    '  bash:  eval "$(mcp-tape completion bash)"       in ~/.bashrc\n'
    '  zsh:   eval "$(mcp-tape completion zsh)"        in ~/.zshrc, after compinit\n'
    "  fish:  mcp-tape completion fish > ~/.config/fish/completions/mcp-tape.fish",
)
@click.argument("shell", type=click.Choice(_SHELLS))
@click.option("--json", "as_json", is_flag=True, help="The shell and the script as a JSON object.")
def command(shell: str, as_json: bool) -> None:
    """Print the script that lets a shell complete commands, options and files."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    completion = found(cli, {}, "mcp-tape", "_MCP_TAPE_COMPLETE")
    # Not source(), which starts a shell to ask how old it is.
    script = completion.source_template % completion.source_vars()
    if as_json:
        echo_json({"shell": shell, "script": script})
    else:
        click.echo(script)
