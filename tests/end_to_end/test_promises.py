"""Stable interfaces: public names, the pytest plugin, the schema of cassettes, and the modules loaded at start-up.

To write the golden files again: FREEZE=1 pytest -n 0 tests/end_to_end/test_promises.py
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import inspect
import json
import os
import re
import sqlite3
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, get_args

import pytest

import mcp_tape
from tests.support import promises
from tests.support.plugin import Suite
from tests.support.promises import CASSETTES, FREEZE, GOLDEN, Desk, frozen, frozen_json
from tests.support.running import python, receive, receive_line, run, send, started

# Names that are public only for other modules, and not in docs/api.md.
UNDOCUMENTED = set(
    "connection counts_of each_session expect_types frame odd_row_error pages rows session_blocks source".split()
)
UNDOCUMENTED |= {"put", "rewound", "words"}


def test_a_broken_promise_shows_the_change_and_how_to_accept_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FREEZE", raising=False)
    monkeypatch.setattr(promises, "GOLDEN", tmp_path)
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    with pytest.raises(AssertionError) as caught:
        frozen("lines.txt", "one\nthree\n")
    said = str(caught.value)
    assert "lines.txt is no longer true" in said and "FREEZE=1 pytest" in said
    assert "- two" in said and "+ three" in said


# The public names ---------------------------------------------------------------------------------------


def annotation(given: Any) -> str:
    """An annotation as in its source, but without module names."""
    text = getattr(given, "__forward_arg__", given)
    return re.sub(r"\b(?:\w+\.)+(?=[A-Z])", "", text if isinstance(text, str) else inspect.formatannotation(text))


def signature(function: Any) -> str:
    """The parameters, one per line if there are many, and the return type."""
    found = inspect.signature(function)
    parts, kinds = [], {parameter.kind for parameter in found.parameters.values()}
    many = inspect.Parameter.VAR_POSITIONAL
    assert kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD, many, inspect.Parameter.KEYWORD_ONLY}
    for name, parameter in found.parameters.items():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and "*" not in parts and many not in kinds:
            parts.append("*")
        name = f"*{name}" if parameter.kind is many else name
        typed = "" if parameter.annotation is parameter.empty else f": {annotation(parameter.annotation)}"
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        parts.append(f"{name}{typed}{default}")
    back = "" if found.return_annotation is found.empty else f" -> {annotation(found.return_annotation)}"
    inner = ", ".join(parts) if len(parts) < 6 else "".join(f"\n    {part}," for part in parts) + "\n"
    return f"({inner}){back}"


def members(owner: Any) -> list[str]:
    """The public methods and properties of a class, except those of tuples and exceptions."""
    found = []
    left_out = UNDOCUMENTED if owner is mcp_tape.Cassette else set()
    for name in sorted(set(dir(owner)) - set(dir(tuple)) - set(dir(Exception)) - left_out):
        member = inspect.getattr_static(owner, name)
        if name in ("__enter__", "__exit__", "__aenter__", "__aexit__"):
            found.append(f"  {name}")
        elif name.startswith("_"):
            continue
        elif isinstance(member, property):
            found.append(f"  {name}{signature(member.fget).partition(')')[2]}")
        elif inspect.isfunction(member):
            found.append(f"  {'async ' * inspect.iscoroutinefunction(member)}{name}{signature(member)}")
        elif name not in getattr(owner, "_fields", ()):
            found.append(f"  {name} = {member!r}")
    return found


def described(name: str) -> list[str]:
    public = getattr(mcp_tape, name)
    if name == "__version__":
        return [f"{name}: {type(public).__name__}"]
    if name == "Mode":
        return [f"{name}: {', '.join(get_args(public))}"]
    if inspect.isfunction(public):
        return [f"{name}{signature(public)}"]
    if hasattr(public, "_fields"):
        defaults = public._field_defaults
        fields = [
            f"  {field}: {annotation(public.__annotations__[field])}"
            + (f" = {defaults[field]!r}" if field in defaults else "")
            for field in public._fields
        ]
        return [f"class {name}(NamedTuple)", *fields, *members(public)]
    made = signature(public) if name == "Cassette" else ""
    bases = ", ".join(base.__name__ for base in public.__bases__ if base.__module__ != "abc")
    return [f"class {name}({bases}){made}", *members(public)]


def test_public_names_have_the_same_signatures() -> None:
    frozen("api.txt", "".join("\n".join(described(name)) + "\n\n" for name in mcp_tape.__all__))


@pytest.mark.parametrize("mode", ["none", "all"])
def test_a_cassette_in_use_has_the_same_members(tmp_path: Path, mode: Any) -> None:
    path = CASSETTES / "demo.db" if mode == "none" else tmp_path / "new.db"
    with mcp_tape.use_cassette(path, mode, command=["no-such-server"]) as tape:
        assert isinstance(tape, mcp_tape.UsedCassette)
        attributes = [
            f"  {name}: {'function' if callable(value) else type(value).__name__}"
            for name, value in sorted(vars(tape).items())
            if not name.startswith("_") and name not in UNDOCUMENTED
        ]
        text = "\n".join([f"attributes in mode {mode}", *attributes, "members", *members(type(tape))])
    text = text.replace(f"-> {type(tape).__name__}\n", "-> UsedCassette\n")  # that class has no public name
    frozen(f"used-cassette-{mode}.txt", text + "\n")


# The pytest plugin --------------------------------------------------------------------------------------

PROBE = """
import json, pathlib

INI = ["mcp_record", "mcp_block_live", "mcp_unplayed", "mcp_tape_dir", "mcp_orphans"]

def test_probe(pytestconfig):
    found = {
        "ini": {name: pytestconfig.getini(name) for name in INI},
        "options": {f"--{name.replace('_', '-')}": pytestconfig.getoption(name) for name in INI},
        "marker": [line for line in pytestconfig.getini("markers") if line.startswith("mcp_tape")],
    }
    pathlib.Path("found.json").write_text(json.dumps(found))
"""


def test_the_plugin_is_found_by_its_entry_point() -> None:
    (found,) = {point for point in entry_points(group="pytest11") if point.name == "mcp_tape"}
    assert found.value == "mcp_tape.pytest_plugin"


def test_the_marker_the_fixtures_the_options_and_their_defaults_stay(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    (suite.path / "conftest.py").unlink()
    monkeypatch.setenv("COLUMNS", "300")  # nothing is wrapped
    suite.write("test_probe.py", PROBE)
    suite.passes(passed=1)
    found = json.loads((suite.path / "found.json").read_text())
    shown = suite.run("--help").outlines
    start = next(number for number, line in enumerate(shown) if line.startswith("mcp-tape:"))
    end = shown.index("", start)
    words = " ".join(" ".join(shown[start:end]).split())
    found["help"] = re.sub(r"(--[\w-]+)=(\S+), (--[\w-]+=\2)", r"\1, \3", words)  # as in Python 3.13
    found["types of ini"] = re.findall(r"^  (mcp_\w+ \(\w+\))", "\n".join(shown), re.M)
    fixtures = suite.run("--fixtures", "-v").outlines
    found["fixtures"] = [
        re.sub(r" -- \S+$", "", line) for line in fixtures if re.match(r"mcp_tape\w*\b", line) and " -- " in line
    ]
    suite.test("@pytest.mark.mcp_tape(nonsense=1)\ndef test_it(mcp_tape): pass\n", "test_probe.py")
    (line,) = [line for line in suite.run().outlines if line.startswith("mcp_tape has no option")]
    found["options of the marker"] = line
    frozen_json("plugin.json", found)


# Cassettes ----------------------------------------------------------------------------------------------


def test_a_new_cassette_has_the_same_schema(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert desk.run("record", "-q", "-o", "new.db", "--", "cat", stdin=b"{}\n").returncode == 0
    with contextlib.closing(sqlite3.connect(tmp_path / "new.db")) as db:
        marks = {name: db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")}
        rows = db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY rowid").fetchall()
    head = "".join(f"{name} = {value}\n" for name, value in marks.items())
    frozen("schema.sql.txt", head + "".join(f"\n-- {kind} {name} on {of}\n{sql}\n" for kind, name, of, sql in rows))


# Start-up -----------------------------------------------------------------------------------------------

ASKED = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'
MAIN = "from mcp_tape.__main__ import main; main()"  # like the installed command
STARTING = {
    "record": ["record", "-q", "-o", "new.db", "--", "cat"],
    "replay": ["replay", "-q", "demo.db"],
    "use": ["use", "-q", "demo.db", "--", "no-such-server"],
}


def loaded(told: bytes) -> list[str]:
    """The modules in the output of -X importtime."""
    return [line.rpartition("|")[2].strip() for line in told.decode().splitlines() if line.startswith("import time:")]


def public(modules: list[str]) -> set[str]:
    """Third-party packages; accelerators of the standard library differ between versions of Python."""
    return {name.partition(".")[0] for name in modules if not name.startswith("_")} - {"mcp_tape", "imported package"}


def loaded_by(source: str, place: Path) -> list[str]:
    done = run([sys.executable, "-X", "importtime", *python(source)[1:]], cwd=place)
    assert done.returncode == 0, done.stderr
    return loaded(done.stderr)


def lines_of_code(module: str) -> int:
    """The lines of our own module that are not empty, a comment or a docstring."""
    spec = importlib.util.find_spec(module)
    assert spec and spec.origin
    tree = ast.parse(Path(spec.origin).read_text("utf-8"))
    texts = {
        node.value for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return len(
        {node.lineno for node in ast.walk(tree) if isinstance(node, ast.expr | ast.stmt)} - {t.lineno for t in texts}
    )


def until_the_first_reply(place: Path, words: list[str]) -> list[str]:
    """The modules that a command loads until its first reply."""
    command = [sys.executable, "-X", "importtime", *python(MAIN)[1:], *words]
    with started(command, cwd=place) as process:
        assert process.stdin and process.stdout and process.stderr
        send(process.stdin, ASKED)
        assert b'"id":1' in receive_line(process.stdout)
        process.kill()
        return loaded(receive(process.stderr))


@pytest.mark.parametrize("name", STARTING)
def test_no_other_module_is_loaded_before_the_first_reply(tmp_path: Path, name: str) -> None:
    desk = Desk(tmp_path)
    desk.take("demo.db")
    found = until_the_first_reply(tmp_path, STARTING[name])
    assert {"mcp_tape", "mcp_tape.start"} <= set(found)  # the list of imports is complete
    own = {module for module in found if module.partition(".")[0] == "mcp_tape" and lines_of_code(module)}
    lines = sum(map(lines_of_code, own))
    golden = GOLDEN / f"start-up-{name}.json"
    if os.environ.get("FREEZE"):
        others = sorted(public(found) - public(loaded_by("pass", tmp_path)))
        there = [module for module in others if importlib.util.find_spec(module)]
        needed = [module for module in there if not any(module in brought(other, tmp_path) for other in there)]
        frozen_json(golden.name, {"own lines of code": -(-lines // 50) * 50, "own": sorted(own), "others": needed})
    allowed = json.loads(golden.read_text("utf-8"))
    assert own - set(allowed["own"]) == set(), FREEZE
    assert lines <= allowed["own lines of code"], FREEZE
    # What these load themselves depends on the Python and its site.
    assert public(found) - public(loaded_by(f"import {', '.join(allowed['others'])}", tmp_path)) == set(), FREEZE


def brought(module: str, place: Path) -> set[str]:
    """The packages that a third-party module loads, besides itself."""
    return public(loaded_by(f"import {module}", place)) - {module}
