"""mcp-tape --completion: scripts that shells accept, and the completions that they request."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_tape.cli import cli
from tests.support.reading import invoke, lines
from tests.support.running import WAIT, run

SHELLS = ["bash", "zsh", "fish"]
MCP_TAPE = str(Path(sys.executable).parent / "mcp-tape")  # shells complete the command by its name


def completed(*words: str, shell: str = "bash") -> list[str]:
    """The completions for the last of these words."""
    more = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1 if shell != "fish" else words[-1])}
    environ = os.environ | more | {"_MCP_TAPE_COMPLETE": f"{shell}_complete"}
    done = run([MCP_TAPE], env=environ)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode().splitlines()


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_accepted_by_the_shell(shell: str, tmp_path: Path) -> None:
    script = "\n".join(lines("--completion", shell))
    assert "_MCP_TAPE_COMPLETE" in script and "mcp-tape" in script
    program = shutil.which(shell)
    if program is None and os.environ.get("CI"):
        pytest.fail(f"{shell} is not installed, and CI must have it")
    if program is None:
        pytest.skip(f"there is no {shell}")
    (tmp_path / "script").write_text(script)
    done = run([program, "-n", str(tmp_path / "script")])
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.slow
def test_bash_completes_with_it() -> None:
    ask = 'eval "$("$0" --completion bash)"; COMP_WORDS=(mcp-tape re); COMP_CWORD=1; _mcp_tape_completion "$0"'
    command = ["bash", "-c", f'{ask}; printf "%s\\n" "${{COMPREPLY[@]}}"', MCP_TAPE]
    done = subprocess.run(command, capture_output=True, timeout=WAIT, check=True)
    assert done.stdout.decode().split() == ["record", "replay", "review", "redact"]


@pytest.mark.slow
def test_commands_are_completed() -> None:
    assert completed("mcp-tape", "re") == ["plain,record", "plain,replay", "plain,review", "plain,redact"]
    assert len(completed("mcp-tape", "")) == len(cli.list_commands(None))  # type: ignore[arg-type]


@pytest.mark.slow
def test_options_and_their_values_are_completed() -> None:
    assert completed("mcp-tape", "redact", "--dry") == ["plain,--dry-run"]
    assert completed("mcp-tape", "--completion", "z") == ["plain,zsh"]


@pytest.mark.parametrize(
    "words",
    [
        ["ls"], ["show"], ["query"], ["search"], ["check"], ["check", "one.db"], ["redact"], ["rm"],
        ["merge", "one.db"], ["merge", "one.db", "-o"], ["replay"], ["convert"], ["use"],
        ["diff"], ["diff", "one.db"], ["breaking"], ["verify"], ["review"], ["record", "-o"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_files_are_completed_where_files_are_meant(words: list[str]) -> None:
    from click.shell_completion import ShellComplete

    found = ShellComplete(cli, {}, "mcp-tape", "_MCP_TAPE_COMPLETE").get_completions(words, "ta")
    assert [(item.type, item.value) for item in found] == [("file", "ta")]


def test_another_shell_is_wrong_usage() -> None:
    result = invoke("--completion", "tcsh")
    assert result.exit_code == 2
    assert all(shell in result.stderr for shell in SHELLS)


@pytest.mark.slow
def test_powershell_asks_by_its_own_words() -> None:
    script = "\n".join(lines("--completion", "powershell"))
    assert "Register-ArgumentCompleter -Native -CommandName mcp-tape" in script
    assert "$env:_MCP_TAPE_COMPLETE = 'powershell_complete'" in script

    def completed_by(*words: str, incomplete: str = "") -> list[str]:
        more = {"COMP_WORDS": "\n".join(words), "COMP_CWORD": incomplete, "_MCP_TAPE_COMPLETE": "powershell_complete"}
        return run([MCP_TAPE], env=os.environ | more).stdout.decode().splitlines()

    assert [line.split("\t")[0] for line in completed_by("mcp-tape", "re", incomplete="re")] == [
        "record", "replay", "review", "redact"
    ]  # fmt: skip
    assert completed_by("mcp-tape", "redact", "--dry", incomplete="--dry")[0].startswith("--dry-run\t")
    assert completed_by("mcp-tape", "schema", "ro", incomplete="ro") == ["row\trow"]
    assert completed_by("mcp-tape", "show") == [""]  # PowerShell completes files by itself
