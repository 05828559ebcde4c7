"""The recipes in docs/examples/frameworks: environments for them, and a run of each from its tape alone.

python -m tests.support.frameworks [NAME ...]             replay, and print a table; default: all
python -m tests.support.frameworks --record [NAME ...]    record the cassettes anew
python -m tests.support.frameworks --page                 write their differences into docs/frameworks.md
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support import provision, warm

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ROOT / "docs" / "examples" / "frameworks"
PAGE = ROOT / "docs" / "frameworks.md"
WAIT = 300  # seconds, for a run on a busy machine
MOST_LINES = 5  # by which a taped test may differ from the live one
# Modules for recipes that share an interpreter: loading them takes most of a test's time.
BUILT_ON_2 = (*provision.FASTMCP_SDK, "pydantic_ai.mcp", "agents.mcp", "langchain.agents", "langchain.mcp", "pytest")
BUILT_ON_1 = (*provision.SDK_1, "pytest")


def alone(*requirements: str) -> Callable[[], str]:
    """A separate environment, made on first use."""
    return lambda: str(provision.venv(*requirements, "pytest>=8", *provision.needed()))


def packages(*names: str) -> Callable[[], Path]:
    """The same for Node."""
    return lambda: provision.npm(*names, "vitest@^4")


class Recipe(NamedTuple):
    folder: str
    package: str  # whose version is reported
    python: Callable[[], str] | None  # its interpreter; None for Node
    is_quick: bool = False  # to install: CI runs it
    loads: tuple[str, ...] = ()  # loaded before forking, in one process for all recipes with the same list
    modules: Callable[[], Path] = provision.node_modules  # of Node

    @property
    def files(self) -> tuple[str, str]:
        """The live test, and the taped one."""
        return ("live_agent.py", "test_agent.py") if self.python else ("live.test.ts", "tape.test.ts")


RECIPES = {
    "pydantic-ai": Recipe("pydantic-ai", "pydantic-ai-slim", provision.fastmcp, True, BUILT_ON_2),
    "openai-agents": Recipe("openai-agents", "openai-agents", provision.fastmcp, True, BUILT_ON_2),
    "langchain": Recipe("langchain", "langchain", provision.fastmcp, True, BUILT_ON_2),
    "fastmcp-4": Recipe("fastmcp", "fastmcp", provision.fastmcp, True, BUILT_ON_2),
    "mcp-1": Recipe("mcp-1", "mcp", provision.sdk_1, True, BUILT_ON_1),
    "mcp-2": Recipe("mcp-2", "mcp", lambda: sys.executable, True, provision.SDK),
    "vitest": Recipe("vitest", "vitest", None, True),
    # Before langchain 1.5, with which older versions of pip try thousands of other packages.
    "langchain-mcp-adapters": Recipe(
        "langchain-mcp-adapters", "langchain-mcp-adapters", alone("langchain-mcp-adapters>=0.3", "langchain>=1.2,<1.5")
    ),
    "fastmcp-2": Recipe("fastmcp", "fastmcp", alone("fastmcp>=2.14,<3")),
    "fastmcp-3": Recipe("fastmcp", "fastmcp", alone("fastmcp>=3,<4")),
    "google-adk": Recipe("google-adk", "google-adk", alone("google-adk[mcp]>=2")),
    # Both import only SDK 1.x, but do not declare it.
    "autogen": Recipe("autogen", "autogen-ext", alone("autogen-ext[mcp]>=0.7", "autogen-agentchat>=0.7", "mcp<2")),
    "smolagents": Recipe("smolagents", "smolagents", alone("smolagents[mcp]>=1.24", "mcp<2")),
    "crewai": Recipe("crewai", "crewai", alone("crewai-tools[mcp]>=1.15", "mcp<2")),
    "agno": Recipe("agno", "agno", alone("agno[mcp]>=3")),
    "strands": Recipe("strands", "strands-agents", alone("strands-agents>=1.62")),
    "llama-index": Recipe("llama-index", "llama-index-tools-mcp", alone("llama-index-tools-mcp>=0.6")),
    "agent-framework": Recipe(
        "agent-framework", "agent-framework-core", alone("agent-framework-core>=1.23", "mcp", "tenacity")
    ),
    "haystack": Recipe("haystack", "mcp-haystack", alone("mcp-haystack>=2.1")),
    "langgraph": Recipe("langgraph", "langgraph", alone("langgraph>=1.2", "langchain-mcp-adapters>=0.3")),
    "dspy": Recipe("dspy", "dspy", alone("dspy>=3.4", "mcp")),
    "mcp-use": Recipe("mcp-use", "mcp-use", alone("mcp-use>=1.7")),
    "mcp-agent": Recipe("mcp-agent", "mcp-agent", alone("mcp-agent>=0.2.6", "mcp<2")),
    # Both need Node 22.
    "vercel-ai-sdk": Recipe("vercel-ai-sdk", "ai", None, modules=packages("ai@^7", "@ai-sdk/mcp@^2", "zod@^4")),
    "mastra": Recipe("mastra", "@mastra/mcp", None, modules=packages("@mastra/mcp@^2", "@mastra/core@^1.71", "zod@^4")),
    "semantic-kernel": Recipe("semantic-kernel", "semantic-kernel", alone("semantic-kernel[mcp]>=1.45")),
}


class Outcome(NamedTuple):
    code: int
    said: str
    seconds: float

    @property
    def tests(self) -> str:
        """The numbers of passed, failed and other tests."""
        line = next((line for line in reversed(self.said.splitlines()) if re.match(r"\W*(Tests +)?\d+ \w+", line)), "")
        found = re.findall(r"\d+ (?:passed|failed|errors?|skipped)", line)
        return ", ".join(found) or f"exit code {self.code}"

    @property
    def inexact(self) -> int:
        return sum(map(int, re.findall(r": (\d+) \(\d+ by ", self.said)))


def run(recipe: Recipe, place: Path, *options: str, mode: str = "none", all_plugins: bool = False) -> Outcome:
    """Run a copied recipe: in mode none without access to a server; `live` runs its live test."""
    around = provision.environment() if mode != "none" else provision.nowhere(Path(tempfile.mkdtemp(dir=place), "none"))
    # Other installed plugins take longer to load than the tests.
    around |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "" if all_plugins else "1", "NO_COLOR": "1", "TAPE_MODE": mode}
    run_one = _run_python if recipe.python else _run_node
    begun = time.monotonic()
    done = run_one(recipe, place, around, mode, options)
    return Outcome(done.returncode, (done.stdout + done.stderr).decode(), time.monotonic() - begun)


def _run_python(
    recipe: Recipe, place: Path, around: dict[str, str], mode: str, options: Sequence[str]
) -> subprocess.CompletedProcess[bytes]:
    assert recipe.python
    ours = {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    given = {"none": ["--mcp-block-live"], "live": []}.get(mode, [f"--mcp-record={mode}"])
    plugins = ["-p", "no:cacheprovider", "-p", "mcp_tape.pytest_plugin"]
    python = warm.command(recipe.python(), "-m", recipe.loads) if recipe.loads else [recipe.python(), "-m"]
    command = [*python, "pytest", *plugins, recipe.files[mode != "live"], *given, *options]
    return subprocess.run(command, cwd=place, env=around | ours, capture_output=True, timeout=WAIT)


def _run_node(
    recipe: Recipe, place: Path, around: dict[str, str], mode: str, options: Sequence[str]
) -> subprocess.CompletedProcess[bytes]:
    modules = place / "node_modules"
    if not modules.exists():
        modules.symlink_to(recipe.modules())
    tape = place / "bin" / "mcp-tape"
    tape.parent.mkdir(exist_ok=True)
    tape.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m mcp_tape "$@"\n')
    tape.chmod(0o755)
    ours = {"PATH": os.pathsep.join([str(tape.parent), around["PATH"]])}
    command = [
        shutil.which("node") or "node",
        str(modules / "vitest" / "vitest.mjs"),
        "run",
        recipe.files[mode != "live"],
        *options,
    ]
    return subprocess.run(command, cwd=place, env=around | ours, capture_output=True, timeout=WAIT)


def copy(recipe: Recipe, parent: Path) -> Path:
    """A copy of a recipe, to run and to change."""
    shutil.copy(FOLDERS / "pytest.ini", parent)
    return shutil.copytree(FOLDERS / recipe.folder, parent / recipe.folder)


def versions(recipe: Recipe) -> list[str]:
    """The versions of the framework and of its SDK."""
    if recipe.python is None:
        sdks = ("@modelcontextprotocol/sdk", "@modelcontextprotocol/client")
        files = [recipe.modules() / name / "package.json" for name in (recipe.package, *sdks)]
        return [*(json.loads(file.read_text("utf-8"))["version"] for file in files if file.exists()), "none"][:2]
    source = "import sys, importlib.metadata as all\nprint(*map(all.version, sys.argv[1:]))"
    command = [recipe.python(), "-c", source, recipe.package, "mcp"]
    return subprocess.run(command, capture_output=True, check=True, text=True, timeout=WAIT).stdout.split()


# The difference between a live test and a taped one -------------------------------------------------------


def difference(recipe: Recipe) -> list[str]:
    """The lines of a diff, without its head, positions and surrounding empty lines."""
    before, after = ((FOLDERS / recipe.folder / name).read_text("utf-8").splitlines() for name in recipe.files)
    lines = difflib.unified_diff(before, after, n=1, lineterm="")
    shown = [line.rstrip() for line in lines if not line.startswith(("---", "+++", "@@"))]
    return "\n".join(shown).strip("\n").split("\n")


def changed(lines: Sequence[str]) -> int:
    """The number of lines that differ; a replaced line counts once."""
    count, removed, added = 0, 0, 0
    for line in [*lines, " "]:
        removed, added = removed + line.startswith("-"), added + line.startswith("+")
        if line.startswith(" ") or not line:
            count, removed, added = count + max(removed, added), 0, 0
    return count


def with_differences(page: str) -> str:
    """The page, with each block after `<!-- difference: NAME -->` updated. Imports and empty lines are left out."""

    def block(found: re.Match[str]) -> str:
        lines = difference(RECIPES[found[2]])
        shown = [line for line in lines if len(line) > 1 and not re.match(r".(import|from) ", line)]
        return f"{found[1]}```diff\n" + "\n".join(shown) + "\n```\n"

    return re.sub(r"^(<!-- difference: ([\w-]+) -->\n)```diff\n.*?^```\n", block, page, flags=re.S | re.M)


# A large suite --------------------------------------------------------------------------------------------

SUITE = """
import asyncio

import agent
import pytest
from agent import TIME, WEATHER, ask


@pytest.mark.mcp_tape(servers={{"time": TIME, "weather": WEATHER}})
@pytest.mark.parametrize("minutes", range({tests}))
def test_a_minute(mcp_tape, monkeypatch, minutes):
    hour, minute = divmod(minutes, 60)
    monkeypatch.setitem(agent.NOON, "time", f"{{hour + 10}}:{{minute:02}}")
    said = asyncio.run(ask("When?", [mcp_tape["time"].transport, mcp_tape["weather"].transport]))
    assert f"{{hour + 19}}:{{minute:02}}" in said and "Sunny in Tokyo" in said
"""
IN_ORDER = ("-p", "no:randomly")
WAYS = {
    "recorded": IN_ORDER,
    "replayed": IN_ORDER,
    "replayed, -n 2": (*IN_ORDER, "-n", "2"),
    "replayed, random order": (),
    "replayed, both": ("-n", "2"),
    "recorded, both": ("-n", "2"),
}


def suite(tests: int) -> list[str]:
    """Run many tests of one agent in several ways; return the output of failed ones."""
    python = alone("pydantic-ai-slim[mcp]>=2,<3", "pytest-xdist>=3.6", "pytest-randomly>=3.15")
    recipe, failed = RECIPES["pydantic-ai"]._replace(python=python), []
    with tempfile.TemporaryDirectory() as directory:
        place = copy(recipe, Path(directory))
        (place / recipe.files[1]).write_text(SUITE.format(tests=tests), "utf-8")
        for way, options in WAYS.items():
            mode = "rewrite" if way.startswith("recorded") else "none"
            outcome = run(recipe, place, *options, mode=mode, all_plugins=True)
            print(f"{way:<23} {outcome.tests:<12} {outcome.seconds:6.1f} s", flush=True)
            failed += [f"{way}:\n{outcome.said}"] if outcome.code else []
    return failed


# The command ----------------------------------------------------------------------------------------------


def table(names: Sequence[str], mode: str) -> list[str]:
    """Run recipes, print a row for each, and return the output of failed ones. No names: all."""
    row = "{:<23} {:<9} {:<8} {:>7}  {:<10} {:>7} {:>8}".format
    print(row("framework", "version", "SDK", "changed", "tests", "seconds", "inexact"))
    failed = []
    for name in names or RECIPES:
        recipe = RECIPES[name]
        found, lines = versions(recipe), changed(difference(recipe))
        with tempfile.TemporaryDirectory() as directory:
            place = copy(recipe, Path(directory))
            outcome = run(recipe, place, mode=mode)
            if mode == "rewrite" and not outcome.code:
                shutil.copytree(place / "cassettes", FOLDERS / recipe.folder / "cassettes", dirs_exist_ok=True)
        print(row(name, *found, lines, outcome.tests, f"{outcome.seconds:.1f}", outcome.inexact), flush=True)
        failed += [f"{name}:\n{outcome.said}"] if outcome.code else []
    return failed


def main(arguments: list[str]) -> int:
    match arguments:
        case ["--page"]:
            PAGE.write_text(with_differences(PAGE.read_text("utf-8")), "utf-8")
            failed = []
        case ["--suite", *tests]:
            failed = suite(int(tests[0]) if tests else 100)
        case ["--live", *names]:
            failed = table(names, "live")
        case ["--record", *names]:
            # Recipes that share a cassette play the recording of the first.
            firsts = {recipe.folder: name for name, recipe in reversed(RECIPES.items())}
            failed = table(names or list(firsts.values()), "rewrite")
        case names:
            failed = table(names, "none")
    print("\n\n".join(failed), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
