"""Random mutants of the core, and the tests that catch them: python -m tests.support.mutate [NUMBER] [--seed SEED]

Each mutant changes one place: a comparison, `and` or `or`, a number, a returned value, a branch, a call. The tests run
in a copy of the tree: first those nearest to each mutant, then those less near for the mutants that are left, and on.
Each that is caught is printed, and the survivors after each stage: one is equivalent, or a test is missing.
"""

from __future__ import annotations

import argparse
import ast
import atexit
import functools
import importlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple

import pytest

for _name in ("hypothesis", "xdist.plugin", "orjson", "sqlite_utils", "click", "httpx2", "deepdiff", "jsonschema"):
    importlib.import_module(_name)  # what a test loads, and no mutant changes, is loaded once
_LOADED = "ignore::pytest.PytestAssertRewriteWarning"

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 300  # seconds for the tests of one stage
CORE = ("wire", "redaction", "cassette", "record", "replay", "transports")
NEXT = {  # the rooms that use a room, as directories of tests
    "wire": "wire record replay cassette end_to_end/record end_to_end/replay end_to_end/http",
    "redaction": "redaction record cassette end_to_end/record end_to_end/http end_to_end/test_flips.py",
    "cassette": "cassette replay record fleet/many end_to_end/files end_to_end/replay end_to_end/record",
    "record": "record end_to_end/record end_to_end/http cassette",
    "replay": "replay end_to_end/replay end_to_end/http end_to_end/use verify end_to_end/verify",
    "transports": "transports end_to_end/record end_to_end/replay end_to_end/http end_to_end/use",
}
OTHER: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip


class Mutant(NamedTuple):
    path: str
    line: int
    start: int  # bytes of the file that are replaced
    end: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}  {shorten(self.before)}  →  {shorten(self.after)}"


def shorten(code: str) -> str:
    code = re.sub(r"\s+", " ", code)
    return f"`{code if len(code) < 100 else code[:97] + '…'}`"


def mutants(path: str) -> Iterator[Mutant]:
    """Every mutant of a module."""
    source = (ROOT / path).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in changeable(ast.parse(source)):
        for place, after in changed(node):
            start = starts[place.lineno - 1] + place.col_offset
            end = starts[(place.end_lineno or 0) - 1] + (place.end_col_offset or 0)
            mutant = Mutant(path, place.lineno, start, end, source[start:end].decode(), after)
            if mutant.before != mutant.after:
                yield mutant


def changeable(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a tree that run: no annotations, and nothing that is for type checkers alone."""
    for node in ast.iter_child_nodes(tree):
        is_type = node in (getattr(tree, "returns", None), getattr(tree, "annotation", None))
        for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if not (is_type or for_types or isinstance(node, (ast.Import, ast.ImportFrom, ast.JoinedStr))):
            yield node
            yield from changeable(node)


def changed(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """The places that may change in a node, and the code that then stands there."""
    other: ast.expr
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OTHER:
        other = ast.Compare(node.left, [OTHER[type(node.ops[0])](), *node.ops[1:]], node.comparators)
        yield node, f"({ast.unparse(other)})"
    elif isinstance(node, ast.BoolOp):
        other = ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        yield from ((node, f"({ast.unparse(one)})") for one in (other, *node.values[:2]))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node, f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)) and "'" not in ast.unparse(node):
        other = ast.BinOp(node.left, ast.Sub() if isinstance(node.op, ast.Add) else ast.Add(), node.right)
        yield node, f"({ast.unparse(other)})"
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield node, str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        yield node, repr(node.value + 1)
    elif isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) != "None":
        yield node, "return None"
    elif isinstance(node, ast.If) and not node.orelse:
        yield node.test, "False"
    elif isinstance(node, ast.IfExp):
        yield from ((node, f"({ast.unparse(one)})") for one in (node.body, node.orelse))
    elif isinstance(node, ast.Continue | ast.Break) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        yield node, "pass"


@functools.cache
def test_files() -> dict[str, str]:
    """The text of every file of tests, by its path."""
    return {str(one.relative_to(ROOT)): one.read_text("utf-8") for one in sorted((ROOT / "tests").rglob("test_*.py"))}


@functools.cache
def stages(path: str) -> list[list[str]]:
    """The tests of a module, the nearest first: named like it, using it, of its room, of the rooms that use it."""
    _, room, *_, stem = Path(path).with_suffix("").parts
    within = path.removeprefix("mcp_tape/").removesuffix(".py").replace("/", ".")
    above, _, name = within.rpartition(".")
    uses = re.compile(rf"mcp_tape\.{within}\b|from mcp_tape\.{above} import .*\b{name}\b")
    named = [name for name in test_files() if f"/{room}/" in name and Path(name).stem.startswith(f"test_{stem}")]
    using = [name for name, text in test_files().items() if name not in named and uses.search(text)]
    return [named, using, *([f"tests/{place}"] for place in NEXT[room].split())]


class Copy:
    """A copy of the tree, in which one file at a time is changed."""

    def __init__(self, place: str) -> None:
        self.place, self._tick = Path(place), 1_000_000_000
        self.place.chmod(0o755)  # some tests run as another user
        self._checked = dict[str, bool]()  # whether a test that has failed passes without a mutant
        for name in subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines():
            target = self.place / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target, follow_symlinks=False)

    def write(self, path: str, code: bytes) -> None:
        """Write a module. Its time is new each time, or Python would take what it compiled before."""
        self._tick += 10
        (self.place / path).write_bytes(code)
        os.utime(self.place / path, (self._tick, self._tick))

    def failure(self, mutant: Mutant, tests: list[str]) -> str | None:
        """The first of some tests that fails with a mutant, and passes without it; None if there is none."""
        original = (self.place / mutant.path).read_bytes()
        code = original[: mutant.start] + mutant.after.encode() + original[mutant.end :]
        try:
            self.write(mutant.path, code)
            while (failed := self._run(tests)) is not None:
                if failed not in self._checked and "::" in failed:
                    self.write(mutant.path, original)
                    self._checked[failed] = self._run([failed]) is None
                    self.write(mutant.path, code)
                if self._checked.get(failed, True):
                    break
            return failed
        finally:
            self.write(mutant.path, original)

    def _run(self, tests: list[str]) -> str | None:
        """Run tests; the first that fails, or the last line if none is named. None if they take too long."""
        skipped = [f"--deselect={test}" for test, passes in self._checked.items() if not passes]
        options = ["-x", "-q", "-n", "0", "-m", "not slow", "-p", "no:cacheprovider", "-W", _LOADED]
        with tempfile.TemporaryFile() as printed:
            process = os.fork()
            if process == 0:
                self._test([*options, *tests, *skipped], printed.fileno())
            end = monotonic() + LIMIT
            while (found := os.waitpid(process, os.WNOHANG))[0] == 0:
                if monotonic() > end:
                    os.killpg(process, signal.SIGKILL)
                    os.waitpid(process, 0)
                    return None
                sleep(0.05)
            printed.seek(0)
            lines = printed.read().decode("utf-8", "replace").splitlines()
        if os.waitstatus_to_exitcode(found[1]) in (0, 5):  # 5: no test was quick
            return None
        named = [line.split()[1] for line in lines if re.match(r"(FAILED|ERROR) \S+::", line)]
        return (named or [line for line in lines if line.strip()][-1:] or ["it ended"])[0]

    def _test(self, options: list[str], printed: int) -> None:
        """Run pytest in this process, a child that has loaded what does not change, and end it."""
        code = 1
        try:
            os.setsid()
            os.chdir(self.place)
            for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), printed, printed)):
                os.dup2(file, number)
            os.environ["PYTHONPATH"] = sys.path[0] = str(self.place)
            for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "mcp_tape")]:
                del sys.modules[name]
            code = pytest.main(options)
            sys.stdout.flush()
            atexit._run_exitfuncs()
        finally:
            os._exit(code)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("number", nargs="?", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=lambda text: set(map(int, text.split(","))), help="these of them: 3,14,15")
    given = parser.parse_args()
    paths = [str(one.relative_to(ROOT)) for room in CORE for one in sorted((ROOT / "mcp_tape" / room).rglob("*.py"))]
    every = [mutant for path in paths for mutant in mutants(path)]
    chosen = dict(enumerate(random.Random(given.seed).sample(every, given.number), 1))
    left = tried = {number: one for number, one in chosen.items() if given.only is None or number in given.only}
    place = tempfile.mkdtemp(prefix="mutants-")
    try:
        copy = Copy(place)
        for stage in range(max(len(stages(mutant.path)) for mutant in tried.values())):
            caught = set()
            for number, mutant in left.items():
                begin, tests = monotonic(), stages(mutant.path)[stage : stage + 1]
                failure = copy.failure(mutant, tests[0]) if tests and tests[0] else None
                if failure is not None:
                    caught.add(number)
                    print(f"{number:4} {mutant}  {failure}  {monotonic() - begin:.0f} s", flush=True)
            left = {number: mutant for number, mutant in left.items() if number not in caught}
            print(f"{len(tried) - len(left)} of {len(tried)} caught, stage {stage + 1}; left:", flush=True)
            print(*(f"{number:4} {mutant}" for number, mutant in left.items()), sep="\n", flush=True)
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
