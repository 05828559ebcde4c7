"""Long lists of options under headings."""

from __future__ import annotations

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
