"""The plugin for coding agents: what its skill says works, and its manifests are those that Claude Code, Codex and the
MCP registry read. See https://agentskills.io/specification, https://code.claude.com/docs/en/plugins-reference,
https://developers.openai.com/codex/plugins/build and the schema that server.json names."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import click
import pytest
from jsonschema import Draft202012Validator

from mcp_tape.cli import cli
from tests.support.docs import BLOCK, ROOT, pytest_run, shell

PLUGIN = ROOT / "plugin"
SKILL = PLUGIN / "skills" / "mcp-tape"
TEXT = (SKILL / "SKILL.md").read_text("utf-8")
VERSION = re.findall(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text("utf-8"), re.M)[0]

# What the registry demands of a server.json that has packages and no remotes.
ARGUMENT = {
    "type": "object",
    "properties": {"type": {"enum": ["positional", "named"]}, "format": {"enum": ["string", "filepath"]}},
    "required": ["type"],
    "if": {"properties": {"type": {"const": "named"}}},
    "then": {"required": ["name"]},
    "else": {"anyOf": [{"required": ["value"]}, {"required": ["valueHint"]}]},
}
PACKAGE = {
    "type": "object",
    "properties": {
        "registryType": {"const": "pypi"},
        "identifier": {"const": "mcp-tape"},
        "version": {"const": VERSION},
        "runtimeHint": {"const": "uvx"},
        "runtimeArguments": {"type": "array", "items": ARGUMENT},
        "packageArguments": {"type": "array", "items": ARGUMENT},
        "transport": {"const": {"type": "stdio"}},
    },
    "required": ["registryType", "identifier", "version", "transport"],
    "additionalProperties": False,
}
SERVER = {
    "type": "object",
    "properties": {
        "$schema": {
            "pattern": r"^https://static\.modelcontextprotocol\.io/schemas/\d{4}-\d\d-\d\d/server\.schema\.json$"
        },
        "name": {"type": "string", "pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$"},
        "description": {"type": "string", "minLength": 1, "maxLength": 100},
        "version": {"const": VERSION},
        "packages": {"type": "array", "items": PACKAGE, "minItems": 1},
    },
    "required": ["$schema", "name", "description", "version", "packages"],
    "additionalProperties": False,
}


def read(path: str) -> Any:
    return json.loads((ROOT / path).read_text("utf-8"))


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SKILL, tmp_path / "mcp-tape"))


@pytest.mark.slow
def test_every_command_of_the_skill_runs(desk: Path) -> None:
    blocks = [block["text"] for block in BLOCK.finditer(TEXT) if block["language"] == "sh"]
    assert len(blocks) >= 8
    for text in blocks:
        done = shell(text, desk, "")
        assert done.returncode == 0, (text, done.stderr)


@pytest.mark.slow
def test_the_skills_script_explains_a_failure(desk: Path) -> None:
    shutil.copy(ROOT / "cassettes" / "demo.db", desk)
    printed = shell("bash scripts/explain.sh demo.db", desk, "").stdout.decode()
    assert "Unknown tool: hindcast" in printed and "all calls were answered" in printed


@pytest.mark.slow
def test_the_test_of_the_skill_passes(desk: Path) -> None:
    (text,) = [block["text"] for block in BLOCK.finditer(TEXT) if block["language"] == "python"]
    (desk / "test_forecast.py").write_text(text)
    for options in (["--mcp-record=once"], []):
        done = pytest_run(desk, "-p", "pytest_asyncio.plugin", *options)
        assert done.returncode == 0, done.stdout.decode()
    assert [path.name for path in desk.rglob("*.db")] == ["test_the_forecast.db"]


def test_every_command_and_option_that_the_skill_names_exists() -> None:
    context = click.Context(cli)
    named = re.findall(r"\bmcp-tape ([a-z][a-z-]+)([^`\n]*)", re.sub(r"^---.*?^---", "", TEXT, flags=re.S | re.M))
    known = {name: cli.get_command(context, name) for name in cli.list_commands(context)}
    for name, rest in named:
        if name not in ("stands", "or"):
            command = known[name]
            assert command is not None
            options = {flag for param in command.params for flag in param.opts} | {"--help"}
            assert {*re.findall(r"(?<=\s)--[a-z][a-z-]*", rest.split(" -- ")[0])} <= options, (name, rest)


def test_the_skill_is_described_as_the_specification_has_it() -> None:
    head = re.match(r"---\nname: (?P<name>[a-z0-9-]{1,64})\ndescription: (?P<text>.{1,1024})\n---\n", TEXT)
    assert head and head["name"] == SKILL.name


@pytest.mark.parametrize("maker", ["claude", "codex"])
def test_a_manifest_names_existing_files(maker: str) -> None:
    manifest = read(f"plugin/.{maker}-plugin/plugin.json")
    assert (manifest["name"], manifest["version"]) == ("mcp-tape", VERSION)
    for path in (manifest.get("skills"), manifest.get("mcpServers")):
        assert path is None or (path.startswith("./") and (PLUGIN / path).exists())
    assert all(len(prompt) <= 128 for prompt in manifest.get("interface", {}).get("defaultPrompt", ()))


def test_a_marketplace_leads_to_the_plugin() -> None:
    (claude,) = read(".claude-plugin/marketplace.json")["plugins"]
    (codex,) = read(".agents/plugins/marketplace.json")["plugins"]
    assert claude["name"] == codex["name"] == "mcp-tape"
    assert (ROOT / claude["source"]).resolve() == (ROOT / codex["source"]["path"]).resolve() == PLUGIN


def test_the_plugin_and_the_registry_start_the_same_server() -> None:
    (server,) = read("plugin/.mcp.json")["mcpServers"].values()
    (package,) = read("server.json")["packages"]
    words = [word for one in package["runtimeArguments"] for word in (one["name"], one["value"])]
    words += [package["identifier"], *(one["value"] for one in package["packageArguments"] if "value" in one)]
    assert [server["command"], *server["args"]] == [package["runtimeHint"], *words]
    assert re.search(r"^mcp = \[", (ROOT / "pyproject.toml").read_text("utf-8"), re.M)  # the extra that they name


def test_the_entry_of_the_registry_is_as_its_schema_has_it() -> None:
    entry = read("server.json")
    Draft202012Validator(SERVER).validate(entry)
    assert f"<!-- mcp-name: {entry['name']} -->" in (ROOT / "README.md").read_text("utf-8")  # the owner's mark, on PyPI
