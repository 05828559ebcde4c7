"""For any value of any argument, a command ends with an exit code of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import click
import pytest

from mcp_tape.cli import cli
from tests.end_to_end.test_flips import nothing_on_stdin  # noqa: F401 - a fixture
from tests.support.reading import GOLDEN, invoke

DEMO = next(path for path in GOLDEN if path.stem == "demo")
# The required words beside the tested option; commands that start a server, or serve, are left out.
COMMANDS = {
    "ls": "FILE",
    "show": "FILE",
    "stats": "FILE",
    "search": "FILE e",
    "query": "FILE -",
    "diff": "FILE FILE",
    "breaking": "FILE FILE",
    "review": "FILE",
    "convert": "FILE OUT --to jsonl",
    "edit": "FILE --editor true",
    "check": "FILE",
    "redact": "FILE --dry-run",
    "rm": "FILE --session 7",
    "merge": "FILE -o OUT",
    "replay": "FILE",
}
LEFT_OUT = ("--listen",)
ODD = ["x\udcff", "9" * 30, ""]


def tries(name: str, value: str) -> list[list[str]]:
    """The command with the value for each option, and for each argument."""
    words = COMMANDS[name].split()
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    options = [p for p in command.params if isinstance(p, click.Option) and not p.is_flag and p.opts[0] not in LEFT_OUT]
    given = [[*words, option.opts[0], *[value] * option.nargs] for option in options]
    return given + [[*words[:at], value, *words[at + 1 :]] for at, word in enumerate(words) if word[0] != "-"]


@pytest.mark.slow(quick=4)
@pytest.mark.usefixtures("nothing_on_stdin")
@pytest.mark.parametrize("name", COMMANDS)
def test_an_odd_argument_is_refused_or_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for value in ODD:
        for words in tries(name, value):
            shutil.copy(DEMO, "FILE")
            Path("OUT").unlink(missing_ok=True)
            result = invoke(name, *words)
            assert result.exit_code in (0, 1, 2, 3, 4), (words, result.output)
