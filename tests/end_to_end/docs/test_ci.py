"""CI does what the README says, on every Python that mcp-tape supports."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.support.docs import ROOT
from tests.support.running import run

CI = (ROOT / ".ci" / "run").read_text("utf-8")
PROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
FIND_PYTHON = re.search(r"^find_python\(\) \{.*?^\}", CI, re.S | re.M)


def test_ci_runs_exactly_the_readmes_tests() -> None:
    given = re.search(r"^Run the tests.*?```sh\n(.*?)\n```", (ROOT / "README.md").read_text("utf-8"), re.S | re.M)
    assert given and given[1] in map(str.strip, CI.splitlines())


def test_every_minor_version_from_the_oldest_on_is_listed() -> None:
    oldest = re.search(r'^requires-python = ">=3\.(\d+)"$', PROJECT, re.M)
    listed = [int(minor) for minor in re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', PROJECT)]
    assert oldest and listed == list(range(int(oldest[1]), listed[-1] + 1)) and len(listed) > 1


def test_a_python_is_found_on_the_path_or_in_pyenv_and_a_name_that_leads_to_none_is_passed_over(tmp_path: Path) -> None:
    assert FIND_PYTHON
    for place, program in {
        "bin/python3.98": "exit 1",
        "bin/python3.99": "true",
        "versions/3.98.1/bin/python": "true",
    }.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(f"#!/bin/sh\n{program}\n")
        (tmp_path / place).chmod(0o755)
    environ = os.environ | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "PYENV_ROOT": str(tmp_path)}
    source = f"{FIND_PYTHON[0]}\nfor version in 3.97 3.98 3.99; do find_python $version; done"
    done = run(["bash", "-euc", source], env=environ)
    assert done.stdout.decode().split() == [str(tmp_path / "versions/3.98.1/bin/python"), "python3.99"]
