"""kill -9 of every writing command, at any moment: the cassette is the old or the new one, and the next command tidies
up.

MCP_TAPE_FUZZ_SECONDS=600 pytest -n 0 tests/end_to_end/test_kills.py
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.request import Request, urlopen

import pytest

from mcp_tape.cassette.reader import Cassette
from mcp_tape.cli import cli
from tests.support import fuzzing
from tests.support.decks import make_cassette
from tests.support.live import modern, serving
from tests.support.messages import call, lines, result
from tests.support.plugin import WITHOUT_OTHERS
from tests.support.reading import invoke
from tests.support.running import MCP_TAPE, WAIT, alive, children, python, receive_line, started, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for children in /proc")
SECRET = "correct-horse-battery"
# Answers like the tape, except for one word.
SERVER = """
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if "id" in m:
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": {"said": "live"}}), flush=True)
"""
Texts = list[list[bytes]]  # of the messages of each session


def talk(word: str, calls: int = 40) -> list[Any]:
    each = ((("client", call(n, "tool", note=word)), ("server", result(n, word))) for n in range(calls))
    return [said for pair in each for said in pair]


class Place:
    """A directory with a cassette of two sessions, and others that must not change."""

    def __init__(self, like: Path, directory: Path) -> None:
        shutil.copytree(like, directory)
        self.tape, self.other = directory / "tape.db", directory / "other.db"
        self.kept = {path.name: path.read_bytes() for path in directory.iterdir() if path != self.tape}

    def texts(self) -> Texts:
        with Cassette(self.tape) as tape:
            return [[f.text for f in tape.frames(s.id) if f.kind == "message"] for s in tape.sessions()]

    def expect_readable(self) -> None:
        """Every command opens it; incomplete sessions may be reported."""
        for command in ("ls", "show", "stats", "convert", "check"):
            done = invoke(command, self.tape)
            assert done.exit_code in (0, 1) and "readonly" not in done.stderr, done.stderr

    def expect_tidy(self) -> None:
        """The next command that replaces the file leaves no leftovers of the previous one."""
        assert invoke("merge", self.other, "-o", self.tape, "--force").exit_code == 0
        for waits in (".lock", ".new"):  # for the next pytest run, and for review
            Path(f"{self.tape}{waits}").unlink(missing_ok=True)
        left = {path.name: path.read_bytes() for path in self.tape.parent.iterdir() if path != self.tape}
        assert left == self.kept


@pytest.fixture(scope="module")
def like(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("like")
    make_cassette(directory / "tape.db", talk("first"), talk(SECRET))
    other = make_cassette(directory / "other.db", talk("other"))
    (directory / "text.jsonl").write_text(invoke("convert", other).stdout)
    (directory / "mine.txt").write_text("my work, beside the cassette")
    return directory


# Commands that change a cassette, in a child of this process ------------------------------------------------


def words_of(command: str, place: Place) -> list[str]:
    tape = str(place.tape)
    editor = f"{sys.executable} -c \"import sys; p = sys.argv[1]; t = open(p).read().replace('{SECRET}', 'edited'); "
    return {
        "redact": ["redact", tape, "--redact-value", SECRET],
        "rm": ["rm", tape, "--session", "2"],
        "edit": ["edit", tape, "--editor", f"{editor}open(p, 'w').write(t)\""],
        "merge": ["merge", str(place.other), "-o", tape, "--force"],
        "convert": ["convert", str(place.tape.with_name("text.jsonl")), tape, "--force"],
        "verify": ["verify", tape, "--update", "--allow-writes", "--", *python(SERVER)],
        "review": ["review", tape, "--accept-all"],
    }[command]


COMMANDS = ["redact", "rm", "edit", "merge", "convert", "verify", "review"]


def forked(words: list[str], prepare: Callable[[], None] = lambda: None) -> int:
    """A command's exit status, in a child of this process, which need not import anything."""
    pid = os.fork()
    if pid == 0:
        try:
            for descriptor in (0, 1, 2):
                os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
            prepare()
            with suppress(SystemExit):
                cli(words, standalone_mode=False)
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    return status


def at_event(number: int) -> Callable[[], None]:
    """Die after this many file operations."""

    def prepare() -> None:
        left = [number]

        def hook(event: str, _: object) -> None:
            if event in ("sqlite3.connect", "os.mkdir", "os.rename", "os.remove", "os.chmod", "os.rmdir"):
                left[0] -= 1
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)

    return prepare


def at_time(seconds: float) -> Callable[[], None]:
    """Die after some time, at any place, by an unhandled signal."""

    def prepare() -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))

    return prepare


@pytest.mark.slow
def test_a_command_that_is_killed_leaves_the_old_cassette_or_the_new_one(
    like: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)  # in CI, verify leaves nothing for review
    monkeypatch.chdir(tmp_path)  # review writes to the project's ignore file
    for case in fuzzing.cases(len(COMMANDS)):
        command = COMMANDS[case.number % len(COMMANDS)]
        whole, place = (Place(like, tmp_path / f"{case.number}-{which}") for which in ("whole", "killed"))
        if command == "review":  # of earlier findings
            for each in (whole, place):
                forked(["verify", str(each.tape), "--allow-writes", "--", *python(SERVER)])
        old, began = place.texts(), perf_counter()
        forked(words_of(command, whole))
        took, new = perf_counter() - began, whole.texts()
        assert new != old
        moment = at_event(case.randint(1, 25)) if case.random() < 0.5 else at_time(case.uniform(0, took))
        forked(words_of(command, place), moment)
        place.expect_readable()
        assert place.texts() in (old, new), command
        place.expect_tidy()


# Commands that record ----------------------------------------------------------------------------------

MODES = ["all", "once", "new_episodes", "rewrite", "record", "url", "pytest"]
# A user's test, which reports its start.
SUITE = """
import subprocess, sys, pytest

@pytest.mark.mcp_tape({tape!r}, server={server!r})
def test_a_talk(mcp_tape):
    client = subprocess.Popen(mcp_tape.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    print("begun", file=sys.__stdout__, flush=True)
    client.communicate({talk!r})
"""


def command_of(mode: str, tape: Path, live: str) -> list[str]:
    server = python(SERVER)
    if mode == "record":
        return [*MCP_TAPE, "record", "-o", str(tape), "--", *server]
    if mode == "url":
        return [*MCP_TAPE, "record", "-o", str(tape), "--url", live, "--listen", "127.0.0.1:0"]
    if mode == "pytest":
        suite = tape.parent.with_name(f"{tape.parent.name}-suite") / "test_it.py"
        suite.parent.mkdir()
        said = lines(*(call(n, "new", note=n) for n in range(10)))
        suite.write_text(SUITE.format(tape=str(tape), server=server, talk=said))
        options = ["-q", "-s", "-p", "no:cacheprovider", "--mcp-record=all", *WITHOUT_OTHERS]
        return [sys.executable, "-B", "-m", "pytest", *options, f"--rootdir={suite.parent}", str(suite)]
    return [*MCP_TAPE, "use", str(tape), "--mode", mode, "--", *server]


def converse(process: subprocess.Popen[bytes], mode: str, calls: int) -> list[bytes]:
    """The answers to a client before it, or its server, is killed."""
    if mode == "pytest":  # has its own client
        assert receive_line(process.stdout) == b"begun\n"
        return []
    if mode == "url":
        url = receive_line(process.stdout).decode().strip()
        return [post(url, modern(n, "new")) for n in range(calls)]
    heard = []
    for n in range(calls):
        process.stdin.write(lines(call(n, "new", note=n)))
        heard.append(receive_line(process.stdout).rstrip())
    return heard


def post(url: str, text: str) -> bytes:
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    with urlopen(Request(url, text.encode(), headers), timeout=WAIT) as response:
        body: bytes = response.read()
    return next(line for line in body.splitlines() if b'"id"' in line).removeprefix(b"data:").strip()


@pytest.mark.slow
def test_a_killed_recorder_leaves_old_sessions_and_received_messages(like: Path, tmp_path: Path) -> None:
    with serving() as live:
        for case in fuzzing.cases(len(MODES)):
            mode = MODES[case.number % len(MODES)]
            place = Place(like, tmp_path / str(case.number))
            if mode == "once":
                place.tape.unlink()
            old = place.texts() if place.tape.exists() else []
            expect_recorded(place, mode, old, killed(case, command_of(mode, place.tape, live.url), mode))


def killed(case: fuzzing.Case, command: list[str], mode: str) -> list[bytes]:
    """The answers that a recorder's client had received when the recorder was killed, alone or with its group."""
    with started(command, start_new_session=True, stderr=subprocess.DEVNULL) as process:
        heard = converse(process, mode, case.randint(0, 10))
        if case.random() < 0.5:
            process.stdin.close()  # it is about to end
            with suppress(subprocess.TimeoutExpired):
                process.wait(case.uniform(0, 0.5 if mode == "pytest" else 0.2))
        family = children(process.pid)
        with suppress(ProcessLookupError):
            (os.killpg if case.random() < 0.5 else os.kill)(process.pid, signal.SIGKILL)
        process.wait(WAIT)
    until(lambda: not any(map(alive, family)), "all of them to end")
    return heard


def expect_recorded(place: Place, mode: str, old: Texts, heard: list[bytes]) -> None:
    if not place.tape.exists():
        assert mode == "once" and not heard
        return
    place.expect_readable()
    found = place.texts()
    if mode == "rewrite":
        assert found == old or found[0][1::2] == heard
    else:
        assert found[: len(old)] == old
        kept = [text for session in found[len(old) :] for text in session]
        assert set(heard) <= set(kept) or mode == "new_episodes"
    place.expect_tidy()
