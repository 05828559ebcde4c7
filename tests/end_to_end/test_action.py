"""The GitHub Action: its steps, run as GitHub runs those of a composite action, on a repository made for it.

https://docs.github.com/actions/reference/workflows-and-actions/metadata-syntax
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.support.diffs import Talk, call, hello, listing, taped, tool
from tests.support.docs import DOCS, ROOT
from tests.support.many import damaged

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
MINUTES = 600  # seconds, for a step that installs packages on a slow network
OLD: Talk = [hello(), listing("tools/list", tool("t")), call()]
NEW: Talk = [hello(), listing("tools/list", tool("t"), tool("u")), call()]
BROKEN: Talk = [hello(), listing("tools/list")]


class Job(NamedTuple):
    """The end of a job: its exit code, log, outputs and summary."""

    code: int
    log: str
    outputs: dict[str, str]
    summary: str


class Runner:
    """Runs the steps of the action in a repository. `temporary`: the directory of the runner's machine."""

    def __init__(self, place: Path, temporary: Path) -> None:
        self.place = place
        self.temporary = temporary
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str) -> None:
        settings = ["-c", "user.name=x", "-c", "user.email=x@example.com"]
        subprocess.run(["git", *settings, *words], cwd=self.place, check=True, capture_output=True)

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "next")

    def run(self, name: str, **inputs: str) -> Job:
        """Run the step of this name."""
        (step,) = [one for one in ACTION["runs"]["steps"] if one["name"] == name]
        assert step["shell"] == "bash" and inputs.keys() <= ACTION["inputs"].keys()
        given = {name: one.get("default", "") for name, one in ACTION["inputs"].items()} | inputs
        files = {name: self.temporary / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        for path in files.values():
            path.write_text("")
        environ = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
        environ |= {"CI": "true", "GITHUB_ACTIONS": "true", "GITHUB_ACTION_PATH": str(ROOT), "GITHUB_BASE_REF": ""}
        environ |= {"RUNNER_TEMP": str(self.temporary)} | {name: str(path) for name, path in files.items()}
        environ |= {name: evaluate(text, given) for name, text in step.get("env", {}).items()}
        script = self.temporary / "script.sh"
        script.write_text(evaluate(step["run"], given))
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        ended = subprocess.run(command, cwd=self.place, env=environ, capture_output=True, text=True, timeout=MINUTES)
        outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
        log = ended.stdout + ended.stderr
        return Job(ended.returncode, log, outputs, files["GITHUB_STEP_SUMMARY"].read_text("utf-8"))


def evaluate(text: str, inputs: dict[str, str]) -> str:
    """Put inputs in place of their expressions, the only ones that the action has in its steps."""
    filled = re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda found: inputs[found[1]], text)
    assert "${{" not in filled
    return filled


@pytest.fixture(scope="module")
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a runner on which the first step has run."""
    place = tmp_path_factory.mktemp("runner")
    repository = tmp_path_factory.mktemp("repository")
    installed = Runner(repository, place).run("Install mcp-tape")
    assert installed.code == 0, installed.log
    return place


def test_the_metadata_is_complete_and_matches_the_manual() -> None:
    assert ACTION["runs"]["using"] == "composite"
    page = (DOCS / "ci.md").read_text("utf-8")
    rows = re.findall(r"^\| ((?:`[a-z-]+`(?:, )?)+) \|", page, re.M)
    named = {name for row in rows for name in re.findall(r"`([a-z-]+)`", row)}
    assert {*ACTION["inputs"], *ACTION["outputs"]} <= named
    steps = {step.get("id"): step for step in ACTION["runs"]["steps"]}
    for name, output in ACTION["outputs"].items():
        assert output["value"] == f"${{{{ steps.check.outputs.{name} }}}}"
    assert "${{" not in "".join(step["run"] for step in steps.values()), "inputs reach scripts as variables only"


@pytest.mark.slow
def test_the_action_on_a_repository(tmp_path: Path, temporary: Path) -> None:
    runner = Runner(tmp_path, temporary)
    tapes = runner.place / "tapes"
    tapes.mkdir()
    runner.commit()

    nothing = runner.run("Check", base="HEAD", paths="tapes")
    assert (nothing.code, nothing.outputs["exit-code"]) == (3, "3")
    assert "::error title=mcp-tape::" in nothing.log and "there is no cassette at tapes" in nothing.summary

    old = taped(tapes / "my server.db", OLD)
    new = runner.run("Check", base="HEAD", paths="tapes")
    assert new.code == 1 and "nothing was compared" in new.log and "nothing was compared" in new.summary
    runner.commit()

    old.unlink()
    taped(old, NEW)
    passed = runner.run("Check", base="HEAD", paths="'tapes/my server.db'")
    assert (passed.code, passed.outputs["errors"], passed.outputs["exit-code"]) == (0, "0", "0"), passed.log
    assert "tool-added" in passed.summary and "::notice title=" in passed.log
    assert "demo" not in passed.outputs["sarif"] and Path(runner.place, passed.outputs["sarif"]).is_file()

    old.unlink()
    taped(old, BROKEN)
    broken = runner.run("Check", base="HEAD", paths="tapes/", sarif="contract.sarif")
    assert broken.code == 1 and int(broken.outputs["errors"]) >= 1
    assert "::error title=tool-removed" in broken.log and "file=tapes/my server.db" in broken.log
    assert "tool-removed" in broken.summary
    sarif = json.loads((runner.place / broken.outputs["sarif"]).read_text("utf-8"))
    assert "tool-removed" in {one["ruleId"] for one in sarif["runs"][0]["results"]}
    (row,) = map(json.loads, Path(broken.outputs["report"]).read_text("utf-8").splitlines())
    assert (row["command"], row["status"], row["row"]) == ("breaking", "failed", 1)

    fingerprints = {one["fingerprint"] for one in row["comparisons"][0]["changes"] if one["level"] == "error"}
    (runner.place / ".mcp-tape-ignore").write_text("".join(f"{one}  # intended\n" for one in fingerprints))
    accepted = runner.run("Check", base="HEAD", paths="tapes")
    assert (accepted.code, accepted.outputs["errors"]) == (0, "0"), accepted.log
    (runner.place / ".mcp-tape-ignore").unlink()

    damaged(old)
    unreadable = runner.run("Check", base="HEAD", paths="tapes")
    assert (unreadable.code, unreadable.outputs["exit-code"]) == (3, "3")
    assert "::error title=" in unreadable.log and "my server.db" in unreadable.summary

    unknown = runner.run("Check", base="no-such-revision", paths="tapes")
    assert unknown.code == 3 and "fetch-depth: 0" in unknown.summary
    wrong = runner.run("Check", check="everything")
    assert wrong.code == 2 and "::error title=mcp-tape::check is breaking or lock, not everything" in wrong.log


@pytest.mark.slow
def test_the_action_checks_a_lock(tmp_path: Path, temporary: Path) -> None:
    runner = Runner(tmp_path, temporary)
    program = runner.temporary / "mcp-tape" / "bin" / "mcp-tape"
    server = f"'{sys.executable}' -m mcp_tape.demo.server"
    words = [program, "lock", "-o", "mcp.lock", "--", sys.executable, "-m", "mcp_tape.demo.server"]
    subprocess.run(words, cwd=runner.place, check=True, capture_output=True)
    runner.commit()
    passed = runner.run("Check", check="lock", server=server)
    assert (passed.code, passed.outputs["errors"]) == (0, "0"), passed.log
    broken = runner.run("Check", check="lock", server=f"{server} next", options="--level error")
    assert broken.code == 1 and int(broken.outputs["errors"]) >= 1
    assert re.search(r"^::error title=.*,file=mcp\.lock,line=\d+::", broken.log, re.M), broken.log
