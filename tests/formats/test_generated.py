"""Generated tests: they pass unchanged, and fail when the recording differs."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mcp_tape.cassette.query.recorded_requests import Reply
from mcp_tape.formats.generated import CaseSource
from mcp_tape.formats.generated import pytest as made
from mcp_tape.formats.generated import vitest as made_for_node
from mcp_tape.formats.timed_calls import TimedCall
from mcp_tape.wire.frames import Exchange
from tests.support import forked, provision
from tests.support.running import MCP_TAPE, WAIT, run

# Golden recordings, each with its calls that can be repeated on their own.
CALLS = {
    "demo": 2, "time": 8, "everything": 18, "everything-ts2": 18, "git": 14, "time-modern": 8,
    "batch": 1, "cancelled": 1, "modern": 1, "noisy": 0,
}  # fmt: skip
# The other calls, and the reasons.
LEFT_OUT = {
    "batch": ["#8 add: its answer came in a batch", "#16 subtract: its answer came in a batch"],
    "cancelled": ["#4 slow: it was not answered", "#6 slow: its answer waited for", "#18 slow: it was not answered"],
    "modern": [
        "#7 book: its answer is of the kind input_required", "#10 book: its answer is of the kind input_required",
        "#13 book: it was sent with inputResponses, requestState", "#17 dig: its answer is of the kind task",
    ],
    "noisy": ["#8 sum: it has half of a character", "#19 bytes: its answer is not UTF-8"],
}  # fmt: skip
ANSWERED = {(1, "1"): Reply(in_batch=False, is_text=True, after_more=False)}


def export(name: str, form: str, place: Path, test: str, *more: str) -> Path:
    shutil.copy(provision.ROOT / "cassettes" / f"{name}.db", place)
    command = [*MCP_TAPE, "convert", str(place / f"{name}.db"), "--to", form, str(place / test), *more]
    done = run(command)
    assert done.returncode == 0, done.stderr
    return place / test


def ran(place: Path, *files: str) -> str:
    done = run([*provision.pytest_command(), "-q", "-p", "no:cacheprovider", *files], cwd=place)
    return done.stdout.decode()


def remarks(path: Path) -> list[str]:
    found = re.findall(r"^(?:#|//) No test was made of (.*)\.$", path.read_text("utf-8"), re.MULTILINE)
    return list(map(str, found))


def assert_left_out(path: Path, name: str) -> None:
    said, expected = remarks(path), LEFT_OUT.get(name, [])
    assert len(said) == len(expected) and all(map(str.startswith, said, expected)), said


def test_every_golden_recording_is_tried() -> None:
    assert {path.stem for path in (provision.ROOT / "cassettes").glob("*.db")} == set(CALLS)


@pytest.mark.slow
def test_tests_for_pytest_pass_as_they_come(tmp_path: Path) -> None:
    for name in CALLS:
        assert_left_out(export(name, "pytest", tmp_path, f"test_{name.replace('-', '_')}.py"), name)
    said = ran(tmp_path)
    assert f"{sum(CALLS.values())} passed" in said and "failed" not in said


@pytest.mark.slow
def test_a_call_that_the_filter_leaves_out_still_comes_first(tmp_path: Path) -> None:
    asked = {"method": "tools/call", "params": {"name": "count", "arguments": {}}}
    known = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
    lines = [
        {"id": 0, "method": "initialize", "params": {}}, {"id": 0, "result": known},
        {"id": 1} | asked, {"id": 1, "error": {"code": -1, "message": "not yet"}},
        {"id": 2} | asked, {"id": 2, "result": {"content": [{"type": "text", "text": "1"}]}},
    ]  # fmt: skip
    frames = [
        {"sender": "client" if "method" in one else "server", "text": json.dumps({"jsonrpc": "2.0"} | one)}
        for one in lines
    ]
    (tmp_path / "tape.jsonl").write_text("".join(json.dumps(one) + "\n" for one in frames), "utf-8")
    command = ["convert", str(tmp_path / "tape.jsonl"), "--to", "pytest", "--filter", "status:ok"]
    done = run([*MCP_TAPE, *command, str(tmp_path / "test_it.py")])
    assert done.returncode == 0, done.stderr
    assert "times=2" in (tmp_path / "test_it.py").read_text("utf-8")
    assert "1 passed" in ran(tmp_path)


@pytest.mark.slow
def test_a_test_fails_when_the_recording_says_something_else(tmp_path: Path) -> None:
    path = export("everything", "pytest", tmp_path, "test_it.py", "--filter", "tool:get-sum")
    text = path.read_text("utf-8")
    assert text.count("def test_") == 1
    path.write_text(text.replace("The sum of", "The product of"), "utf-8")
    assert "1 failed" in ran(tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not provision.has_node(), reason="needs Node and npm")
def test_tests_for_vitest_pass_as_they_come(tmp_path: Path) -> None:
    for name in CALLS:
        assert_left_out(export(name, "vitest", tmp_path, f"{name}.test.mjs"), name)
    (tmp_path / "node_modules").symlink_to(provision.node_modules())
    env = os.environ | {"PATH": f"{forked.scripts()}:{os.environ['PATH']}", "NO_COLOR": "1"}
    command = ["node", "node_modules/vitest/vitest.mjs", "run", "--root", ".", "--no-isolate"]  # load the SDK only once
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, timeout=WAIT, check=False)
    said = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == 0 and re.search(rf"Tests\s+{sum(CALLS.values())} passed", said), said


def test_no_recording_writes_code(tmp_path: Path) -> None:
    evil = '"""\nimport os; os.system("true")\n#{0} {} \u2028'
    asked = {"name": evil, "arguments": {evil: [evil, None, True, 1e300]}}
    result = {"content": [{"type": "text", "text": evil}], "isError": False}
    exchange = Exchange(1, 1, "client", "tools/call", evil, "1", asked, result)
    text = made([TimedCall(exchange, 0, 1, "stdio")], CaseSource(evil, f"{evil}.db", 1, ANSWERED)).text
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


def test_a_call_that_a_language_cannot_send_has_no_test() -> None:
    asked = {"name": "add", "arguments": {"a": [2**53]}}
    exchange = Exchange(1, 1, "client", "tools/call", "add", "1", asked, {"content": []})
    tape = CaseSource("it", "it.db", 1, ANSWERED)
    assert made([TimedCall(exchange, 0, 1, "stdio")], tape).tests == 1
    again = exchange._replace(seq=3, id="2")
    for_node = made_for_node([TimedCall(one, 0, 1, "stdio") for one in (exchange, again)], tape)
    assert for_node.tests == 0 and len(for_node.left_out) == 2 and "test.todo(" in for_node.text
    endless = exchange._replace(result={"content": [{"type": "text", "text": "", "n": float("inf")}]})
    assert made([TimedCall(endless, 0, 1, "stdio")], tape).left_out == ["#1 add: it has a number that is out of bounds"]
