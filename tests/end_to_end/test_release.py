"""Everything that a release needs can be built and runs: packages, one file, a man page, types, nothing installed.

`python tools/release.py` also runs the quick loop from the sdist.
"""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.docs import ROOT
from tests.support.promises import CASSETTES

RELEASE = [sys.executable, str(ROOT / "tools" / "release.py")]
MINUTES = 600  # seconds, for what installs packages
USER = """
from mcp_tape import Cassette, use_cassette

with use_cassette("time.db", command=["server"]) as tape:
    words: list[str] = tape.command
with Cassette("time.db") as cassette:
    numbers: list[int] = [session.id for session in cassette.sessions()]
    wrong: int = cassette.sessions()
"""


def done(*words: str | Path, **more: str) -> str:
    """The output of a command that must succeed."""
    ended = subprocess.run(words, capture_output=True, text=True, timeout=MINUTES, env=os.environ | more)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("build", reason="needs the extra release")
    place = tmp_path_factory.mktemp("dist")
    done(*RELEASE, "-o", place, "versions", "packages", "pyz", "man")
    return place


def test_the_man_page_is_valid_roff() -> None:
    page: str = runpy.run_path(str(ROOT / "docs" / "make_cli.py"))["man_page"]()
    requests = {line.split()[0] for line in page.splitlines() if line.startswith((".", "'"))}
    assert requests == {".TH", ".SH", ".PP", ".TP", ".B", ".nf", ".fi"}
    assert r"mcp\-tape \- A VCR for the Model Context Protocol" in page
    assert '.SH "MCP\\-TAPE BREAKING"' in page and r"\-\-fail\-on" in page
    if groff := shutil.which("groff"):
        shown = subprocess.run(
            [groff, "-man", "-Tutf8", "-Kutf8", "-ww", "-z"], input=page.encode(), capture_output=True
        )
        assert (shown.returncode, shown.stderr) == (0, b"")


def test_the_classifiers_name_the_systems_and_pythons_that_ci_runs() -> None:
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert re.findall(r'"Operating System :: (.*)"', project) == ["POSIX :: Linux"]


@pytest.mark.slow
def test_nothing_needs_to_be_installed(dist: Path, tmp_path: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    uvx = [sys.executable, "-m", "uv", "tool", "run", "-q", "--from", str(wheel)]
    pipx = [sys.executable, "-m", "pipx", "run", "--spec", str(wheel)]
    places = {
        "PIPX_HOME": str(tmp_path / "pipx"),
        "UV_TOOL_DIR": str(tmp_path / "uv"),
        "SHIV_ROOT": str(tmp_path / "shiv"),
    }
    for command in (uvx, pipx, []):
        program = [*command, "mcp-tape"] if command else [str(dist / "mcp-tape.pyz")]
        assert "demo-weather" in done(*program, "ls", CASSETTES / "demo.db", **places)


@pytest.mark.slow
def test_types_reach_a_user_of_the_wheel(dist: Path, tmp_path: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    done(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    done(python, "-m", "pip", "install", "-q", wheel, "mypy")
    user = tmp_path / "user.py"
    user.write_text(USER)
    mypy = subprocess.run([python, "-m", "mypy", "--strict", user], capture_output=True, text=True, cwd=tmp_path)
    assert re.findall(r"user\.py:(\d+): error:.*\[(.*)\]", mypy.stdout) == [("8", "assignment")], mypy.stdout
    pyright = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", python, user], capture_output=True, text=True, cwd=tmp_path
    )
    assert re.findall(r"user\.py:(\d+):\d+ - error: .*", pyright.stdout) == ["8"], pyright.stdout + pyright.stderr
