"""The house: modules stand in rooms, and import only downward."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_tape.cli import cli

PACKAGE = Path(__file__).parents[1] / "mcp_tape"
# From the bottom up. A module imports only from its own room and those before it.
ROOMS = """
    errors wire redaction cassette formats record replay transports api modes compare verify testing demo cli
    pytest_plugin __main__
""".split()
# Imports that still go upward, each to be turned around.
UPWARD = {
    ("replay.stage", "transports.http.serve"),
}


def modules() -> dict[str, Path]:
    """Every module by its dotted name below the package."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imported(name: str) -> Iterator[str]:
    """The modules of this package that a module imports, at once or later."""
    path = MODULES[name]
    package = [part for part in name.split(".") if part]
    if path.name != "__init__.py":
        package.pop()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            place = ".".join(filter(None, base))
            for alias in node.names:
                below = f"{place}.{alias.name}".strip(".")
                yield below if below in MODULES else place


IMPORTS = {name: set(imported(name)) - {name, ""} for name in MODULES}


def room(name: str) -> int:
    return ROOMS.index(name.split(".")[0])


def test_every_module_has_a_room() -> None:
    assert {name.split(".")[0] for name in MODULES} - {""} == set(ROOMS)


@pytest.mark.parametrize("name", [name for name in MODULES if name])
def test_a_module_imports_only_from_its_room_and_those_below(name: str) -> None:
    upward = {(name, other) for other in IMPORTS[name] if room(other) > room(name)}
    assert not upward - UPWARD


def test_no_module_imports_itself_by_way_of_others() -> None:
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, " -> ".join([*way[way.index(name) :], name])
        if name not in done:
            for other in sorted(IMPORTS[name]):
                visit(other, (*way, name))
            done.add(name)

    for name in filter(None, MODULES):
        visit(name, ())


def test_the_commands_are_the_files_of_their_folder() -> None:
    files = {path.stem.replace("_", "-") for path in (PACKAGE / "cli" / "commands").glob("*.py")} - {"--init--"}
    assert files == set(cli.list_commands(None))  # type: ignore[arg-type]
