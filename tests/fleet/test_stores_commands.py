"""Each FILE argument may be a URL: readers give the same result, writers refuse, and no secret is printed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mcp_tape import CassetteError, use_cassette
from mcp_tape.agent.paging import ToolError
from mcp_tape.cli import cli
from mcp_tape.fleet import cache
from mcp_tape.viewer.feed import Feed
from tests.cassette.text.test_non_sqlite_commands import READING
from tests.support.agents import answer
from tests.support.bucket import Bucket
from tests.support.golden import path_of
from tests.support.plugin import Suite
from tests.support.running import MCP_TAPE, python, run
from tests.support.texts import tape

DEMO = path_of("demo").read_bytes()
OTHER = Path(__file__).parent.parent / "formats/others/recordings/mcp-flight-recorder/odd.json"
ASKED = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'
OTHERS = [
    ["convert", "FILE", "OUT.jsonl"], ["convert", "FILE", "OUT.db"], ["merge", "FILE", "-o", "OUT.db"],
    ["convert", "FILE", "--to", "otlp"], ["lock", "FILE"],
    ["stats", "FILE", "--context"], ["diff", "FILE#1", "FILE#latest"], ["check", "FILE", "--forbid", "tool:nothing"],
]  # fmt: skip
REFUSED = [
    "edit FILE", "convert tape.db FILE", "record -o FILE -- cat", "diff FILE", "doctor FILE",
    "show FILE 999999", "query FILE SELECT", "rm FILE --session 1", "use FILE --mode all -- cat", "redact FILE",
]  # fmt: skip


@pytest.fixture
def place(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory and a bucket with the same cassette."""
    everything = path_of("everything").read_bytes()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("tape.db").write_bytes(everything)
    bucket.objects["team/tape.db"] = everything
    return tmp_path / "here"


@pytest.mark.parametrize("words", [words for words in READING + OTHERS if words[0] not in ("doctor",)], ids=str)
@pytest.mark.slow(quick=5)
def test_a_command_says_the_same_of_a_url(bucket: Bucket, place: Path, words: list[str]) -> None:
    said = []
    for name in ("tape.db", "s3://team/tape.db"):
        result = tape(*(word.replace("FILE", name) for word in words))
        said.append([text.replace("s3://team/", "") for text in (result.stdout, result.stderr)])
        for out in place.glob("OUT*"):
            said[-1].append(out.read_bytes().decode("latin-1"))
            out.unlink()
    assert said[0][:2] == said[1][:2] and len(said[0]) == len(said[1])
    assert bucket.verbs() == ["GET"]


@pytest.mark.slow
def test_text_and_recordings_of_others_are_read_too(bucket: Bucket, place: Path) -> None:
    bucket.objects["team/tape.jsonl"] = tape("convert", "tape.db", "--session", "all").stdout_bytes
    bucket.objects["team/other.json"] = OTHER.read_bytes()
    rows = tape("ls", "tape.db", "--json").stdout.replace("tape.db", "tape.jsonl")
    assert tape("ls", "s3://team/tape.jsonl", "--json").stdout == rows.replace("tape.jsonl", "s3://team/tape.jsonl")
    said = tape("ls", "s3://team/other.json")
    assert "mcp-tape: s3://team/other.json: imported from" in said.stderr
    assert "cache" not in said.stdout + said.stderr
    tape("convert", "s3://team/tape.jsonl", "OUT.db")
    tape("convert", "s3://team/other.json", "OUT2.db")


@pytest.mark.slow
def test_a_prefix_is_listed_as_a_directory_is(bucket: Bucket, place: Path) -> None:
    bucket.objects |= {"team/more/a.db": DEMO, "team/more/b.txt": b"no cassette", "other/c.db": DEMO}
    files = [json.loads(line)["file"] for line in tape("ls", "s3://team/", "--json").stdout.splitlines()]
    assert sorted(set(files)) == ["s3://team/more/a.db", "s3://team/tape.db"]


@pytest.mark.parametrize(
    "words",
    [
        ["edit", "URL"], ["rm", "URL", "--session", "1"], ["redact", "URL"],
        ["record", "-o", "URL", "--", "cat"], ["record", "-o", "URL", "--rotate", "1M", "--", "cat"],
        ["record", "-o", "URL", "--url", "http://127.0.0.1:1/mcp"],
        ["use", "URL", "--mode", "all", "--", "cat"], ["use", "URL", "--mode", "rewrite", "--", "cat"],
        ["use", "URL", "--mode", "new_episodes", "--", "cat"],
        ["convert", "tape.db", "URL"], ["merge", "tape.db", "-o", "URL"],
        ["verify", "URL", "--update", "--", "cat"], ["show", "-f", "URL"],
        ["convert", "URL", "--to", "pytest"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_commands_that_write_refuse_remote_cassettes_with_a_remedy(
    bucket: Bucket, place: Path, words: list[str]
) -> None:
    said = tape(*(word.replace("URL", "s3://team/tape.db") for word in words), code=3).stderr
    assert "s3://team/tape.db is remote, and only read" in said and "mcp-tape pull" in said
    assert os.listdir(place) == ["tape.db"]
    assert list(bucket.objects) == ["team/tape.db"]


@pytest.mark.slow
def test_the_signature_of_a_url_is_never_shown(bucket: Bucket, place: Path) -> None:
    url = f"{bucket.url}/team/tape.db?X-Amz-Signature=f00dcafe&token=hunter2"
    for words in [*READING, *OTHERS, *(line.split() for line in REFUSED)]:
        result = CliRunner().invoke(cli, [word.replace("FILE", url) for word in words])
        said = [result.stdout_bytes, result.stderr_bytes, *(out.read_bytes() for out in place.glob("OUT*"))]
        assert not any(secret in text for secret in (b"f00dcafe", b"hunter2") for text in said), words
        for out in place.glob("OUT*"):
            out.unlink()


@pytest.mark.slow
def test_diff_takes_an_https_url_for_a_cassette_by_its_end_and_else_for_a_server(bucket: Bucket, place: Path) -> None:
    tape("diff", f"{bucket.url}/team/tape.db", f"{bucket.url}/team/tape.db#1")
    bucket.objects["team/tape.lock"] = tape("lock", "tape.db").stdout_bytes
    tape("breaking", "s3://team/tape.lock", "tape.db")
    assert "OLD is a recording" in tape("diff", f"{bucket.url}/mcp", "tape.db", code=2).stderr


def test_agents_read_the_given_urls_and_no_other(bucket: Bucket, place: Path) -> None:
    url = "s3://team/tape.db"
    (row,) = (answer("list_cassettes", url).structured or {})["cassettes"]
    assert (row["file"], row["bytes"], row["sessions"]) == (url, Path("tape.db").stat().st_size, 1)
    assert answer("stats", url, file=url).text.startswith(f"{url}, 1 session")
    bucket.objects["team/other.db"] = DEMO
    for tool, arguments in {
        "stats": {"file": "s3://team/other.db"},
        "diff": {"old": url, "new": "s3://team/other.db"},
    }.items():
        with pytest.raises(ToolError, match="refused"):
            answer(tool, url, **arguments)
    assert bucket.verbs() == ["GET"]


@pytest.mark.slow
def test_verify_plays_a_remote_cassette_and_leaves_nothing(bucket: Bucket, place: Path) -> None:
    bucket.objects["team/demo.db"] = DEMO
    tape(
        "verify",
        "s3://team/demo.db",
        "--allow-writes",
        "--",
        sys.executable,
        "-m",
        "mcp_tape.demo.server",
        "next",
        code=1,
    )
    assert os.listdir(place) == ["tape.db"]


def test_a_page_shows_a_remote_cassette(bucket: Bucket, place: Path) -> None:
    feed = Feed("s3://team/tape.db")
    assert b'"updates":1' in feed.update_after(0, 0).partition(b"\n")[0]
    assert b'"updates":0' in feed.update_after(1, feed.generation).partition(b"\n")[0]
    assert bucket.verbs() == ["GET"]


@pytest.mark.slow
def test_processes_that_work_on_signed_urls_know_them_by_name(bucket: Bucket, place: Path) -> None:
    urls = [f"{bucket.url}/team/tape.db?X-Amz-Signature=f00dcafe&id={number}" for number in range(2)]
    lines = tape("check", *urls, "--jobs", "2", "--json").stdout.splitlines()
    assert len(lines) == 2 and not any("f00dcafe" in line for line in lines)
    assert bucket.verbs() == ["GET", "GET"]


# Replay ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["replay"], ["use"], ["use", "--mode", "none"]], ids=" ".join)
@pytest.mark.slow
def test_a_replay_from_the_cache_costs_one_conditional_request(bucket: Bucket, place: Path, words: list[str]) -> None:
    bucket.objects["team/demo.db"] = DEMO
    cache.local("s3://team/demo.db")
    bucket.requests.clear()
    command, *options = words
    server = ["--", "no-such-server"] if command == "use" else []
    result = run([*MCP_TAPE, command, "s3://team/demo.db", *options, *server], ASKED)
    assert json.loads(result.stdout)["result"]["tools"]
    assert (result.returncode, result.stderr.splitlines()[-1]) == (
        0,
        b"mcp-tape: 1 played, 0 missed: s3://team/demo.db",
    )
    (request,) = bucket.requests
    assert (request.verb, "if-none-match" in request.headers) == ("GET", True)


@pytest.mark.slow
def test_a_test_suite_asks_once(bucket: Bucket, place: Path) -> None:
    bucket.objects["team/demo.db"] = DEMO
    for _ in range(3):
        with use_cassette("s3://team/demo.db") as used:
            result = run(used.command, ASKED)
            assert json.loads(result.stdout)["result"]["tools"]
        assert used.path == "s3://team/demo.db" and len(used.calls()) == 1
    assert bucket.verbs() == ["GET"]


@pytest.mark.parametrize("mode", ["all", "rewrite", "new_episodes"])
def test_a_tape_that_would_record_is_refused(bucket: Bucket, place: Path, mode: str) -> None:
    with pytest.raises(CassetteError, match="only read"):
        use_cassette("s3://team/tape.db", mode, command=["cat"])  # type: ignore[arg-type]


def test_once_does_not_record_a_missing_remote_cassette(bucket: Bucket, place: Path) -> None:
    with pytest.raises(CassetteError, match="nothing at s3://team/none"):
        use_cassette("s3://team/none.db", command=["cat"])


@pytest.mark.slow
def test_a_mark_takes_a_url(bucket: Bucket, suite: Suite) -> None:
    suite.record("first", "a")
    bucket.objects["team/first.db"] = suite.cassette().read_bytes()
    suite.cassette().unlink()
    test = "def test_{}(mcp_tape):\n    assert ask(mcp_tape, 'a') == ['a 1']\n"
    suite.test("pytestmark = pytest.mark.mcp_tape('s3://team/first.db')\n" + test.format("one") + test.format("two"))
    suite.passes(passed=2)
    assert bucket.verbs() == ["GET"]
    result = suite.run("--mcp-record=rewrite")
    result.stdout.fnmatch_lines(["*s3://team/first.db is remote, and only read*"])
    result = suite.run("--mcp-tape-dir=s3://team")
    result.stdout.fnmatch_lines(["*dir is 's3://team', which is not a directory*"])


ENDING = """import atexit, sys
from mcp_tape.__main__ import main
atexit.register(print, "the interpreter has ended")
main()
"""


@pytest.mark.parametrize(("url", "code"), [("s3://team/tape.db", 0), ("s3://team/none.db", 3)])
@pytest.mark.slow
def test_a_command_that_asked_a_bucket_is_ended_by_no_thread_of_it(
    bucket: Bucket, place: Path, url: str, code: int
) -> None:
    done = run([*python(ENDING), "ls", url, "--json"])
    assert (done.returncode, "the interpreter" in done.stdout.decode()) == (code, False)
    assert (b'"exchanges"' in done.stdout, bool(done.stderr)) == (code == 0, code != 0)
