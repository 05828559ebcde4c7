"""Tests made of recordings: they pass as they come, and fail when the recording says something else."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_tape.formats.generated import pytest as made
from mcp_tape.wire.frames import Exchange
from tests.support import provision
from tests.support.running import MCP_TAPE, WAIT, run

# Recordings of real servers, each with the calls that are in it.
CALLS = {"demo": 2, "time": 8, "everything": 18, "git": 14, "time-modern": 8}


def export(name: str, form: str, place: Path, test: str, *more: str) -> Path:
    shutil.copy(provision.ROOT / "cassettes" / f"{name}.db", place)
    command = [*MCP_TAPE, "export", str(place / f"{name}.db"), "--format", form, "-o", str(place / test), *more]
    done = run(command)
    assert done.returncode == 0, done.stderr
    return place / test


def ran(place: Path, *files: str) -> str:
    done = run([*provision.pytest_command(), "-q", "-p", "no:cacheprovider", *files], cwd=place)
    return done.stdout.decode()


def test_tests_for_pytest_pass_as_they_come(tmp_path: Path) -> None:
    for name in CALLS:
        export(name, "pytest", tmp_path, f"test_{name.replace('-', '_')}.py")
    assert f"{sum(CALLS.values())} passed" in ran(tmp_path)


def test_a_test_fails_when_the_recording_says_something_else(tmp_path: Path) -> None:
    path = export("everything", "pytest", tmp_path, "test_it.py", "--filter", "tool:get-sum")
    text = path.read_text("utf-8")
    assert text.count("def test_") == 1
    path.write_text(text.replace("The sum of", "The product of"), "utf-8")
    assert "1 failed" in ran(tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not provision.has_node(), reason="needs Node and npm")
def test_tests_for_vitest_pass_as_they_come(tmp_path: Path) -> None:
    for name in ("demo", "time", "everything"):
        export(name, "vitest", tmp_path, f"{name}.test.mjs")
    (tmp_path / "node_modules").symlink_to(provision.node_modules())
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mcp-tape").symlink_to(Path(sys.executable).with_name("mcp-tape"))
    env = os.environ | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "NO_COLOR": "1"}
    done = subprocess.run(
        ["node", "node_modules/vitest/vitest.mjs", "run", "--root", "."],
        cwd=tmp_path, env=env, capture_output=True, timeout=WAIT, check=False,
    )  # fmt: skip
    assert re.search(r"Tests\s+28 passed", done.stdout.decode()), done.stdout.decode() + done.stderr.decode()


def test_no_recording_writes_code(tmp_path: Path) -> None:
    from mcp_tape.formats.calls import Call

    evil = '"""\nimport os; os.system("true")\n#{0} {} \ud800 \u2028'
    asked = {"name": evil, "arguments": {evil: [evil, None, True, 1e300]}}
    result = {"content": [{"type": "text", "text": evil}], "isError": False}
    exchange = Exchange(1, 1, "client", "tools/call", evil, "1", asked, result)
    text = made([Call(exchange, 0, 1, "stdio")], evil, f"{evil}.db", 1).text
    tree = ast.parse(text.encode())
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert names == ["call", "test_import_os_os_system_true_0"]
    assert [type(node).__name__ for node in tree.body] == [
        "Expr",
        *["Import"],
        *["ImportFrom"] * 3,
        "Assign",
        *["FunctionDef"] * 2,
    ]
    literals = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    assert literals.count(evil) == 4
