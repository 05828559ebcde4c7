"""The house: modules stand in rooms, import only downward, and each fact has one home."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from mcp_tape.cli import cli
from mcp_tape.wire import protocol

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "mcp_tape"
# From the bottom up. A module imports only from its own room and those before it.
ROOMS = """
    light errors options values wire model redaction cassette clients formats record replay transports api modes compare
    verify contracts fleet viewer agent testing demo start cli pytest_plugin __main__
""".split()


def modules() -> dict[str, Path]:
    """Every module by its dotted name below the package."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


class Facts(NamedTuple):
    """What is asked here about a module: all of its syntax is too much to be kept, or to be walked once for each."""

    imports: set[str]  # modules of this package, at once or later
    strings: list[str]  # except docstrings; those within f-strings too
    calls_of_os: list[str]  # the names that it takes from `os`, and the modules that it imports, at once or later


@functools.cache
def facts(name: str) -> Facts:
    """Read a module; on demand, as whoever collects tests need not run these."""
    found, alone = Facts(set(), [], []), set()
    for node in ast.walk(ast.parse(MODULES[name].read_text("utf-8"))):  # from the outside to the inside
        if isinstance(node, ast.Expr):
            alone.add(id(node.value))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            found.strings.append(node.value)
        elif isinstance(node, ast.ImportFrom) and node.level:
            found.imports.update(imported(name, node))
        else:
            found.calls_of_os.extend(calls_of_os(node))
    return found


def imported(name: str, node: ast.ImportFrom) -> Iterator[str]:
    """The modules of this package that a statement of a module imports."""
    package = [part for part in name.split(".") if part]
    if MODULES[name].name != "__init__.py":
        package.pop()
    place = ".".join(filter(None, [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]))
    for alias in node.names:
        below = f"{place}.{alias.name}".strip(".")
        yield below if below in MODULES else place


def calls_of_os(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
        yield f"os.{node.attr}"
    elif isinstance(node, ast.ImportFrom) and node.module == "os":
        yield from (f"os.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)


def imports(name: str) -> set[str]:
    return facts(name).imports - {name, ""}


def room(name: str) -> int:
    return ROOMS.index(name.split(".")[0])


def test_every_module_has_a_room() -> None:
    assert {name.split(".")[0] for name in MODULES} - {""} == set(ROOMS)


@pytest.mark.parametrize("name", [name for name in MODULES if name])
def test_a_module_imports_only_from_its_room_and_those_below(name: str) -> None:
    upward = {(name, other) for other in imports(name) if room(other) > room(name)}
    assert not upward


def test_no_module_imports_itself_by_way_of_others() -> None:
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, " -> ".join([*way[way.index(name) :], name])
        if name not in done:
            for other in sorted(imports(name)):
                visit(other, (*way, name))
            done.add(name)

    for name in filter(None, MODULES):
        visit(name, ())


def test_the_commands_are_the_files_of_their_folder() -> None:
    files = {path.stem.replace("_", "-") for path in (PACKAGE / "cli" / "commands").glob("*.py")} - {"--init--"}
    assert files == set(cli.list_commands(None))  # type: ignore[arg-type]


# One home for each fact ---------------------------------------------------------------------------------


WORDS = {value for name, value in vars(protocol).items() if name.isupper() and isinstance(value, str)}
CHANNELS = re.compile(r"\A(?:stdio|post-|get-)\Z|'(?:stdio|(?:post|get)-%?)'")
SQL = re.compile(
    r"\b(?:SELECT|INSERT INTO|UPDATE \w+ SET|DELETE FROM|CREATE (?:TEMP )?(?:TABLE|INDEX|VIEW)|PRAGMA|ATTACH|VACUUM)\b"
    r"|\bORDER BY\b|\bBETWEEN \?| WHERE "
)
POSIX = {"fcntl", "termios", "resource", "pwd", "grp", "pty", "tty"} | {
    f"os.{name}"
    for name in "fork forkpty setsid setpgid killpg kill getppid getpgid getpgrp getuid geteuid dup2 chown link mkfifo "
    "waitpid wait waitid WNOHANG nice sched_setscheduler writev readv posix_spawn register_at_fork openpty ttyname "
    "fchmod umask".split()
}


def strangers(knows: Callable[[Facts], bool], *homes: str) -> set[str]:
    """Return the modules that know a fact, outside of its homes."""
    inside = tuple(f"{home}." for home in homes)
    return {name for name in MODULES if not f"{name}.".startswith(inside) and knows(facts(name))}


def strangers_with(pattern: re.Pattern[str], *homes: str) -> set[str]:
    """Return the modules with a string that a pattern finds, outside of its homes."""
    return strangers(lambda module: any(map(pattern.search, module.strings)), *homes)


def test_words_of_mcp_stand_in_the_protocol_alone() -> None:
    assert len(WORDS) >= 50
    versions = (*protocol.LEGACY_VERSIONS, protocol.MODERN_VERSION)

    def knows(module: Facts) -> bool:
        return any(text in WORDS or any(version in text for version in versions) for text in module.strings)

    assert strangers(knows, "wire.protocol", "demo") == set()


def test_names_of_channels_stand_in_one_place() -> None:
    assert strangers_with(CHANNELS, "wire.channels") == set()


def test_sql_stands_in_the_cassette_alone() -> None:
    assert strangers_with(SQL, "cassette", "cli.commands.query", "agent.asking") == set()


def test_a_placeholder_is_written_in_one_way() -> None:
    assert strangers_with(re.compile(r"\[redacted:"), "wire.secret_names") == set()


def test_a_response_of_our_own_is_written_in_one_way() -> None:
    assert strangers_with(re.compile(r'"jsonrpc": ?"2\.0", ?"id":'), "wire.rewrite", "demo") == set()


def test_what_only_posix_has_is_called_where_processes_and_files_are_handled() -> None:
    homes = ("transports", "record", "cassette.replace")
    assert strangers(lambda module: not POSIX.isdisjoint(module.calls_of_os), *homes) == set()


def test_a_file_is_put_in_the_place_of_another_in_one_way() -> None:
    calls = [name for name in MODULES for call in facts(name).calls_of_os if call in ("os.replace", "os.rename")]
    assert set(calls) == {"cassette.replace"}
    assert len(calls) == 1


# Names of tests ---------------------------------------------------------------------------------------


def is_named(path: Path) -> bool:
    """Return whether a test file is named after a module or package of its room, or a command; an aspect may follow."""
    *place, file = path.relative_to(TESTS).with_suffix("").parts
    about = file.removeprefix("test_")
    names = {about[: end.start()] for end in re.finditer(r"_|\Z", about)}
    known = {".".join([*place, *more, name]) for name in names for more in ([], ["commands"])}
    return not known.isdisjoint(MODULES) or place[-1:] in ([name] for name in names)


def test_every_test_is_named_after_what_it_tests() -> None:
    end_to_end = set((TESTS / "end_to_end").rglob("test_*.py"))
    inside = set(TESTS.rglob("test_*.py")) - end_to_end - {TESTS / "test_house.py"}
    assert {str(path.relative_to(TESTS)) for path in inside if not is_named(path)} == set()
