"""Every command that reads accepts `git:REVISION:FILE` as a cassette; commands that write refuse it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from mcp_tape import CassetteError, use_cassette
from mcp_tape.cassette.reader import Cassette
from tests.support.decks import alter, make_cassette
from tests.support.messages import call, lines, result
from tests.support.running import MCP_TAPE, run

V1 = "git:v1:tapes/tape.db"
OLD, NEW = ([("client", call(1, "find", q=q)), ("server", result(1, q))] for q in ("old", "new"))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose cassette of v1 has another request than the current one."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    tape = tmp_path / "tapes" / "tape.db"
    tape.parent.mkdir()
    make_cassette(tape, OLD)  # type: ignore[arg-type]
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "1"], ["tag", "v1"]):
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True)
    tape.unlink()
    make_cassette(tape, NEW)  # type: ignore[arg-type]
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ["show", V1], ["show", V1, "1"], ["ls", V1], ["stats", V1, "--json"], ["search", V1, "old"], ["check", V1],
        ["why", V1], ["query", V1, "select json_extract(text, '$.result.value') from frames"],
        ["merge", V1, "-o", "merged.db"], ["redact", V1, "--dry-run"], ["check", V1, "--json", "--jobs", "1"],
        ["convert", "--to", "txt", V1], ["convert", V1], ["convert", V1, "--to", "md"], ["diff", V1, V1],
    ],
    ids=lambda words: " ".join(words[:3]),
)  # fmt: skip
def test_commands_that_read_accept_it(repository: Path, words: list[str]) -> None:
    done = run([*MCP_TAPE, *words])
    assert done.returncode == 0, done.stderr
    assert b"old" in done.stdout or words[0] in ("ls", "stats", "check", "why", "diff", "merge", "redact")
    assert b"/mcp-tape-" not in done.stdout + done.stderr, "the copy goes by the name of the file in git"


@pytest.mark.slow
def test_it_is_replayed(repository: Path, tmp_path: Path) -> None:
    done = run([*MCP_TAPE, "replay", V1], lines(call(7, "find", q="old"), call(8, "find", q="new")))
    values = [json.loads(line).get("result", {}).get("value") for line in done.stdout.splitlines()]
    said = done.stderr.decode()
    assert (values, done.returncode) == (["old", None], 1)
    assert said.endswith(f"1 played, 1 missed: {V1}\n") and "--mode" not in said
    assert f"mcp-tape show {V1}" in said
    with use_cassette(V1, "none") as tape, tape._player() as player:  # type: ignore[attr-defined]
        player.receive(call(7, "find", q="old").encode(), "stdio", 0.0)
        assert json.loads(player.due(0.0)[0].text)["result"]["value"] == "old"
    done = run([*MCP_TAPE, "use", V1, "--mode", "none"], lines(call(7, "find", q="old")))
    assert done.returncode == 0 and b'"old"' in done.stdout


@pytest.mark.slow
def test_its_client_is_verified(repository: Path) -> None:
    server = ["--", sys.executable, "-m", "mcp_tape", "replay", V1]
    done = run([*MCP_TAPE, "verify", V1, "--allow-writes", *server])
    assert b"1 request played" in done.stderr and done.returncode == 0, done.stderr
    assert sorted(path.name for path in (repository / "tapes").iterdir()) == ["tape.db"]


@pytest.mark.parametrize(
    "words",
    [
        ["record", "-o", V1, "--", "true"], ["use", V1, "--mode", "rewrite", "--", "true"],
        ["use", V1, "--mode", "all", "--", "true"], ["use", V1, "--mode", "new_episodes", "--", "true"],
        ["redact", V1], ["rm", V1, "--session", "1"], ["merge", "tapes/tape.db", "-o", V1],
    ],
    ids=lambda words: " ".join(words[:4]),
)  # fmt: skip
def test_commands_that_write_refuse_it(repository: Path, words: list[str]) -> None:
    done = run([*MCP_TAPE, *words])
    assert done.returncode in (2, 3), done.stderr
    assert f"{V1} is a file of a revision, and only read" in done.stderr.decode(), words
    assert sorted(path.name for path in repository.iterdir()) == [".git", "tapes"]


def test_the_copy_is_gone_once_it_is_closed(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copies = repository / "copies"
    copies.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    with Cassette(V1) as cassette:
        assert cassette.path == V1 and not cassette.is_writable
        assert [path.name for path in copies.glob("*/*")] == ["tape.db"]
    assert not list(copies.iterdir())
    with pytest.raises(CassetteError, match=r"git has no tapes/none\.db at v1"):
        Cassette("git:v1:tapes/none.db")
    assert not list(copies.iterdir())


def test_one_that_was_committed_while_it_was_recorded_is_read(repository: Path) -> None:
    alter(repository / "tapes/tape.db", "PRAGMA journal_mode = wal")
    subprocess.run(["git", "add", "tapes/tape.db"], check=True)
    tree = subprocess.run(["git", "write-tree"], check=True, capture_output=True, text=True).stdout.strip()
    with Cassette(f"git:{tree}:tapes/tape.db") as cassette:
        assert cassette.session().id == 1
