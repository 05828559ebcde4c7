"""The JSON output of commands keeps its members, their order and their types; for one cassette, every value.

To write the golden files again: FREEZE=1 pytest -n 0 tests/end_to_end/test_promises_json.py
"""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from mcp_tape.cli import cli
from tests.support.bucket import served
from tests.support.json_schemas import values
from tests.support.promises import CASSETTES, ROOT, SERVER, Desk, frozen, frozen_json, shape
from tests.support.reading import GOLDEN as TAPES
from tests.support.reading import invoke
from tests.support.running import run

PAIRS = ROOT / "docs" / "examples" / "pairs"
PAIR = [str(PAIRS / "git-old.db"), str(PAIRS / "git-new.db")]
QUERY = "SELECT id, transport, exit_code, note, 1.5 AS number, x'ff' AS bytes FROM sessions"
# Read-only commands, on every golden cassette.
READING = {
    "ls": ["ls"],
    "show": ["show", "--all"],
    "stats": ["stats"],
    "stats --context": ["stats", "--context"],
    "convert --to jsonl": ["convert"],
    "query": ["query", QUERY],
    "query --nl": ["query", QUERY, "--nl"],
    "search": ["search", "name"],
}
# Commands on the small cassettes of the desk, in this order, since some prepare others.
CHANGING: dict[str, tuple[list[str], int]] = {
    "check": (["check", "secret.db"], 1),
    "why": (["why", "hung.db"], 1),
    "check --expect": (["check", "demo.db", "--expect", "tool:none", "--forbid", "tools/list"], 1),
    "check --jobs": (["check", "secret.db", "demo.db", "none.db", "--jobs", "1"], 3),
    "redact --dry-run": (["redact", "secret.db", "--dry-run"], 0),
    "redact --jobs": (["redact", "secret.db", "--dry-run", "--jobs", "1"], 0),
    "redact": (["redact", "secret.db"], 0),
    "convert": (["convert", "demo.jsonl", "loaded.db"], 0),
    "merge": (["merge", "demo.db", "time.db", "-o", "merged.db"], 0),
    "rm": (["rm", "merged.db", "--session", "1"], 0),
    "edit": (["edit", "loaded.db", "--editor", "python edit.py"], 0),
    "edit unchanged": (["edit", "loaded.db", "--editor", "true"], 0),
    "git-setup": (["git-setup"], 0),
    "git-setup --undo": (["git-setup", "--undo"], 0),
    "wrap --list": (["wrap", "--list"], 0),
    "doctor": (["doctor", "hung.db"], 1),
    "diff --rules": (["diff", "--rules"], 0),
    "diff": (["diff", *PAIR, "--slower-than", "1"], 1),
    "breaking": (["breaking", *PAIR], 1),
    "lock": (["lock", "--check", "demo.lock", "demo.db"], 0),
    "lake": (["lake", "demo.db", "time.db", "lake"], 0),
    "diff --jobs": (["diff", *PAIR, "--jobs", "1"], 1),
    "merge-reports": (["merge-reports", "one.json", "two.json"], 3),
}
VERIFYING: dict[str, tuple[list[str], int]] = {
    "verify": (["verify", "demo.db", "--allow-writes", "--json", "--", *SERVER, "next"], 1),
    "verify --jobs": (["verify", "demo.db", "--jobs", "1", "--allow-writes", "--json", "--", *SERVER, "next"], 1),
    "review": (["review", "--json"], 1),
}
BUCKET: dict[str, tuple[list[str], int]] = {
    "push": (["push", "demo.db", "time.db", "s3://team/tapes", "--json"], 0),
    "push refused": (["push", "demo.db", "s3://team/tapes", "--redact-value", "Bern", "--json"], 1),
    "pull": (["pull", "s3://team/tapes", "here", "--json"], 0),
}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A separate repository, so that settings further up do not count."""
    desk = Desk(tmp_path)
    desk.take("demo.db", "time.db")
    assert run(["git", "init", "-q"], cwd=tmp_path, env=desk.environ).returncode == 0
    return desk


def test_every_command_with_json_is_frozen_here() -> None:
    context = click.Context(cli)
    given = {name: cli.get_command(context, name) for name in cli.list_commands(context)}
    json_too = {
        name for name, command in given.items() if command and any("--json" in each.opts for each in command.params)
    }
    assert json_too == {name.split()[0] for name in (*READING, *CHANGING, *VERIFYING, *BUCKET)}


def test_the_json_of_reading_commands_has_the_same_shape() -> None:
    found = {}
    for name, (command, *rest) in READING.items():
        printed = [invoke(command, tape, *rest, *([] if "--nl" in rest else ["--json"])) for tape in TAPES]
        assert {(one.exit_code, one.stderr) for one in printed} <= {(0, ""), (1, "")}
        found[name] = shape([value for one in printed if one.stdout for value in values(one.stdout)])
    frozen_json("json-reading.json", found)


@pytest.mark.parametrize("name", ["ls", "show", "stats", "search"])
def test_the_json_of_one_cassette_has_the_same_shape(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CASSETTES)
    command, *rest = READING[name]
    printed = invoke(command, "demo.db", *rest, "--json").stdout
    frozen(f"json-demo/{name}.jsonl", re.sub(r'(?<=_at":")[-0-9T:.]{26}Z(?=")', "TIME", printed))


def test_the_json_of_other_commands_has_the_same_shape(desk: Desk) -> None:
    desk.write("demo.jsonl", desk.run("convert", "demo.db").stdout.decode())
    desk.write("demo.lock", desk.run("lock", "demo.db").stdout.decode())
    desk.write(".mcp.json", '{"mcpServers": {"a": {"command": "x"}, "b": {"url": "https://example.com/mcp"}}}')
    desk.write("edit.py", "import sys, pathlib\np = pathlib.Path(sys.argv[1])\n"
               "p.write_text(p.read_text('utf-8').replace('Bern', 'Thun'), 'utf-8')\n")  # fmt: skip
    asked = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"password":"not-a-real-one-4711"}}\n'
    assert desk.run("record", "-o", "secret.db", "--no-redact", "--", "cat", stdin=asked).returncode == 0
    hangs_up = "sh", "-c", "read request"  # not earlier: it might end before the request
    assert desk.run("record", "-q", "-o", "hung.db", "--", *hangs_up, stdin=asked).returncode == 0
    for name, shard in {"one.json": "1/2", "two.json": "2/2"}.items():
        rows = desk.run("check", "secret.db", "demo.db", "none.db", "--shard", shard, "--json").stdout.decode()
        desk.write(name, rows)
    found = {}
    for name, (words, code) in CHANGING.items():
        done = desk.run(*words, "--json")
        assert (done.returncode, done.stderr) == (code, b""), name
        found[name] = shape(values(done.stdout.decode()))
    frozen_json("json-other.json", found)


def test_the_json_of_verify_and_review_has_the_same_shape(desk: Desk) -> None:
    found = {}
    for name, (words, code) in VERIFYING.items():
        done = desk.run(*words)
        assert done.returncode == code, (name, done.stderr)
        found[name] = shape(values(done.stdout.decode()))
    frozen_json("json-verify.json", found)


def test_the_json_of_push_and_pull_has_the_same_shape(desk: Desk) -> None:
    found = {}
    with served() as bucket:
        desk.environ |= bucket.environ()
        for name, (words, code) in BUCKET.items():
            done = desk.run(*words)
            assert (done.returncode, done.stderr) == (code, b""), name
            found[name] = shape(values(done.stdout.decode()))
    frozen_json("json-bucket.json", found)
