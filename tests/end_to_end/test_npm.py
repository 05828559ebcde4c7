"""The npm package in its runners: a miss fails its test, and a recording is kept only if its test passed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import provision
from tests.support.docs import ROOT

PACKAGE = ROOT / "npm"
PACKAGES = ("vitest@4.1.12", "jest@30.5.2", "typescript@5", "@modelcontextprotocol/sdk@1.32.2")
MINUTES = 600  # seconds, for npm and programs on a busy machine
TEST = """
const tape = useTape([process.env.PYTHON, "-m", "mcp_tape.demo.server"]);

describe("weather", () => {
  test("forecast", async () => {
    const client = new Client({ name: "runner", version: "1.0" });
    await client.connect(new StdioClientTransport(tape.server()));
    try {
      const result = await client.callTool({ name: "forecast", arguments: { city: process.env.CITY ?? "Bern" } });
      expect(result.content[0].text).toContain(process.env.EXPECTED ?? "Sunny");
    } finally {
      await client.close();
    }
  });
});
"""
FILES = {
    "vitest": {
        "forecast.test.mjs": """
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { useTape } from "mcp-tape-testing/vitest";
import { describe, expect, test } from "vitest";
"""
        + TEST
    },
    "jest": {
        "forecast.test.js": """
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { useTape } = require("mcp-tape-testing/jest");
"""
        + TEST,
        "jest.config.js": 'module.exports = { reporters: ["default", "mcp-tape-testing/jest-reporter"] };\n',
    },
}
COMMANDS = {"vitest": ["vitest", "run", "--testTimeout=60000"], "jest": ["jest", "--ci", "--testTimeout=60000"]}
TYPES = """
import { useTape as forJest } from "mcp-tape-testing/jest";
import { useTape } from "mcp-tape-testing/vitest";
const tape = useTape(["server"], { mode: "none", options: ["--quiet"] });
const { command, args }: { command: string; args: string[] } = tape.server();
const misses: string[] = forJest([command, ...args]).misses();
// @ts-expect-error: there is no such mode
useTape(["server"], { mode: "all" });
export default misses;
"""


def test_the_package_has_no_dependencies_and_holds_its_files() -> None:
    package = json.loads((PACKAGE / "package.json").read_text("utf-8"))
    assert not {name for name in package if name.endswith("ependencies")}
    exported = [
        one for way in package["exports"].values() for one in (way.values() if isinstance(way, dict) else [way])
    ]
    assert all((PACKAGE / path).is_file() for path in exported)


def project(place: Path, runner: str) -> Path:
    """A directory with the packed package, a runner and a test."""
    packed = subprocess.run(
        ["npm", "pack", "--silent", "--pack-destination", place],
        cwd=PACKAGE,
        capture_output=True,
        text=True,
        check=True,
    )
    modules = place / "node_modules"
    (modules / "mcp-tape-testing").mkdir(parents=True)
    archive = place / packed.stdout.split()[-1]
    shutil.unpack_archive(archive, place / "packed", "gztar")
    (place / "packed" / "package").rename(modules / "mcp-tape-testing" / "package")
    for path in (modules / "mcp-tape-testing" / "package").iterdir():
        path.rename(modules / "mcp-tape-testing" / path.name)
    for path in provision.npm(*PACKAGES).iterdir():
        (modules / path.name).symlink_to(path)
    (place / "package.json").write_text('{"private": true}')
    for name, text in FILES[runner].items():
        (place / name).write_text(text)
    return place


@pytest.mark.slow
@pytest.mark.parametrize("runner", [*FILES])
def test_a_runner_records_replays_and_keeps_recordings_of_passed_tests(runner: str, tmp_path: Path) -> None:
    if not provision.has_node():
        pytest.skip("needs Node and npm")
    place = project(tmp_path, runner)
    cassette = place / "cassettes" / "forecast.test" / "weather-forecast.db"
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

    def run(mode: str, **more: str) -> subprocess.CompletedProcess[str]:
        environ = {name: value for name, value in os.environ.items() if name != "CI"}
        environ |= {"PATH": path, "PYTHON": sys.executable, "TAPE_MODE": mode, "NO_COLOR": "1"} | more
        command = [str(place / "node_modules" / ".bin" / COMMANDS[runner][0]), *COMMANDS[runner][1:]]
        ended = subprocess.run(command, cwd=place, env=environ, capture_output=True, text=True, timeout=MINUTES)
        assert not list(place.rglob("*.part*")), ended.stdout + ended.stderr
        return ended

    failed = run("once", EXPECTED="Rain")
    assert failed.returncode and not cassette.exists(), failed.stdout + failed.stderr
    passed = run("once")
    assert passed.returncode == 0 and cassette.exists(), passed.stdout + passed.stderr
    first = cassette.read_bytes()

    played = run("none", PYTHON="no-such-program")
    assert played.returncode == 0, played.stdout + played.stderr
    missed = run("none", CITY="Basel")
    assert missed.returncode and "miss: tools/call forecast" in missed.stdout + missed.stderr
    failed = run("rewrite", EXPECTED="Rain")
    assert failed.returncode and cassette.read_bytes() == first
    passed = run("rewrite")
    assert passed.returncode == 0 and cassette.read_bytes() != first, passed.stdout + passed.stderr


@pytest.mark.slow
def test_the_types_are_those_of_the_functions(tmp_path: Path) -> None:
    if not provision.has_node():
        pytest.skip("needs Node and npm")
    place = project(tmp_path, "vitest")
    (place / "types.mts").write_text(TYPES)
    strict = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022", "types.mts"]
    checked = subprocess.run(
        [str(place / "node_modules" / ".bin" / "tsc"), *strict],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=MINUTES,
    )
    assert checked.returncode == 0, checked.stdout
