"""The hooks in `.pre-commit-hooks.yaml`, run by pre-commit itself on a repository."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.docs import ROOT
from tests.support.promises import CASSETTES
from tests.support.running import ECHO, MCP_TAPE, record, run

MINUTES = 600  # seconds, for pip on a slow network
CONFIG = """
repos:
  - repo: {hooks}
    rev: v1
    hooks:
      - id: mcp-tape-check
      - id: mcp-tape-lock
        args: [--, {python}, -m, mcp_tape.demo.server, {version}]
        files: ^server$
        always_run: false
"""
SECRET = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"password":"not-a-real-one-4711"}}\n'


def git(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    settings = ["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "init.defaultBranch=main"]
    environ = os.environ | {"PRE_COMMIT_HOME": str(place.parent / "cache"), "GIT_CONFIG_GLOBAL": os.devnull}
    return subprocess.run(
        ["git", *settings, *words], cwd=place, env=environ, capture_output=True, text=True, timeout=MINUTES
    )


def hooks(place: Path) -> Path:
    """A repository of mcp-tape as it is here, with what its hooks need."""
    place.mkdir()
    for name in (".pre-commit-hooks.yaml", "LICENSE", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, place)
    shutil.copytree(ROOT / "mcp_tape", place / "mcp_tape", ignore=shutil.ignore_patterns("__pycache__"))
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"], ["tag", "v1"]):
        assert git(place, *words).returncode == 0
    return place


def configure(place: Path, version: str) -> None:
    text = CONFIG.format(
        hooks=json.dumps(str(place.parent / "hooks")), python=json.dumps(sys.executable), version=version
    )
    (place / ".pre-commit-config.yaml").write_text(text)


@pytest.mark.slow
def test_hooks_find_secrets_damage_and_breaking_changes(tmp_path: Path) -> None:
    pytest.importorskip("pre_commit", reason="needs the extra release")
    hooks(tmp_path / "hooks")
    place = tmp_path / "project"
    (place / "tapes").mkdir(parents=True)
    shutil.copy(CASSETTES / "demo.db", place / "tapes")
    configure(place, "first")
    lock = run([*MCP_TAPE, "lock", "-o", str(place / "mcp.lock"), "--", sys.executable, "-m", "mcp_tape.demo.server"])
    assert lock.returncode == 0, lock.stderr
    (place / "server").write_text("1")
    assert git(place, "init", "-q").returncode == 0
    installed = subprocess.run(
        [sys.executable, "-m", "pre_commit", "install"], cwd=place, capture_output=True, text=True
    )
    assert installed.returncode == 0, installed.stderr

    git(place, "add", ".")
    whole = git(place, "commit", "-m", "a whole cassette, and the locked server")
    assert whole.returncode == 0 and whole.stderr.count("Passed") == 2, whole.stderr

    assert run(record(place / "tapes" / "secret.db", ECHO, "--no-redact"), SECRET).returncode == 0
    git(place, "add", ".")
    refused = git(place, "commit", "-m", "a secret")
    assert refused.returncode and "password" in refused.stderr and "Skipped" in refused.stderr, refused.stderr
    git(place, "rm", "-qf", "tapes/secret.db")

    whole_bytes = (place / "tapes" / "demo.db").read_bytes()
    (place / "tapes" / "cut.db").write_bytes(whole_bytes[: len(whole_bytes) // 2])
    git(place, "add", ".")
    refused = git(place, "commit", "-m", "damage")
    assert refused.returncode and "cut.db" in refused.stderr, refused.stderr
    git(place, "rm", "-qf", "tapes/cut.db")

    configure(place, "next")
    (place / "server").write_text("2")
    git(place, "add", ".")
    refused = git(place, "commit", "-m", "a change that breaks clients")
    assert refused.returncode and "It can break clients" in refused.stderr, refused.stderr
