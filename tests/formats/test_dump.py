"""A cassette as text for git: the same text for the same conversation, and shown by git itself."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from mcp_tape.cli import cli
from tests.support.golden import GOLDEN
from tests.support.reading import Frames, make, message
from tests.support.running import ECHO, MCP_TAPE, WAIT, receive_line, record, run, send, started, until
from tests.support.texts import ASKS, TOLD, everything, hidden, odd, over_http, recorded, several, tape

MAKERS = [odd, hidden, over_http, several]
ANSWERS = b'{"jsonrpc":"2.0","id":1,"result":{' + TOLD + b"}}\n"


def dump(path: Path, *words: object) -> str:
    return tape("convert", "--to", "txt", path, *words).stdout


def block(text: str, head: str) -> str:
    """The text below a line, up to the next empty line."""
    return text.partition(f"\n{head}\n")[2].partition("\n\n")[0]


def test_a_message_has_one_member_a_line_in_the_order_of_their_names(tmp_path: Path) -> None:
    text = dump(recorded(tmp_path / "tape.db", ASKS, ANSWERS))
    assert text.startswith("session 1\n  transport: stdio\n  target: ")
    assert block(text, "← initialize ok").split("\n")[:5] == [
        "{", '  "id": 1,', '  "jsonrpc": "2.0",', '  "result": {', '    "capabilities": {},'
    ]  # fmt: skip


def test_two_recordings_of_the_same_conversation_are_the_same_text(tmp_path: Path) -> None:
    one = recorded(tmp_path / "one.db", ASKS, ANSWERS, b"warning\n", run="a")
    other = ASKS.replace(b'"id":1,', b' "id" : 1 ,').replace(b"protocol", b"\\u0070rotocol")
    two = recorded(tmp_path / "two.db", other, ANSWERS, b"warning\n", run="b", recorder="another", started_at="2027")
    assert dump(one) == dump(two)
    assert dump(one) == dump(one)
    assert dump(one, "--times") != dump(one)


def test_another_number_is_another_text_however_large(tmp_path: Path) -> None:
    call = b'{"id":1,"method":"x","params":{"n":%s}}\n'
    texts = [
        dump(recorded(tmp_path / f"{n}.db", call % number, b""))
        for n, number in enumerate(
            (b"123456789012345678901234567890", b"123456789012345678901234567891", b"1e2", b"100")
        )
    ]
    assert len(set(texts)) == 4
    assert '"n": 123456789012345678901234567891' in texts[1]


def test_stderr_comes_last(tmp_path: Path) -> None:
    text = dump(odd(tmp_path / "tape.db"))
    assert text.endswith("\n← stderr\n| warning \\xff\n\n← stderr\n| plain\n\n")


def test_ends_of_streams_are_left_out_and_http_statuses_are_not(tmp_path: Path) -> None:
    text = dump(several(tmp_path / "tape.db"))
    assert "close" not in text and "\n  exit_code: 3\n" in text
    assert '"status": 401' in block(text, "← response 401 on post-1")
    assert block(text, "← tools/call a refused on post-3") == "| go away"


def test_racing_http_frames_give_the_same_text_in_any_order(tmp_path: Path) -> None:
    def opened(talk: Frames) -> Frames:
        return talk.happened("client", "get-1", event="request", verb="GET", path="/mcp", headers={})

    def answered(talk: Frames) -> Frames:
        talk.happened("server", "get-1", event="response", status=200, headers={})
        return talk.server(message(method="notifications/message", params={"data": "hello"}), channel="get-1")

    call = message(id=1, method="ping")
    one = answered(opened(Frames().posts("post-1", call, message(id=1, result={}))))
    two = answered(opened(Frames())).posts("post-1", call, message(id=1, result={}))
    two.happened("client", "get-1", event="abort")
    early, late = dump(make(tmp_path / "one.db", one)), dump(make(tmp_path / "two.db", two))
    assert early == late
    assert re.findall("^[→←] (.*)", early, re.M) == [
        "ping on post-1", "ping ok on post-1", "request GET /mcp on get-1", "response 200 on get-1",
        "notifications/message on get-1", "request POST /mcp on post-1", "response 200 on post-1",
    ]  # fmt: skip


@pytest.mark.parametrize("make", MAKERS)
def test_nothing_that_was_recorded_looks_like_a_line_of_ours_or_acts_on_a_terminal(
    tmp_path: Path, make: Callable[[Path], Path]
) -> None:
    text = dump(make(tmp_path / "tape.db"))
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)
    assert not re.search(r"^(?:@5|# a|```|Hello)", text, re.M)


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_golden_cassettes_are_dumped_whole(golden: Path) -> None:
    heads = re.findall("^[→←] ", dump(golden), re.M)
    assert len(heads) == len([row for row in everything(golden)["frames"] if row[6] != b"control"])


def test_one_session_of_several(tmp_path: Path) -> None:
    path = several(tmp_path / "tape.db")
    assert re.findall(r"^session (\d)$", dump(path), re.M) == ["1", "2", "3", "4"]
    assert re.findall(r"^session (\d)$", dump(path, "--session", 2), re.M) == ["2"]


@pytest.mark.slow
def test_a_session_that_is_being_recorded_is_dumped_too(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    with started(record(path, ECHO, "--no-redact")) as recorder:
        assert recorder.stdin and recorder.stdout
        send(recorder.stdin, b"hello\n")
        receive_line(recorder.stdout)
        until(
            lambda: "← noise\n| hello" in run([*MCP_TAPE, "convert", "--to", "txt", str(path)]).stdout.decode(),
            "what was said",
        )
        text = dump(path)
    assert "incomplete: never closed" in text


READERS = [
    ["convert", "--to", "txt"], ["convert", "--to", "txt", "--textconv"], ["convert"], ["convert", "--to", "md"],
    ["edit", "--editor", "true"],
]  # fmt: skip


@pytest.mark.slow(quick=3)
@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_a_damaged_cassette_is_an_error_and_no_traceback(tmp_path: Path, words: list[str]) -> None:
    path, chance = several(tmp_path / "tape.db"), Random(7)
    whole = path.read_bytes()
    for _ in range(40):
        data = bytearray(whole)
        for _ in range(chance.choice((1, 3, 20))):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data)
        result = CliRunner().invoke(cli, [words[0], str(path), *words[1:]])
        assert result.exit_code in (0, 3), result.exception
        assert result.exit_code == 0 or "--textconv" not in words


TAMPERED = ["method = x'ff'", "name = 7", "status = x'00'", "part = 'x'", "exchange = 1.5"]
TAMPERED += ["part = -9223372036854775808", "cue = 'x'", "answers = 'x'", "id = -id"]


@pytest.mark.slow(quick=5)
@pytest.mark.parametrize("words", READERS, ids=" ".join)
@pytest.mark.parametrize("change", TAMPERED)
def test_a_cassette_that_was_tampered_with_is_no_traceback(tmp_path: Path, words: list[str], change: str) -> None:
    path = several(tmp_path / "tape.db")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"UPDATE derived SET {change} WHERE id % 3 = 1")
    result = CliRunner().invoke(cli, [words[0], str(path), *words[1:]])
    assert result.exit_code in (0, 3), result.exception


# In git


def not_cassettes(place: Path) -> dict[str, Path]:
    with closing(sqlite3.connect(place / "other.db")) as db:
        db.execute("CREATE TABLE t (x)")
    (place / "garbage.db").write_bytes(b"\0garbage\xff" * 100)
    (place / "empty.db").touch()
    (place / "cut.db").write_bytes(odd(place / "whole.db").read_bytes()[:5000])
    return {name: place / f"{name}.db" for name in ("other", "garbage", "empty", "cut")}


@pytest.mark.parametrize("name", ["other", "garbage", "empty", "cut"])
def test_a_file_that_is_no_cassette_is_an_error_but_not_for_git(tmp_path: Path, name: str) -> None:
    path = not_cassettes(tmp_path)[name]
    assert tape("convert", "--to", "txt", path, code=3).stderr
    text = dump(path, "--textconv")
    assert str(path) not in text
    assert f"{path.stat().st_size} bytes, sha256 " in text


class Repository:
    """A real git repository, with only its own configuration."""

    def __init__(self, place: Path, **environ: str) -> None:
        self.place = place
        nobody = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_PAGER": "cat"}
        names = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        self.environ = os.environ | nobody | names | environ
        place.mkdir(exist_ok=True)
        self.git("init", "-q")

    def git(self, *words: str) -> str:
        return self.run("git", *words).stdout.decode("utf-8", "replace")

    def setup(self, *words: str) -> str:
        return self.run(*MCP_TAPE, "git-setup", *words).stderr.decode()

    def run(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(words, cwd=self.place, env=self.environ, capture_output=True, timeout=WAIT)
        assert done.returncode == 0, done.stderr
        return done

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "a change")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    if not any((Path(place) / "git").exists() for place in os.environ["PATH"].split(os.pathsep)):
        pytest.skip("git is not here")
    return Repository(tmp_path / "repo")


@pytest.mark.slow
def test_git_shows_changes_of_cassettes_in_words(repository: Repository) -> None:
    path = recorded(repository.place / "tape.db", ASKS, ANSWERS)
    told = repository.setup()
    assert "wrote" in told and "every other clone has to run mcp-tape git-setup once" in told
    repository.commit()
    tape("edit", path, "--editor", "sed -i.old s/odd/even/")
    shown = repository.git("diff")
    assert '-      "name": "odd",\n' in shown and '+      "name": "even",\n' in shown
    assert "-  server_name: odd\n+  server_name: even\n" in shown
    assert "Binary files" not in shown
    repository.commit()
    logged = repository.git("log", "-p")
    assert '+      "name": "even",\n' in logged
    assert "+← initialize ok\n" in logged  # the commit that added it
    assert '+      "name": "even",\n' in repository.git("show")


@pytest.mark.slow
def test_other_databases_in_the_repository_still_differ(repository: Repository) -> None:
    repository.setup()
    not_cassettes(repository.place)
    repository.commit()
    (repository.place / "garbage.db").write_bytes(b"\0other garbage")
    shown = repository.git("diff")
    assert "+14 bytes, sha256 " in shown
    assert "cannot show this" in shown


@pytest.mark.slow
def test_setting_up_twice_changes_nothing_and_it_can_be_undone(repository: Repository) -> None:
    attributes = repository.place / ".gitattributes"
    attributes.write_text("*.png binary\n")
    before = repository.git("config", "--local", "--list")
    repository.setup()
    first = attributes.read_text()
    assert first.startswith("*.png binary\n") and "\n*.db diff=mcp-tape\n" in first
    assert "already" in repository.setup()
    assert attributes.read_text() == first
    assert "took" in repository.setup("--undo")
    assert attributes.read_text() == "*.png binary\n"
    assert repository.git("config", "--local", "--list") == before
    assert "nothing" in repository.setup("--undo")


@pytest.mark.slow
def test_pending_recordings_are_not_in_git_status(repository: Repository) -> None:
    exclude = repository.place / ".git" / "info" / "exclude"
    before = exclude.read_text() if exclude.exists() else ""
    (repository.place / "tape.db.new").write_bytes(b"")
    assert "tape.db.new" in repository.git("status", "--short")
    repository.setup()
    repository.setup("--path", "tapes/*.db")
    assert "tape.db.new" not in repository.git("status", "--short")
    repository.setup("--undo")
    assert exclude.read_text() == before


@pytest.mark.slow
def test_an_attributes_file_of_ours_alone_goes_away(repository: Repository) -> None:
    repository.setup("--path", "tapes/*.db", "--path", "*.tape")
    lines = (repository.place / ".gitattributes").read_text().splitlines()
    assert lines[1:] == ["tapes/*.db diff=mcp-tape", "*.tape diff=mcp-tape"]
    repository.setup("--undo")
    assert not (repository.place / ".gitattributes").exists()


@pytest.mark.slow
def test_the_top_of_the_repository_is_found_from_below(repository: Repository) -> None:
    (repository.place / "deep" / "er").mkdir(parents=True)
    repository.setup("deep/er")
    assert (repository.place / ".gitattributes").exists()


@pytest.mark.slow
def test_without_mcp_tape_on_the_path_git_runs_this_python(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("git", "sh"):
        (tmp_path / "bin" / name).symlink_to(run(["which", name]).stdout.decode().strip())
    repository.environ = dict(repository.environ) | {"PATH": str(tmp_path / "bin")}
    done = repository.run(*MCP_TAPE, "git-setup", "--json")
    assert json.loads(done.stdout)["textconv"] == f"{sys.executable} -m mcp_tape convert --to txt --textconv"


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize("words", [["--path", "a b"], ["--path", ""], ["no-such-directory"]])
def test_wrong_usage_of_git_setup_is_exit_code_2(repository: Repository, words: list[str]) -> None:
    done = run([*MCP_TAPE, "git-setup", *words], cwd=repository.place)
    assert done.returncode == 2
    assert not (repository.place / ".gitattributes").exists()


def test_where_there_is_no_repository_git_says_so(tmp_path: Path) -> None:
    done = run(
        [*MCP_TAPE, "git-setup"], cwd=tmp_path, env=os.environ | {"GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
    )
    assert done.returncode == 1
    assert b"is in no git repository" in done.stderr
