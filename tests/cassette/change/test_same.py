"""Whether two recordings have the same content, and the effect of a rewrite then."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_tape.cassette.change.same import has_same_content
from tests.support.running import MCP_TAPE, python, run, sessions
from tests.support.texts import ASKS, recorded, several, tape

ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"value":%d}}\n'
SERVER = 'import sys\nfor line in sys.stdin: print(\'{"jsonrpc":"2.0","id":1,"result":{"value":%s}}\', flush=True)'


def test_a_copy_says_the_same_whenever_it_was_recorded(tmp_path: Path) -> None:
    old, new = several(tmp_path / "old.db"), several(tmp_path / "new.db")
    assert has_same_content(str(new), str(old))
    tape("rm", old, "--session", "4")
    assert not has_same_content(str(new), str(old))


def test_servers_may_begin_in_any_order_and_the_sessions_of_each_may_not(tmp_path: Path) -> None:
    def made(*order: tuple[str | None, int]) -> str:
        path = tmp_path / ("-".join(f"{label}{value}" for label, value in order) + ".db")
        for label, value in order:
            recorded(path, client=ASKS, server=ANSWER % value, label=label)
        return str(path)

    old = made(("git", 1), ("time", 1), (None, 1), ("git", 2))
    assert has_same_content(made((None, 1), ("git", 1), ("git", 2), ("time", 1)), old)
    assert not has_same_content(made(("git", 2), ("time", 1), (None, 1), ("git", 1)), old)
    assert not has_same_content(made(("git", 1), ("time", 2), (None, 1), ("git", 2)), old)
    assert not has_same_content(made(("git", 1), ("time", 1), (None, 1)), old)


@pytest.mark.parametrize("more", [{"server": ANSWER % 2}, {"stderr": b"more\n"}, {"note": "other"}, {"label": "git"}])
def test_every_message_counts(tmp_path: Path, more: dict[str, object]) -> None:
    said: dict[str, object] = {"client": ASKS, "server": ANSWER % 1}
    old = recorded(tmp_path / "old.db", **said)  # type: ignore[arg-type]
    later = recorded(tmp_path / "later.db", **said, started_at="2030-01-01T00:00:00Z", run="r-2")  # type: ignore[arg-type]
    other = recorded(tmp_path / "other.db", **(said | more))  # type: ignore[arg-type]
    assert has_same_content(str(later), str(old))
    assert not has_same_content(str(other), str(old))


@pytest.mark.parametrize("name", ["tape.db", "tape.jsonl"])
@pytest.mark.slow
def test_a_rewrite_with_the_same_content_leaves_the_file_byte_for_byte(tmp_path: Path, name: str) -> None:
    path = tmp_path / name

    def rewrite(value: int, *options: str) -> bytes:
        server = python(SERVER % "'+open('value').read()+'")
        (tmp_path / "value").write_text(str(value))
        command = [*MCP_TAPE, "use", name, "--mode", "rewrite", "-q", *options, "--", *server]
        assert run(command, ASKS, cwd=tmp_path).returncode == 0
        return path.read_bytes()

    first = rewrite(1)
    assert rewrite(1) == first
    second = rewrite(2)
    assert second != first
    if name.endswith("jsonl"):  # the request keeps its old time
        (asked,) = (line for line in first.splitlines() if b"initialize" in line)
        assert asked in second.splitlines()
    before = sessions(path)[0].started_at
    assert rewrite(2, "--new-times") != second
    assert sessions(path)[0].started_at > before
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted([name, "value"])
