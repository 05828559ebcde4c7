"""A cassette is read and changed during a recording, and the recording goes on undisturbed."""

from __future__ import annotations

import json
import shlex
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from mcp_tape.cassette.change import write_access
from mcp_tape.cassette.change.hide_secrets import hide
from mcp_tape.cassette.reader import Cassette
from mcp_tape.errors import CassetteError
from mcp_tape.redaction.redactor import Redactor
from tests.support.many import findings
from tests.support.reading import Frames, Recording, call, invoke, make, message, objects, said
from tests.support.running import (
    MCP_TAPE,
    WAIT,
    frames,
    in_background,
    is_one_file,
    is_recording,
    python,
    receive_line,
    record,
    run,
    send,
    sessions,
    started,
    until,
)

PASSWORD = "hunter2-Zebra-99"
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9" * 2
# Answers every request with its input, and introduces itself first.
SERVER = python(
    """import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    told = {"content": [], "heard": asked.get("params")}
    if asked["method"] == "initialize":
        told["serverInfo"] = {"name": "server " + asked["params"]["clientInfo"]["name"], "version": "1"}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": told}), flush=True)
"""
)
INITIALIZE = message(id=0, method="initialize", params={"clientInfo": {"name": f"client {TOKEN}", "version": "1"}})


class Live:
    """A recording in progress."""

    def __init__(self, process: Popen[bytes], path: Path, session: int) -> None:
        self.process, self.path, self.session = process, path, session

    def ask(self, text: bytes) -> None:
        assert self.process.stdout
        send(self.process.stdin, text + b"\n")
        answer = receive_line(self.process.stdout).rstrip()
        until(lambda: answer in self.messages(), "the answer is on the cassette")

    def messages(self) -> list[bytes]:
        try:
            return [frame.text for frame in frames(self.path, self.session) if frame.kind == "message"]
        except CassetteError:
            return []  # no session yet

    def end(self) -> str:
        _, told = self.process.communicate(None, WAIT)
        assert self.process.returncode == 0
        return told.decode()


@contextmanager
def recording(path: Path, session: int = 1) -> Iterator[Live]:
    with started(record(path, SERVER, "--no-redact")) as process:
        live = Live(process, path, session)
        live.ask(INITIALIZE)
        yield live


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tape.db"


def bytes_of(path: Path) -> bytes:
    """All bytes of a cassette, including SQLite's other files."""
    return b"".join(part.read_bytes() for part in path.parent.iterdir() if part.name.startswith(path.name))


def is_sound(path: Path) -> bool:
    """Whether its content is consistent. Values that look like secrets do not matter."""
    return not [found for found in findings(invoke("check", path, "--json").stdout) if found["what"] != "secret"]


def objects_of(output: str) -> list[Any]:
    return [json.loads(line) for line in output.splitlines()]


def replaces(old: str, new: str) -> str:
    """An editor."""
    source = "import pathlib, sys; f = pathlib.Path(sys.argv[3]); f.write_text(f.read_text().replace(*sys.argv[1:3]))"
    return shlex.join([sys.executable, "-c", source, old, new])


# -- redact


@pytest.mark.slow
def test_hidden_values_are_in_no_byte_during_a_recording(path: Path) -> None:
    with recording(path) as live:
        for number in range(1, 40):
            live.ask(call(number, "login", password=PASSWORD, text=f"{PASSWORD} " * 300))
        assert PASSWORD.encode() in bytes_of(path)
        (told,) = objects("redact", path)
        assert told["hidden"]["key:password"] > 80 and told["recorded"]
        assert PASSWORD.encode() not in bytes_of(path) and TOKEN.encode() not in bytes_of(path)
        live.ask(call(40, "more"))
        live.end()
    (session,) = sessions(path)
    assert session.incomplete is None and is_one_file(path)
    assert len(live.messages()) == 2 * 41
    assert TOKEN.encode() not in path.read_bytes()  # the recorder does not write its copy of the facts again
    assert session.client_name == "client [redacted:shape:github]" and is_sound(path)


@pytest.mark.slow
def test_people_are_asked_to_redact_again_after_the_recording(path: Path) -> None:
    with recording(path):
        told = invoke("redact", path).stderr
    assert "hidden in" in told and "run this again when the recording has ended" in told


@pytest.mark.slow
def test_a_dry_run_only_reads(path: Path) -> None:
    with recording(path) as live:
        live.ask(call(1, "login", password=PASSWORD))
        before = live.messages()
        (told,) = objects("redact", path, "--dry-run")
        assert told["hidden"] == {"key:password": 2, "shape:github": 5} and told["frames"] == 4
        assert live.messages() == before and PASSWORD.encode() in bytes_of(path)
    (after,) = objects("redact", path)
    assert (after["hidden"], after["frames"]) == (told["hidden"], told["frames"])


@pytest.mark.slow
def test_nothing_recorded_during_the_change_is_lost(path: Path) -> None:
    talk = Frames()
    for number in range(1, 3000):
        talk.client(call(number, "login", password=PASSWORD)).server(said(number, "welcome"))
    make(path, talk)
    with recording(path, 2) as live:
        until(lambda: len(sessions(path)) == 2, "the recorder to have the cassette open")
        asked = [call(number, "count") + b"\n" for number in range(1, 1000)]
        with in_background(lambda: send(live.process.stdin, b"".join(asked))):
            assert live.process.stdout
            receive_line(live.process.stdout)
            (told,) = objects("redact", path)
            for _ in asked[1:]:
                receive_line(live.process.stdout)
        live.end()
    assert told["hidden"]["key:password"] == 2999 and told["recorded"]
    assert PASSWORD.encode() not in path.read_bytes()
    for side in ("client", "server"):
        assert [json.loads(f.text)["id"] for f in frames(path, 2) if (f.kind, f.sender) == ("message", side)] == list(
            range(1000)
        )
    assert sessions(path)[1].incomplete is None and is_sound(path)


@pytest.mark.slow
def test_a_process_that_still_reads_old_pages_is_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_access, "_PATIENCE", 0.3)
    with recording(path) as live:
        live.ask(call(1, "login", password=PASSWORD))
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reading = reader.execute("SELECT * FROM frames")
            reading.fetchone()
            result = invoke("redact", path)
            assert (result.exit_code, "a process is still reading old pages of it" in result.stderr) == (3, True)
            assert PASSWORD.encode() in bytes_of(path)
            live.ask(call(2, "more"))  # without waiting for them
            reading.close()
        assert not any(PASSWORD.encode() in text for text in live.messages())
        assert invoke("redact", path).exit_code == 0
        assert PASSWORD.encode() not in bytes_of(path)


@pytest.mark.slow
def test_a_failed_rewrite_is_reported_and_the_recorder_goes_on(path: Path) -> None:
    talk = Frames().client(call(0, "login", password=PASSWORD))
    for number in range(300):
        talk.client(call(number, "say", text="much " * 400))
    make(path, talk)
    with recording(path, 2) as live:
        most = path.stat().st_size // 2
        limit = f"import resource, runpy; resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}))"
        command = f"{limit}; runpy.run_module('mcp_tape', run_name='__main__')"
        done = run([*python(command), "redact", str(path), "--redact-value", "ghp_.*"])
        assert done.returncode == 3, done.stderr
        assert b"removed from the content" in done.stderr and f"sqlite3 {path} VACUUM".encode() in done.stderr
        assert not any(PASSWORD.encode() in frame.text for frame in frames(path, 1))
        live.ask(call(1, "more"))
        assert invoke("redact", path).exit_code == 0
        assert PASSWORD.encode() not in bytes_of(path)
        live.end()
    assert sessions(path)[1].incomplete is None and is_sound(path)


@pytest.mark.slow
def test_there_must_be_room_so_that_the_recorder_has_some(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_access, "_SPARE", 1 << 60)
    with recording(path) as live:
        live.ask(call(1, "login", password=PASSWORD))
        result = invoke("redact", path)
        assert (result.exit_code, "make room" in result.stderr) == (3, True)
        assert any(PASSWORD.encode() in text for text in live.messages())


@pytest.mark.slow
def test_text_edited_by_another_process_is_hidden_too(path: Path) -> None:
    """An edited session's frames get new numbers, perhaps in a range that was already searched."""
    talk = Frames()
    for number in range(1, 1200):
        talk.client(call(number, "login", password=PASSWORD))
    make(path, talk)
    edited = []

    def meanwhile(done: int) -> None:
        if done == 1199 + 500:  # all were read, and some are hidden
            edited.append(invoke("edit", path, "--session", 1, "--editor", shlex.join(python(FIRST_GO))).exit_code)

    recording = Recording(path)
    try:
        hide(str(path), Redactor({}), meanwhile)
    finally:
        recording.end()
    assert edited == [0] and 0 < len(frames(path, 1)) < 700
    assert PASSWORD.encode() not in path.read_bytes()


# An editor that deletes the frames before number 600.
FIRST_GO = """import pathlib, sys
file = pathlib.Path(sys.argv[1])
file.write_text("\\n@600 " + file.read_text().partition("\\n@600 ")[2])
"""


def test_a_fast_recorder_does_not_keep_it_from_ending(path: Path) -> None:
    make(path, Frames().client(call(1, "login", password=PASSWORD)))
    recording, more = Recording(path), iter(Frames().client(call(1, "again", password=PASSWORD)) * 100)

    def meanwhile(done: int) -> None:
        recording.write([next(more)._replace(seq=done)])

    hide(str(path), Redactor({}), meanwhile)
    recording.end()
    assert len(list(more)) > 90


# -- rm


@pytest.mark.slow
def test_a_session_is_removed_while_another_is_recorded(path: Path) -> None:
    make(path, Frames().client(call(1, "pick", fruit="berry")).server(said(1, "berry")))
    with recording(path, 2) as live:
        assert invoke("rm", path, "--session", 1).exit_code == 0
        assert b"berry" not in bytes_of(path)
        live.ask(call(1, "more"))
        live.end()
    assert [session.id for session in sessions(path)] == [2]
    assert len(live.messages()) == 4 and is_sound(path)


@pytest.mark.slow
def test_a_session_being_recorded_is_removed_only_by_force_and_its_recorder_reports_it(path: Path) -> None:
    with recording(path) as live:
        refused = invoke("rm", path, "--session", 1)
        assert (refused.exit_code, "session 1 of" in refused.stderr, "--force" in refused.stderr) == (2, True, True)
        assert len(live.messages()) == 2
        assert invoke("rm", path, "--session", 1, "--force").exit_code == 0
        with recording(path) as other:  # takes the number
            assert live.process.stdout
            send(live.process.stdin, call(1, "lost") + b"\n")
            receive_line(live.process.stdout)
            assert "session 1 was removed while it was being recorded" in live.end()
            other.ask(call(1, "kept"))
            other.end()
    assert len(sessions(path)) == 1 and len(other.messages()) == 4
    assert b"lost" not in path.read_bytes() and is_sound(path)


# -- edit


@pytest.mark.slow
def test_frames_recorded_during_an_edit_stay(path: Path) -> None:
    with recording(path) as live:
        for number in (1, 2):
            live.ask(call(number, "weather", day="sunny"))
        late = call(3, "weather", day="sunny")
        editor = f'touch {path.parent}/open; read go; {replaces("sunny", "rainy")} "$1"'
        with started([*MCP_TAPE, "edit", str(path), "--editor", f"sh -c {shlex.quote(editor)} sh"]) as editing:
            until((path.parent / "open").exists, "the editor is open")
            live.ask(late)
            _, told = editing.communicate(b"go\n", WAIT)
        assert b"4 frames changed" in told and b"added" not in told
        live.ask(call(4, "weather", day="sunny"))
        live.end()
    days = [b"rainy" if b"rainy" in text else b"sunny" for text in live.messages()[2:]]
    assert days == [b"rainy"] * 4 + [b"sunny"] * 4
    assert sessions(path)[0].incomplete is None and is_sound(path)


@pytest.mark.slow
def test_frames_of_an_open_session_can_be_deleted_but_not_added(path: Path) -> None:
    with recording(path) as live:
        live.ask(call(1, "weather", day="sunny"))
        added = invoke("edit", path, "--editor", "printf '@new server\\n| hello\\n' >>")
        assert added.exit_code == 1
        assert "not added or moved" in added.stderr and "Your text is in" in added.stderr
        assert "to put it back" not in added.stderr  # it would lack later frames
        first = next(frame.seq for frame in frames(path) if frame.kind == "message")
        keeps = f"import re, sys; t = open(sys.argv[1]).read(); t = re.sub(r'(?s)@{first} client.*?(?=\\n@)', '', t)"
        deleted = invoke("edit", path, "--editor", shlex.join(python(f"{keeps}; open(sys.argv[1], 'w').write(t)")))
        assert "1 frame removed" in deleted.stderr
        live.ask(call(2, "weather", day="sunny"))
        live.end()
    assert INITIALIZE not in live.messages() and len(live.messages()) == 5
    assert sessions(path)[0].client_name is None  # only that frame contained it
    assert is_sound(path)


@pytest.mark.slow
def test_a_request_that_waits_for_its_answer_cannot_be_edited(path: Path) -> None:
    late = python("import sys\nasked = [next(sys.stdin) for _ in range(2)]\nsys.stdout.writelines(asked)")
    with started(record(path, late)) as process:
        send(process.stdin, call(1, "slow", day="sunny") + b"\n")
        until(lambda: is_recording(path) and len(frames(path)) == 1, "the request is there")
        result = invoke("edit", path, "--editor", replaces("sunny", "rainy"))
        assert result.exit_code == 3 and "waits for its answer" in result.stderr and "Your text is in" in result.stderr
        process.communicate(b"\n", WAIT)
    assert b"sunny" in frames(path)[0].text and is_sound(path)


# -- reading


READING = {
    "ls": ["ls", "FILE"],
    "show": ["show", "FILE"],
    "show one": ["show", "FILE", "1"],
    "stats": ["stats", "FILE"],
    "convert": ["convert", "FILE"],
    "raw": ["convert", "FILE", "--to", "raw", "--side", "client"],
    "markdown": ["convert", "FILE", "--to", "md"],
    "txt": ["convert", "--to", "txt", "FILE"],
    "query": ["query", "FILE", "SELECT count(*) FROM frames"],
    "search": ["search", "FILE", "weather"],
    "check": ["check", "FILE"],
    "merge": ["merge", "FILE", "-o", "OUT"],
    "edit": ["edit", "FILE", "--editor", "true"],
    "diff": ["diff", "FILE", "FILE"],
}


@pytest.mark.slow
def test_every_command_reads_an_unfinished_recording(path: Path) -> None:
    with recording(path) as live:
        live.ask(call(1, "weather", day="sunny"))
        codes = {}
        for name, words in READING.items():
            place = {"FILE": path, "OUT": path.parent / "out.db"}
            codes[name] = invoke(*(place.get(word, word) for word in words)).exit_code
        assert codes.pop("check") == 1  # the session is open
        assert set(codes.values()) == {0}, codes
        live.ask(call(2, "weather", day="rainy"))
        live.end()
    with Cassette(path.parent / "out.db") as copy:
        assert copy.counts(1)["exchanges"] == 2
    assert len(live.messages()) == 6 and is_sound(path)
