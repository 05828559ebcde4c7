"""A module imports only from lower layers, and the start-up paths import nothing heavy."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from .support import ECHO, record, run

PACKAGE = Path(__file__).parent.parent / "mcp_tape"
# From the bottom up; a module may import only what stands before it.
STACK = """
    errors naming sizes small_files jsontext jsonpath protocol frames framing compression secrecy command_lines tables
    shapes hiding
    literals json_strings own_rules private_keys redact environment diagnostics match
    schema journals foreign_schema database replace texts batches cassette rewrite kept filters showing measuring
    querying searching storage replacing remaking changing removing merging controls ahead choosing selection
    streams ledger rebuilding migrations unhidden hiding_later checking tape sessions formats
    finding minted_spots minted calls playback cues hearing stand_ins ordering misses deck client_script client_deck
    faults opening episodes report diff
    transports
    recorder backlog writer stage api modes editing project reviewing references surveying using verifying
    demo cli __main__ pytest_tapes pytest_plugin
""".split()


def imports(path: Path, *, at_once: bool = False) -> set[str]:
    """The modules of this package that a file imports, by their first name; at once: as soon as it is loaded."""
    depth = len(path.relative_to(PACKAGE).parts)
    found = set()
    tree = ast.parse(path.read_text())
    for node in tree.body if at_once else ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            found |= {node.module.split(".")[0]} if node.module else {alias.name for alias in node.names}
    return found - {"__version__", "use_cassette"}


def test_every_module_has_its_place_in_the_stack() -> None:
    names = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in PACKAGE.rglob("*.py")}
    assert names - {"__init__"} == set(STACK)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_what_stands_below_it(path: Path) -> None:
    name = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if name == "__init__":
        assert imports(path, at_once=True) <= {"errors"}
        return
    below = STACK[: STACK.index(name)]
    assert not imports(path) - {name} - set(below)


FORBIDDEN = {"sqlite_utils", "deepdiff", "asyncio", "httpx2", "uvicorn", "mcp", "pydantic"}


def test_recording_imports_nothing_heavy_in_the_relay(tmp_path: Path) -> None:
    command = record(tmp_path / "tape.db", ECHO)
    done = run([sys.executable, "-X", "importtime", *command[1:]])
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines() if "|" in line}
    assert "click" in imported  # it does list imports
    assert not FORBIDDEN & imported
    # the writer needs these; the relay must not wait for them
    assert not {"sqlite3", "orjson", "mcp_tape.tape"} & imported


def test_replaying_imports_nothing_heavy() -> None:
    demo = PACKAGE.parent / "cassettes" / "demo.db"
    done = run([sys.executable, "-X", "importtime", "-m", "mcp_tape", "replay", str(demo)])
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines() if "|" in line}
    assert "mcp_tape.deck" in imported  # it does list imports, and it did play
    assert not FORBIDDEN & imported
    # only the odd case needs these
    assert not {"decimal", "hashlib", "pathlib", "tempfile", "mcp_tape.misses", "mcp_tape.redact"} & imported
