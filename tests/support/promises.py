"""Helpers for tests of promises: golden files, a directory to run commands in, and the shape of JSON.

To write the golden files again: FREEZE=1 pytest -n 0 tests/end_to_end/test_promises*.py
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.reading import invoke
from tests.support.running import MCP_TAPE, run

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parents[1] / "golden" / "promises"
CASSETTES = ROOT / "cassettes"
SERVER = ["python", "-m", "mcp_tape.demo.server"]
STARTING = ("record", "replay", "use", "verify", "edit", "mcp")  # these start other processes, or read stdin
_SCALARS = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_ANYTHING = ("before", "after")  # members that quote a server
FREEZE = "If users are meant to see this change: FREEZE=1 pytest -n 0 tests/end_to_end/test_promises*.py"


def frozen(name: str, found: str) -> None:
    """Compare a text with its golden file."""
    path = GOLDEN / name
    if os.environ.get("FREEZE"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(found, "utf-8")
    assert found == path.read_text("utf-8"), f"{path.name} is no longer true. {FREEZE}"


def frozen_json(name: str, found: Any) -> None:
    """Compare a value with its golden file. The order of members counts."""
    frozen(name, json.dumps(found, indent=2, ensure_ascii=False) + "\n")


class Desk:
    """A directory where commands run, with output that is independent of the machine."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.environ = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR", "COLUMNS")}
        self.environ |= {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
        self.environ |= {"PYTHONPATH": str(place), "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        self.environ |= {"HOME": str(place / "home"), "XDG_CONFIG_HOME": "", "XDG_DATA_HOME": "", "CODEX_HOME": ""}

    def take(self, *names: str) -> None:
        """Copy golden cassettes into the directory."""
        for name in names:
            shutil.copy(CASSETTES / name, self.place)

    def write(self, name: str, text: str) -> None:
        (self.place / name).write_text(text, "utf-8")

    def run(self, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run mcp-tape; `python` in its words is this one.

        Commands that start nothing run in this process, for speed.
        """
        if words[0] in STARTING:
            return run([*MCP_TAPE, *words], stdin, cwd=self.place, env=self.environ)
        unset = {name: None for name in os.environ if name not in self.environ}
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.place)
            done = invoke(*words, input=stdin, env=unset | self.environ)
        return subprocess.CompletedProcess(words, done.exit_code, done.stdout_bytes, done.stderr_bytes)

    def plain(self, text: bytes) -> str:
        return text.decode().replace(str(self.place.resolve()), "HERE").replace(str(self.place), "HERE")

    def entry(self, words: Sequence[str], stdin: bytes = b"", *, first_line: bool = False) -> str:
        """A command as a terminal would show it, with its exit code and stderr."""
        done = self.run(*words, stdin=stdin)
        told = self.plain(done.stderr)
        if told.startswith("Usage:"):  # mostly click's own text; ours is the sentence after it
            told = told[told.index("Error:") :]
        told = re.sub(r"freed \d+ bytes", "freed N bytes", told)
        if first_line:
            told = "".join(told.splitlines(keepends=True)[:1])
        return f"$ mcp-tape {shlex.join(words)}\n{told}exit {done.returncode}\n"


def shape(found: Sequence[Any]) -> Any:
    """The members and types that several values have together; `?` after a name: some lack the member."""
    scalars = sorted({_SCALARS[type(value)] for value in found if type(value) in _SCALARS})
    shapes: list[Any] = ["|".join(scalars)] if scalars else []
    objects = [value for value in found if isinstance(value, dict)]
    if objects:
        names = dict.fromkeys(name for value in objects for name in value)
        members = {name: [value[name] for value in objects if name in value] for name in names}
        shapes.append(
            {
                name + "?" * (len(had) < len(objects)): "anything" if name in _ANYTHING else shape(had)
                for name, had in members.items()
            }
        )
    lists = [value for value in found if isinstance(value, list)]
    if lists:
        shapes.append([shape([item for value in lists for item in value])])
    return shapes[0] if len(shapes) == 1 else shapes
