"""The manual page on redaction is correct: its examples print the shown output."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.support.running import run

PAGE = (Path(__file__).parents[3] / "docs" / "redaction.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```sh\n(.*?)^```\n\n```text\n(.*?)^```", PAGE, re.S | re.M)


def test_there_is_an_example_of_every_option() -> None:
    shown = "".join(command for command, _ in EXAMPLES)
    for option in ("--redact-key", "--redact-path", "--redact-value", "--no-redact"):
        assert option in shown


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize(("command", "output"), EXAMPLES)
def test_an_example_prints_the_output_on_the_page(tmp_path: Path, command: str, output: str) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = run(["bash", "-euo", "pipefail", "-c", command], cwd=tmp_path, env=os.environ | {"PATH": path})
    assert (done.returncode, done.stdout.decode()) == (0, output)
