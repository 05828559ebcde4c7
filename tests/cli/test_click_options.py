"""Options under headings, and the errors of their values."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from mcp_tape.cli import cli
from mcp_tape.cli.click_options import SectionedCommand


def sectioned(name: str) -> SectionedCommand:
    command = cli.get_command(None, name)  # type: ignore[arg-type]
    assert isinstance(command, SectionedCommand)
    return command


@pytest.mark.parametrize("name", ["record", "replay", "use", "verify"])
def test_each_option_is_listed_once_and_the_five_most_used_come_first(name: str) -> None:
    command, text = sectioned(name), CliRunner().invoke(cli, [name, "--help"]).stdout
    first, *others = [flags.split() for flags in command.sections.values()]
    assert len(first) == 5 and text.index("Most used:") < text.index("Other options:")
    listed = [flag for flags in (first, *others) for flag in flags]
    known = {option.opts[-1] for option in command.params if not getattr(option, "hidden", True)}
    assert len(listed) == len(set(listed)) and set(listed) <= known
    lines = [line for line in text[text.index("Most used:") :].splitlines() if line.startswith("  -")]
    described = [line.split()[0 if line.startswith("  --") else 1] for line in lines]
    assert sorted(described) == sorted([*known, "--help"])


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["replay", "t.db", "--speed", "fast"], "'fast' is not a number of 0 or more, e.g. 1.5"),
        (["doctor", "--timeout", "0"], "'0' is not a number above 0, e.g. 1.5"),
        (["search", "t.db", "word", "--limit", "0"], "'0' is not a whole number of 1 or more"),
        (["rm", "t.db"], "Missing option '--session'. Example: mcp-tape rm tape.db --session 2"),
        (["use"], "Missing argument 'FILE'. Example: mcp-tape use time.db -- uvx mcp-server-time"),
    ],
)
def test_wrong_and_missing_values_are_answered_with_what_to_write(
    words: list[str], error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 2 and result.stderr.endswith(f"{error}\n")
