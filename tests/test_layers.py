"""A module imports only from lower layers, and the start-up paths import nothing heavy."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from .support import ECHO, record, run

PACKAGE = Path(__file__).parent.parent / "mcp_tape"
LAYERS = [
    {"errors", "jsontext", "jsonpath", "protocol", "frames", "framing", "secrecy"},
    {"schema", "redact", "match", "cassette"},
    {"tape", "formats"},
    {"transports"},
    {"recorder", "writer", "api"},
    {"cli", "demo", "__main__"},
]
LAYER = {name: number for number, names in enumerate(LAYERS) for name in names}
# Within one layer, in this order: each may import those before it.
WITHIN = [
    ["errors", "jsontext", "jsonpath", "protocol", "secrecy", "frames", "framing"],
    ["schema", "match", "redact", "cassette"],
    ["recorder", "writer", "api"],
    ["demo", "cli", "__main__"],
]


def imports(path: Path) -> set[str]:
    """The modules of this package that a file imports, by their first name."""
    depth = len(path.relative_to(PACKAGE).parts)
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            found |= {node.module.split(".")[0]} if node.module else {alias.name for alias in node.names}
    return found - {"__version__"}


def test_every_module_has_a_layer() -> None:
    names = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in PACKAGE.rglob("*.py")}
    assert names - {"__init__"} == set(LAYER)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_from_lower_layers(path: Path) -> None:
    name = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if name == "__init__":
        assert imports(path) <= {"errors"}
        return
    for other in imports(path) - {name}:
        before = [names[: names.index(name)] for names in WITHIN if name in names]
        assert LAYER[other] < LAYER[name] or any(other in names for names in before), f"{name} imports {other}"


FORBIDDEN = {"sqlite_utils", "deepdiff", "asyncio", "httpx2", "uvicorn", "mcp", "pydantic"}


def test_recording_imports_nothing_heavy_in_the_relay(tmp_path: Path) -> None:
    command = record(tmp_path / "tape.db", ECHO)
    done = run([sys.executable, "-X", "importtime", *command[1:]])
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines() if "|" in line}
    assert "click" in imported  # it does list imports
    assert not FORBIDDEN & imported
    # the writer needs these; the relay must not wait for them
    assert not {"sqlite3", "orjson", "mcp_tape.tape"} & imported
