"""Wrong inputs: an error says what happened, what was given, and what to try."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.golden import path_of
from tests.support.reading import invoke

TAPE = str(path_of("demo"))


@pytest.mark.parametrize(
    ("words", "given", "advice"),
    [
        (["verify", TAPE, "--url", "http://127.0.0.1:9/mcp", "--", "serve"], "mcp or the command serve", "not both"),
        (["diff", TAPE], TAPE, "Add another cassette, a URL, or -- and a server's command"),
        (["diff", TAPE, "new.db", "--", "serve"], "with new.db or with the command serve", "not both"),
        (["diff", "git:HEAD:old.db", TAPE], "git:HEAD:old.db", "cd into one"),
        (["lock", TAPE, "--", "serve"], f"the cassette {TAPE}, the command serve", "give one server"),
        (["lock", "-o", ".", TAPE], ". is a directory", "-o ./mcp.lock"),
        (["push", "tape.db"], "only tape.db was given", "mcp-tape push CASSETTE... URL"),
        (["pull", "s3://team/tapes"], "only s3://team/tapes was given", "mcp-tape pull URL... DIR"),
        (["lake", "tape.db"], "only tape.db was given", "mcp-tape lake CASSETTE... DEST"),
        (["search", "weather", TAPE], "no cassette at weather", f"mcp-tape search {TAPE} weather"),
        (["use", "new.db"], "new.db", "--mode none"),
        (["git-setup"], ". is in no git repository", "git init"),
        (["merge-reports", "none.json"], "none.json", "--json or --format junit"),
        (["convert", TAPE, "tape.foo"], "tape.foo", "--to FORMAT"),
        (["demo", "-o", "file"], "file", "name a directory"),
        (["replay", TAPE, "--normalize", "none:such"], "'none:such'", "write MODULE:FUNCTION"),
        (["redact", TAPE, "--env-file", "none.env"], "none.env", "name a .env file"),
        (["wrap", "nobody"], "a server nobody", "mcp-tape wrap --list"),
    ],
)  # fmt: skip
def test_an_error_shows_the_input_and_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], given: str, advice: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    done = invoke(*words)
    assert done.exit_code and "Traceback" not in done.stderr
    assert given in done.stderr and advice in done.stderr


def test_an_unreadable_file_is_named_once_by_check(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    path.write_text("no cassette")
    done = invoke("check", path)
    assert done.exit_code == 3
    assert done.stdout.startswith(f"{path} is not a cassette, and was left alone.") and "·" not in done.stdout


def test_a_configuration_without_servers_has_nothing_to_wrap(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_text("{}")
    assert "there is nothing to wrap" in invoke("wrap", "--config", path, "--all").stderr
