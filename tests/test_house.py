"""The house rules: modules are in rooms, import only downward, and each fact has one home."""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from mcp_tape.cli import cli
from mcp_tape.wire import protocol

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "mcp_tape"
# From the bottom up. A module imports only from its own room and those before it: the VCR, the diff, leaves, doors.
ROOMS = """
    light errors values extensions system
    wire model redaction cassette record replay transports options api modes
    compare diff verify
    console
    formats schemas telemetry clients contracts fleet viewer agent testing
    demo start cli pytest_plugin __main__
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
    """The facts about a module that these tests need: its whole syntax tree is too large to keep, or to walk
    repeatedly."""

    imports: set[str]  # imported modules of this package, at once or later
    named: set[str]  # modules of this package named in strings, to import
    strings: list[str]  # except docstrings; including those in f-strings
    calls_of_os: list[str]  # names that it uses from `os`, and modules that it imports, at once or later
    classes: list[str]  # public ones
    private: list[str]  # private names that it uses from elsewhere
    defined: set[str]  # private names that it defines, and those that it sets on objects
    interpreter: list[str]  # private modules of Python


@functools.cache
def facts(name: str) -> Facts:
    """Read a module, on demand: collecting tests need not do it."""
    found, alone = Facts(set(), set(), [], [], [], [], set(), []), set()
    tree = ast.parse(MODULES[name].read_text("utf-8"))
    found.classes.extend(node.name for node in tree.body if isinstance(node, ast.ClassDef) and node.name[0] != "_")
    programs = [node for node in tree.body if isinstance(node, ast.If) and "'__main__'" in ast.unparse(node.test)]
    run_alone = {id(inner) for node in programs for inner in ast.walk(node)}  # not run by importing the module
    for node in ast.walk(tree):  # from outside in
        if isinstance(node, ast.Expr):
            alone.add(id(node.value))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            found.strings.append(node.value)
            found.named.update(named(name, node.value))
        if id(node) not in run_alone:
            found.imports.update(imported(name, node))
        found.calls_of_os.extend(calls_of_os(node))
        found.private.extend(private_names(node))
        found.defined.update(definitions(node))
        found.interpreter.extend(private_modules(node))
    return found


def package_of(name: str) -> str:
    return name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]


def imported(name: str, node: ast.AST) -> Iterator[str]:
    """The modules of this package that a statement of a module imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name[len("mcp_tape.") :] for alias in node.names if alias.name.startswith("mcp_tape."))
    if not isinstance(node, ast.ImportFrom):
        return
    place, given = [], [*filter(None, (node.module or "").split("."))]
    if node.level:
        package = [*filter(None, package_of(name).split("."))]
        place = package[: len(package) - node.level + 1]
    elif given[:1] == ["mcp_tape"]:
        given.pop(0)
    else:
        return
    above = ".".join([*place, *given])
    for alias in node.names:
        below = f"{above}.{alias.name}".strip(".")
        yield below if below in MODULES else above


def named(name: str, text: str) -> Iterator[str]:
    """The module that a string names: `mcp_tape.a.b`, `.b` relative to this one, `a.b:function` in a table."""
    beside = f"{package_of(name)}{text}".strip(".") if re.fullmatch(r"(?:\.[a-z_]\w*)+\.?", text) else ""
    entry = re.fullmatch(r"(?:mcp_tape\.(\w+(?:\.\w+)*)\.?|(\w+(?:\.\w+)*):\w+)", text)
    for module in (beside, *(entry.groups() if entry else ())):
        if module in MODULES and module:
            yield module


def calls_of_os(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
        yield f"os.{node.attr}"
    elif isinstance(node, ast.ImportFrom) and node.module == "os":
        yield from (f"os.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)


DOCUMENTED = {"_exit", "_fields", "_replace", "_make", "_asdict"}  # of `os`, and of named tuples


def is_private(name: str) -> bool:
    return re.match(r"_[^_]", name) is not None and name not in DOCUMENTED


def private_names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Attribute) and is_private(node.attr):
        yield node.attr
    elif isinstance(node, ast.ImportFrom):
        yield from (alias.name for alias in node.names if is_private(alias.name))


def definitions(node: ast.AST) -> Iterator[str]:
    """Private names that are defined here: functions, classes, variables and members."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and is_private(node.name):
        yield node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and is_private(node.id):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_private(node.attr):
        yield node.attr


def private_modules(node: ast.AST) -> Iterator[str]:
    """Private modules of Python that are imported, by `import _json` or by a string."""
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    if isinstance(node, ast.ImportFrom) and not node.level:
        names.append(node.module or "")
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        names.append(node.value)
    yield from (name for name in names if is_private(name) and name in sys.stdlib_module_names)


def imports(name: str) -> set[str]:
    return facts(name).imports - {name, ""}


def room(name: str) -> int:
    return ROOMS.index(name.split(".")[0])


def test_every_module_has_a_room_in_the_order_that_contributors_read() -> None:
    assert {name.split(".")[0] for name in MODULES} - {""} == set(ROOMS)
    drawn = re.search(
        r"^```text\n(light .*?)```", (TESTS.parent / "docs" / "architecture.md").read_text("utf-8"), re.S | re.M
    )
    assert drawn and re.findall(r"\w+", re.sub(r" {3,}.*", "", drawn[1], flags=re.M)) == ROOMS


def test_modules_import_only_from_their_room_and_those_below_by_name_too() -> None:
    pairs = ((name, other) for name in filter(None, MODULES) for other in imports(name) | facts(name).named)
    assert [f"{one} -> {other}" for one, other in pairs if room(other) > room(one)] == []


def test_a_module_that_a_string_names_is_seen() -> None:
    assert {"wire.jsonpath", "values"} <= facts("options").named
    assert "cli.commands" in facts("cli").named


def test_a_public_class_name_occurs_once() -> None:
    here = (module for module in MODULES if not module.startswith("system.windows_"))  # which has the names of POSIX
    names = Counter(name for module in here for name in facts(module).classes)
    assert [name for name, times in names.items() if times > 1] == []


def test_a_package_lists_its_files() -> None:
    for path in (path for path in MODULES.values() if path.name == "__init__.py" and path.parent != PACKAGE):
        text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        listed = set(re.findall(r"^ *(\w+)(?:/|\.py)? {2,}\S", text, re.M))
        there = {other.stem for other in path.parent.glob("*.py")} | {
            other.parent.name for other in path.parent.glob("*/__init__.py")
        }
        assert not listed or listed == there - {"__init__"}, path


IRREGULAR = set(
    """begun bent bound broken built chosen drawn found given gone heard held hidden kept known laid left lost
made meant met paid said seen sent shown sold spoken taken told torn worn written""".split()
)


def is_bare_participle(name: str) -> bool:
    return name in IRREGULAR or re.fullmatch(r"(?!need|feed|seed|speed)[a-z]+ed", name) is not None


def test_functions_are_named_by_verbs_or_by_their_results() -> None:
    found = set()
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            if is_function and not node.decorator_list and is_bare_participle(node.name.lstrip("_")):
                found.add(f"{name}.{node.name}")
    assert found == set()


def test_private_members_stay_in_their_package() -> None:
    inside: dict[str, set[str]] = {}
    for name in MODULES:
        inside.setdefault(package_of(name), set()).update(facts(name).defined)
    asked = {(name, one) for name in MODULES if name != "light" for one in facts(name).private}
    assert {f"{name}: {one}" for name, one in asked if one not in inside[package_of(name)]} == set()


def test_private_modules_of_the_interpreter_are_imported_in_one_place() -> None:
    homes = ("light", "transports.stdio.bridge")  # the bridge is a program that cannot import the package
    assert strangers(lambda module: bool(module.interpreter), *homes) == set()


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
    for name in "fork forkpty setsid setpgid killpg kill getpgid getpgrp getuid geteuid chown mkfifo "
    "waitpid wait waitid WNOHANG nice sched_setscheduler writev readv posix_spawn register_at_fork openpty ttyname "
    "fchmod umask".split()
}


def strangers(knows: Callable[[Facts], bool], *homes: str) -> set[str]:
    """Return the modules outside its homes that contain a fact."""
    inside = tuple(f"{home}." for home in homes)
    return {name for name in MODULES if not f"{name}.".startswith(inside) and knows(facts(name))}


def strangers_with(pattern: re.Pattern[str], *homes: str) -> set[str]:
    """Return the modules outside its homes with a string that matches a pattern."""
    return strangers(lambda module: any(map(pattern.search, module.strings)), *homes)


def test_words_of_mcp_are_in_the_protocol_alone() -> None:
    assert len(WORDS) >= 50
    versions = (*protocol.LEGACY_VERSIONS, protocol.MODERN_VERSION)

    def knows(module: Facts) -> bool:
        return any(text in WORDS or any(version in text for version in versions) for text in module.strings)

    assert strangers(knows, "wire.protocol", "demo") == set()


def test_names_of_channels_are_in_one_place() -> None:
    assert strangers_with(CHANNELS, "wire.channels") == set()


def test_sql_is_in_the_cassette_alone() -> None:
    assert strangers_with(SQL, "cassette", "cli.commands.query", "agent.asking") == set()


def test_the_schema_alone_knows_which_columns_of_derived_are_left_out() -> None:
    assert strangers_with(re.compile(r"\b(?:cue IS (?:NOT )?|exchange IS )NULL\b"), "cassette.schema") == set()


def test_a_placeholder_is_written_in_one_way() -> None:
    assert strangers_with(re.compile(r"\[redacted:"), "wire.secret_names") == set()


def test_a_response_of_our_own_is_written_in_one_way() -> None:
    assert strangers_with(re.compile(r'"jsonrpc": ?"2\.0", ?"id":'), "wire.rewrite", "demo") == set()


def test_posix_calls_are_in_one_place() -> None:
    homes = ("system", "transports.workers", "transports.stdio.bridge")
    assert strangers(lambda module: not POSIX.isdisjoint(module.calls_of_os), *homes) == set()


@pytest.mark.parametrize("module", ["calls", "processes"])
def test_each_name_of_posix_that_others_use_is_there_on_windows(module: str) -> None:
    used = {
        name
        for path in PACKAGE.rglob("*.py")
        if path.parent.name != "workers"  # which are left to POSIX
        for name in re.findall(rf"\b{module}\.([A-Za-z_]+)", path.read_text("utf-8"))
    }
    there, here = (bound_names(MODULES[f"system.{system}_{module}"]) for system in ("windows", "posix"))
    assert used & here - there == set()
    assert len(used & here) > 10


def bound_names(path: Path) -> set[str]:
    """The names that a module defines."""
    names = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(one.id for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name))
    return names


def test_which_system_this_is_is_asked_in_one_place() -> None:
    sources = {name: path.read_text("utf-8") for name, path in MODULES.items() if not name.startswith("system")}
    asks = re.compile(r"sys\.platform|\bos\.name\b|\bplatform\.system\b")
    assert {name for name, text in sources.items() if asks.search(text)} == set()


IO = {"os", "io", "subprocess", "pathlib", "shutil", "tempfile", "socket", "asyncio"}
IO_CALLS = {"open", "read_text", "read_bytes", "write_text", "write_bytes"}


def io_of(node: ast.AST) -> Iterator[str]:
    """Modules and functions that open files or start processes."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in IO)
    elif isinstance(node, ast.ImportFrom) and not node.level and node.module in IO:
        yield node.module
    elif isinstance(node, ast.Call):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        yield from {name} & IO_CALLS


def test_a_comparison_does_no_io_but_through_an_open_cassette() -> None:
    below = tuple(ROOMS[: ROOMS.index("transports")])
    for name in (name for name in MODULES if name.split(".")[0] == "compare"):
        tree = ast.parse(MODULES[name].read_text("utf-8"))
        assert [one for node in ast.walk(tree) for one in io_of(node)] == [], name
        assert {other.split(".")[0] for other in imports(name)} <= {"compare", *below}, name
        writes = ("cassette.revisions", "cassette.replace", "cassette.change")
        assert [other for other in imports(name) if other.startswith(writes)] == [], name


def test_a_file_is_put_in_the_place_of_another_in_one_way() -> None:
    calls = [name for name in MODULES for call in facts(name).calls_of_os if call in ("os.replace", "os.rename")]
    assert set(calls) == {"cassette.replace"}
    assert len(calls) == 1


# Names of tests ---------------------------------------------------------------------------------------


def is_named(path: Path) -> bool:
    """Return whether a test file is named after a module or package of its room, or a command, perhaps with an
    aspect."""
    *place, file = path.relative_to(TESTS).with_suffix("").parts
    about = file.removeprefix("test_")
    names = {about[: end.start()] for end in re.finditer(r"_|\Z", about)}
    known = {".".join([*place, *more, name]) for name in names for more in ([], ["commands"])}
    return not known.isdisjoint(MODULES) or place[-1:] in ([name] for name in names)


def test_every_test_file_is_named_after_its_subject() -> None:
    end_to_end = set((TESTS / "end_to_end").rglob("test_*.py"))
    under_wine = set((TESTS / "windows").glob("test_*.py"))
    inside = set(TESTS.rglob("test_*.py")) - end_to_end - under_wine - {TESTS / "test_house.py"}
    assert {str(path.relative_to(TESTS)) for path in inside if not is_named(path)} == set()
