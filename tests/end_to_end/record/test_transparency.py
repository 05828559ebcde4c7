"""Each side reads exactly what the other wrote, and so does the tape; start-up and exits pass through too."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import example, given

from mcp_tape.formats import raw
from tests.support.fuzzing import examples
from tests.support.reading import invoke
from tests.support.running import (
    ECHO,
    MCP_TAPE,
    WAIT,
    frames,
    in_background,
    python,
    receive,
    receive_line,
    record,
    run,
    send,
    sessions,
    started,
    stream,
    until,
    without_roots_powers,
)
from tests.support.streams import pieces

CHUNK = 1 << 16
HUNDRED_MB = 100_000_000
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="uses /proc or Linux's own calls")

# Writes everything, then reads: argv is the text to write and the file to keep its input in.
SPEAKER = """
import os, sys
said, heard = sys.argv[1:]
with open(said, "rb") as source:
    while data := source.read(65536):
        while data:
            data = data[os.write(1, data):]
os.close(1)
with open(heard, "wb", buffering=0) as target:
    while data := os.read(0, 65536):
        target.write(data)
"""


# Bytes -------------------------------------------------------------------------------------------------


def kept(cassette: Path, side: str) -> bytes:
    """One side's stream, through the code of export but in this process."""
    return b"".join(raw.dump(frame for frame in frames(cassette) if frame.sender == side))


@pytest.mark.slow
@examples(15)
@given(asked=pieces(), said=pieces())
@example(asked=[b"\0\r\n", b"\r", b"\xff\xfe\n\n\nno newline"], said=[b"\r", b"\n\0", b"\xc3", b"\xa4\r"])
@example(asked=[], said=[])
def test_any_bytes_split_anywhere_arrive_and_are_kept(
    tmp_path_factory: pytest.TempPathFactory, asked: list[bytes], said: list[bytes]
) -> None:
    here = tmp_path_factory.mktemp("any")
    (here / "said").write_bytes(b"".join(said))
    server = [*python(SPEAKER), str(here / "said"), str(here / "heard")]
    with started(record(here / "tape.db", server, "--no-redact")) as process:
        for piece in asked:
            send(process.stdin, piece)
        process.stdin.close()
        assert receive(process.stdout) == b"".join(said)
        assert process.wait(WAIT) == 0
    assert (here / "heard").read_bytes() == b"".join(asked)
    assert kept(here / "tape.db", "client") == b"".join(asked)
    assert kept(here / "tape.db", "server") == b"".join(said)


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"\n\r\n\n",
        b"line\r\nline\n",
        b"lone\rcr\r",
        b"nul\0inside\0\n",
        b"\xff\xfe not utf-8 \xc3\n",
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}\nno newline at the end',
        b'{"jsonrpc":"2.0","id":1e2,"method":"x","params":{"n":123456789012345678901234567890,"n":1.0}}\r\n',
        b'{"jsonrpc":"2.0","method":"lone","params":{"s":"\\ud800"}}\n',
        bytes(range(256)) * 300,
    ],
    ids=lambda data: repr(data[:20]),
)
def test_raw_gives_the_stream_back_exactly(tmp_path: Path, data: bytes) -> None:
    cassette = tmp_path / "tape.db"
    done = run(record(cassette, ECHO, "--no-redact"), data)
    assert (done.returncode, done.stdout) == (0, data)
    assert stream(cassette, "client") == data
    assert stream(cassette, "server") == data


@pytest.mark.slow
def test_a_line_of_100_megabytes_passes_both_ways(tmp_path: Path) -> None:
    cassette = tmp_path / "tape.db"

    def line() -> Iterator[bytes]:
        yield b'{"jsonrpc":"2.0","id":1,"result":"'
        block = hashlib.sha256(b"block").hexdigest().encode() * (CHUNK // 64)
        for _ in range(HUNDRED_MB // CHUNK):
            yield block
        yield b'"}\n'

    with started(record(cassette, ECHO, "--no-redact"), stderr=subprocess.DEVNULL) as process:

        def ask() -> None:
            for piece in line():
                send(process.stdin, piece)
            process.stdin.close()

        with in_background(ask):
            got = digest_of(lambda: receive(process.stdout, CHUNK))
        assert process.wait(WAIT) == 0
    sent = hashlib.sha256()
    for piece in line():
        sent.update(piece)
    assert got == sent.hexdigest()
    # One at a time, because of memory: a line is this large.
    for side in ("client", "server"):
        found = [frame for frame in frames(cassette) if frame.sender == side and frame.kind == "message"]
        assert [hashlib.sha256(frame.text + frame.eol).hexdigest() for frame in found] == [got]
        del found
    assert sessions(cassette)[0].incomplete is None


def digest_of(read: Callable[[], bytes]) -> str:
    digest = hashlib.sha256()
    while data := read():
        digest.update(data)
    return digest.hexdigest()


@pytest.mark.slow
def test_a_flood_that_the_client_does_not_read_waits_and_the_other_direction_goes_on(tmp_path: Path) -> None:
    cassette, heard = tmp_path / "tape.db", tmp_path / "heard"
    flood = b"".join(b'{"jsonrpc":"2.0","method":"flood","params":{"n":%d}}\n' % n for n in range(40_000))
    server = """
import os, sys, threading
def flood():
    data = b"".join(b'{"jsonrpc":"2.0","method":"flood","params":{"n":%d}}\\n' % n for n in range(40_000))
    while data:
        data = data[os.write(1, data[:65536]):]
thread = threading.Thread(target=flood)
thread.start()
with open(sys.argv[1], "wb", buffering=0) as heard:
    while data := os.read(0, 65536):
        heard.write(data)
thread.join()
"""
    with started(record(cassette, [*python(server), str(heard)]), stderr=subprocess.DEVNULL) as process:
        asked = b""
        for n in range(20):
            line = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % n
            send(process.stdin, line)
            asked += line
            until(lambda so_far=asked: heard.exists() and heard.read_bytes() == so_far, "the server to hear us")
        process.stdin.close()
        assert receive(process.stdout) == flood
        assert process.wait(WAIT) == 0
    assert stream(cassette, "server") == flood
    assert stream(cassette, "client") == asked


@pytest.mark.slow
def test_stderr_passes_byte_for_byte_and_is_kept_as_frames(tmp_path: Path) -> None:
    cassette = tmp_path / "tape.db"
    server = python(r"import os; os.write(2, b'one\r\n\0\xff\n\nno newline'); os.write(1, b'out\n')")
    done = run(record(cassette, server, "-q"))
    assert (done.stdout, done.stderr) == (b"out\n", b"one\r\n\0\xff\n\nno newline")
    found = [frame for frame in frames(cassette) if frame.kind == "stderr"]
    assert b"".join(frame.text + frame.eol for frame in found) == done.stderr
    assert {(frame.sender, frame.channel) for frame in found} == {("server", "stderr")}
    assert stream(cassette, "server") == b"out\n"


# Odd ways to start -----------------------------------------------------------------------------------------


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize("missing", [[0], [1], [2], [0, 1], [0, 1, 2]], ids=str)
def test_a_standard_stream_may_be_missing(tmp_path: Path, missing: list[int]) -> None:
    cassette = tmp_path / "tape.db"
    server = python("import os; os.write(1, b'out\\n'); os.write(2, b'err\\n'); os.read(0, 1); raise SystemExit(3)")
    with started(
        record(cassette, server), preexec_fn=lambda: [os.close(descriptor) for descriptor in missing]
    ) as process:
        process.stdin.close()
        assert receive(process.stdout) == (b"" if 1 in missing else b"out\n")
        assert (b"err\n" in receive(process.stderr)) == (2 not in missing)
        assert process.wait(WAIT) == 3
    assert stream(cassette, "server") == b"out\n"
    assert sessions(cassette)[0].incomplete is None


@pytest.mark.slow
def test_streams_left_non_blocking_are_waited_for(tmp_path: Path) -> None:
    cassette, data = tmp_path / "tape.db", b"x" * 300_000 + b"\n"
    with started(record(cassette, ECHO), preexec_fn=lambda: [os.set_blocking(n, False) for n in (0, 1)]) as process:
        with in_background(lambda: (send(process.stdin, data), process.stdin.close())):
            assert receive(process.stdout) == data
        assert process.wait(WAIT) == 0
    assert stream(cassette, "client") == data


def test_sockets_serve_as_well_as_pipes(tmp_path: Path) -> None:
    # Node starts a process like this.
    cassette, (ours, theirs) = tmp_path / "tape.db", socket.socketpair()
    with ours, theirs, started(record(cassette, ECHO), stdin=theirs, stdout=theirs) as process:
        theirs.close()
        ours.sendall(b"hello\n")
        assert receive(ours.fileno(), 6) == b"hello\n"
        ours.shutdown(socket.SHUT_WR)
        assert receive(ours.fileno()) == b""
        assert process.wait(WAIT) == 0
    assert stream(cassette, "server") == b"hello\n"


def test_the_server_has_our_environment_directory_and_process_group(tmp_path: Path) -> None:
    server = python("import os; print(os.environ.get('ODD'), os.getcwd(), os.getpgrp())")
    with started(
        record(tmp_path / "tape.db", server), env=os.environ | {"ODD": "1"}, cwd=tmp_path, start_new_session=True
    ) as process:
        assert receive_line(process.stdout).decode().split() == ["1", str(tmp_path.resolve()), str(process.pid)]


@pytest.mark.slow(quick=3)
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody can tell who has set it")
@pytest.mark.parametrize("given", [{}, {"LC_CTYPE": "C.UTF-8"}, {"LANG": "C"}, {"LC_ALL": "C"}])
def test_the_server_gets_no_locale_that_was_not_set(tmp_path: Path, given: dict[str, str]) -> None:
    server = ["sh", "-c", "env | grep -E '^(LC_|LANG)' | sort"]
    done = run(record(tmp_path / "tape.db", server), env={"PATH": os.environ["PATH"]} | given)
    assert done.stdout.decode().split() == [f"{name}={value}" for name, value in given.items()]


# Exit codes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 3, 255])
def test_the_exit_code_is_the_servers(tmp_path: Path, code: int) -> None:
    cassette = tmp_path / "tape.db"
    assert run(record(cassette, python(f"raise SystemExit({code})"))).returncode == code
    (session,) = sessions(cassette)
    assert (session.exit_code, session.incomplete) == (code, None)
    # The client's end may come before or after that.
    assert b'"code":%d' % code in [frame for frame in frames(cassette) if frame.sender == "server"][-1].text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
@pytest.mark.slow
def test_a_signal_that_ended_the_server_is_128_and_its_number(tmp_path: Path, number: signal.Signals) -> None:
    cassette = tmp_path / "tape.db"
    server = python(f"import os; os.write(1, b'last words'); os.kill(os.getpid(), {int(number)})")
    done = run(record(cassette, server))
    assert (done.returncode, done.stdout) == (128 + number, b"last words")
    assert sessions(cassette)[0].exit_code == 128 + number


def a_file(path: Path, text: str, mode: int) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.slow(quick=3)
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda here: "no-such-command", b"there is no command 'no-such-command'"),
        (lambda here: "", b"there is no command ''"),
        (lambda here: str(here / "none"), b"there is no command"),
        (lambda here: str(a_file(here / "plain", "text", 0o644)), b"is not executable"),
        (lambda here: str(a_file(here / "script", "#!/no/such/interpreter\n", 0o755)), b"the interpreter"),
        (lambda here: a_file(here / "on-path", "#!/no/such/interpreter\n", 0o755).name, b"the interpreter"),
        (lambda here: str(a_file(here / "binary", "\x7fELF?", 0o755)), b"Exec format error"),
        (lambda here: str(here), b"is a directory"),
    ],
    ids=[
        "no command",
        "empty",
        "no file",
        "not executable",
        "bad interpreter",
        "on the path",
        "no format",
        "directory",
    ],
)
def test_a_server_that_cannot_be_started_is_reported_in_one_line_and_recorded(
    tmp_path: Path, make: Callable[[Path], str], says: bytes
) -> None:
    server = make(tmp_path)
    cassette = tmp_path / "new" / "directory" / "tape.db"
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = run(record(cassette, [server, "argument"], "-q"), env=os.environ | {"PATH": path})
    assert (done.returncode, done.stdout) == (4, b"")
    assert says in done.stderr and done.stderr.startswith(b"mcp-tape: cannot start") and done.stderr.count(b"\n") == 1
    (session,) = sessions(cassette)
    assert session.ended_at and session.incomplete is session.exit_code is None
    (event,) = [json.loads(frame.text) for frame in frames(cassette)]
    assert event["event"] == "failed" and f"mcp-tape: {event['why']}\n".encode() == done.stderr


@pytest.mark.slow
def test_why_show_and_doctor_say_why_a_server_could_not_be_started(tmp_path: Path) -> None:
    cassette = tmp_path / "tape.db"
    assert run(record(cassette, ["no-such-command"])).returncode == 4
    for command, code in (("show", 0), ("why", 1), ("doctor", 1)):
        done = invoke(command, cassette)
        assert done.exit_code == code and "there is no command 'no-such-command'" in done.stdout, command


@pytest.mark.slow(quick=3)
@pytest.mark.parametrize(
    "arguments",
    [[], ["--"], ["--no-such-option", "--", "cat"], ["-o"], ["--redact-value", "(", "--", "cat"]],
    ids=str,
)
def test_a_wrong_command_line_is_exit_code_2(tmp_path: Path, arguments: list[str]) -> None:
    done = run([*MCP_TAPE, "record", *arguments], cwd=tmp_path)
    assert done.returncode == 2 and b"Error: " in done.stderr and done.stdout == b""
    assert not list(tmp_path.iterdir())


# Files that must not be recorded into ----------------------------------------------------------------------


def other_database(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE mine (x)")


def newer_cassette(path: Path) -> None:
    assert run(record(path, ECHO)).returncode == 0
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")


@pytest.mark.slow(quick=4)
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.write_text("my notes\n"), b"is not a cassette"),
        (lambda path: path.write_text("my longer notes\n" * 1000), b"is not a cassette"),
        (lambda path: path.write_bytes(b"SQLite format 3\0"), b"is not a cassette"),
        (other_database, b"is a SQLite database, but not a cassette"),
        (newer_cassette, b"newer mcp-tape"),
    ],
    ids=["short text", "long text", "cut off", "other database", "newer schema"],
)
def test_another_file_is_refused_untouched_and_no_server_is_started(
    tmp_path: Path, make: Callable[[Path], object], says: bytes
) -> None:
    path, trace = tmp_path / "precious.db", tmp_path / "started"
    make(path)
    before, files = path.read_bytes(), sorted(tmp_path.iterdir())
    done = run(record(path, python(f"open({str(trace)!r}, 'w')"), "-q"))
    assert done.returncode == 3 and says in done.stderr and done.stderr.count(b"\n") == 1
    assert path.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == files


@pytest.mark.parametrize("kind", ["directory", "pipe", "in a file"])
def test_a_path_that_cannot_be_a_cassette_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "odd"
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_text("a file")
        path /= "tape.db"
    done = run(record(path, ECHO, "-q"))
    assert done.returncode == 3 and str(path).encode() in done.stderr and done.stderr.count(b"\n") == 1


@linux_only
@pytest.mark.parametrize("existing", [False, True], ids=["new", "existing"])
def test_a_directory_that_may_not_be_written_is_refused(tmp_path: Path, existing: bool) -> None:
    directory, trace = tmp_path / "locked", tmp_path / "started"
    directory.mkdir()
    path = directory / "tape.db"
    if existing:
        assert run(record(path, ECHO)).returncode == 0
    directory.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        server = python(f"open({str(trace)!r}, 'w')")
        done = run(record(path, server, "-q"), preexec_fn=without_roots_powers)
    finally:
        directory.chmod(stat.S_IRWXU)
    assert done.returncode == 3 and b"no permission" in done.stderr and done.stderr.count(b"\n") == 1
    assert not trace.exists()
    assert len(list(directory.iterdir())) == existing
