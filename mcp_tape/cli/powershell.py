"""Completion for PowerShell, which click does not have: `mcp-tape --completion powershell`."""

from __future__ import annotations

import os

from click.shell_completion import CompletionItem, ShellComplete, add_completion_class

# PowerShell completes files by itself where nothing else is offered.
# https://learn.microsoft.com/powershell/module/microsoft.powershell.core/register-argumentcompleter
_SCRIPT = """\
Register-ArgumentCompleter -Native -CommandName %(prog_name)s -ScriptBlock {
    param($word, $line, $cursor)
    $words = $line.CommandElements | Where-Object { $_.Extent.StartOffset -lt $cursor } | ForEach-Object { "$_" }
    $env:COMP_WORDS = $words -join "`n"
    $env:COMP_CWORD = $word
    $env:%(complete_var)s = 'powershell_complete'
    try {
        %(prog_name)s | Where-Object { $_ } | ForEach-Object {
            $value, $help = $_ -split "`t", 2
            [System.Management.Automation.CompletionResult]::new($value, $value, 'ParameterValue', $help)
        }
    }
    finally {
        Remove-Item Env:COMP_WORDS, Env:COMP_CWORD, Env:%(complete_var)s
    }
}
"""


@add_completion_class
class PowerShellComplete(ShellComplete):
    """Completions, one per line, each with a help text after a tab."""

    name = "powershell"
    source_template = _SCRIPT

    def get_completion_args(self) -> tuple[list[str], str]:
        words = os.environ["COMP_WORDS"].splitlines()[1:]
        incomplete = os.environ.get("COMP_CWORD", "")  # PowerShell has no empty variables
        return (words[:-1] if incomplete else words), incomplete

    def complete(self) -> str:
        found = self.get_completions(*self.get_completion_args())
        return "\n".join(self.format_completion(item) for item in found if item.type == "plain")

    def format_completion(self, item: CompletionItem) -> str:
        return f"{item.value}\t{item.help or item.value}"
