"""The command line for people: help, output, colours, pipes."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest

from mcp_tape.cli import cli
from mcp_tape.start.server_values import hide_home
from tests.support.forked import SCRIPT
from tests.support.running import MCP_TAPE, WAIT, on_terminal, python, record, run, stream

COMMANDS = cli.list_commands(click.Context(cli))
READERS = [["ls"], ["show"], ["convert"], ["ls", "--json"], ["show", "--json"]]

CLIENT = rb"""{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add","arguments":{"a":1}}}
[{"jsonrpc":"2.0","id":3,"method":"ping"},{"jsonrpc":"2.0","id":4,"method":"tools/list"}]
{"jsonrpc":"2.0","id":5,"method":"never/answered"}
"""
SERVER = rb"""Hello on stdout
{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"adder","version":"3"}}}
{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"ESC[31mred CSIm \ud800"}}
{"jsonrpc":"2.0","id":2,"result":{"content":[],"isError":true}}
[{"jsonrpc":"2.0","id":4,"error":{"code":-1,"message":"no"}},{"jsonrpc":"2.0","id":3,"result":{}}]
{"jsonrpc":"2.0","id":99,"result":{}}
""".replace(b"ESC", b"\x7f").replace(b"CSI", "\x9b".encode())
# Reads everything, then answers: all answers come after all requests.
ANSWERS = """
import sys
sys.stdin.buffer.read()
sys.stderr.buffer.write(b"\\x1b]0;title\\x07 warning \\xff\\n")
sys.stderr.flush()
sys.stdout.buffer.write(open(sys.argv[1], "rb").read())
sys.exit(3)
"""


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("cli")
    (directory / "answers").write_bytes(SERVER)
    server = [*python(ANSWERS), str(directory / "answers")]
    done = run(record(directory / "tape.db", server, "--no-redact", "--note", "a\x1b[31m note"), CLIENT)
    assert done.returncode == 3 and b"INCOMPLETE" not in done.stderr, done.stderr
    return directory / "tape.db"


def read(tape: Path, *words: str, **more: Any) -> str:
    done = run([*MCP_TAPE, words[0], str(tape), *words[1:]], **more)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


@pytest.mark.slow(quick=3)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_every_command_has_help_with_an_example(command: str, flag: str) -> None:
    done = run([*MCP_TAPE, command, flag])
    text = done.stdout.decode()
    assert (done.returncode, done.stderr) == (0, b"")
    assert f"Usage: mcp-tape {command}" in text
    assert f"  mcp-tape {command}" in text.partition("Example")[2]


@pytest.mark.slow
def test_the_overview_lists_every_command() -> None:
    assert {"record", "ls", "show", "convert", "demo"} <= set(COMMANDS)
    text = run([*SCRIPT, "--help"]).stdout.decode()
    assert re.findall(r"^  ([\w-]+)  ", text.partition("Record and replay:")[2], re.M) == COMMANDS


def test_the_version_is_printed() -> None:
    assert re.fullmatch(rb"mcp-tape, version \d+\.\d+\.\d+\n", run([*SCRIPT, "--version"]).stdout)


@pytest.mark.slow(quick=4)
@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["nonsense"], b"No such command 'nonsense'.\n"),
        (["recrod"], b"No such command 'recrod'. Did you mean record?\n"),
        (["show"], b"FILE"),
        (["show", "x.db", "--session", "first"], b"first"),
        (["convert", "x.db", "--to", "yaml"], b"yaml"),
        (["convert", "x.db", "--to", "raw"], b"--side"),
        (["record"], b"CMD"),
        (["record", "--redact-path", "pin", "--", "x"], b"JSONPath"),
        (["record", "--redact-value", "(", "--", "x"], b"regular expression"),
    ],
)
def test_wrong_usage_is_exit_code_2_with_an_explanation(words: list[str], hint: bytes) -> None:
    done = run([*SCRIPT, *words])
    assert (done.returncode, done.stdout) == (2, b"")
    assert hint in done.stderr
    assert b"Traceback" not in done.stderr


URL = ["--url", "http://127.0.0.1:9/mcp"]
REPLAY = ["use", "no.db", "--mode", "none"]


@pytest.mark.slow(quick=4)
@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ([*REPLAY, "--url", "nonsense"], b"https://host/mcp"),
        ([*REPLAY, "--url", "ftp://host/mcp"], b"https://host/mcp"),
        ([*REPLAY, "--url", "http:///mcp"], b"https://host/mcp"),
        ([*REPLAY, "--url", "http://[bad/mcp"], b"https://host/mcp"),
        (["record", "-o", "tape.db", "--url", "http://host:port/mcp"], b"https://host/mcp"),
        (["record", "-o", "tape.db", "--url", "http://host/mcp\n"], b"https://host/mcp"),
        ([*REPLAY, "--url", "http://host:99999/mcp"], b"https://host/mcp"),
        ([*REPLAY, "--url", "http://my host/mcp"], b"https://host/mcp"),
        *[
            (["record", *URL, "--listen", given], b"HOST:PORT")
            for given in ("host", "127.0.0.1:", ":80", "[::1]:65536")
        ],
        *[(["replay", "x.db", "--listen", given], b"HOST:PORT") for given in ("localhost", "127.0.0.1:-1")],
        *[([*REPLAY, "--listen", given], b"--allow-remote") for given in ("0.0.0.0:0", "[::]:0", "example.org:80")],
        (["record", *URL, "--cacert", "no.pem"], b"no.pem"),
        (["record", *URL, "--cacert", "."], b"directory"),
        (["record", *URL, "--", "server"], b"not both"),
        (["use", "x.db", *URL, "--", "server"], b"not both"),
        (["record", "--listen", "127.0.0.1:0", "--", "server"], b"--listen needs --url"),
        (["use", "x.db", "--listen", "127.0.0.1:0", "--", "server"], b"--listen needs --url"),
        (["use", "x.db", "--max-body", "1k", "--", "server"], b"--max-body needs --url"),
        (["replay", "x.db", "--head-timeout", "1"], b"--head-timeout needs --listen"),
        (["use", "x.db", "--listen", "127.0.0.1:0"], b"--url URL"),
        (["replay", "x.db", "--fault", "tools/call=http:503"], b"add --listen"),
        (["use", "x.db", "--fault", "tools/call=reset", "--", "server"], b"add --listen"),
        (["replay", "x.db", "--listen", "127.0.0.1:0", "--fault", "tools/call=http:99"], b"99"),
    ],
)
def test_wrong_usage_of_http_is_exit_code_2_with_an_explanation(tmp_path: Path, words: list[str], hint: bytes) -> None:
    done = run([*SCRIPT, *words], cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b""), done.stderr
    assert hint in done.stderr
    assert b"Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.slow(quick=4)
@pytest.mark.parametrize(
    "header",
    [
        "Authorisation of mine: swordfish",
        "X: sword\nfish: swordfish",
        ": swordfish",
        "X: swordfish \u2603",
        "Bearer swordfish",
        "swordfish",
    ],
)
def test_the_value_of_a_header_is_never_shown(header: str) -> None:
    done = run([*MCP_TAPE, "record", *URL, "--header", header])
    assert done.returncode == 2
    assert b"'Name: value'" in done.stderr
    assert b"swordfish" not in done.stderr


def test_a_file_without_a_certificate_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    (tmp_path / "no.pem").write_text("not a certificate")
    done = run([*MCP_TAPE, "record", *URL, "--cacert", "no.pem", "-o", "tape.db"], cwd=tmp_path)
    assert done.returncode == 2
    assert b"no.pem" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["no.pem"]


@pytest.mark.slow
def test_ls_has_one_line_a_session(tape: Path) -> None:
    (line,) = read(tape, "ls").splitlines()
    assert re.match(r"  1  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  adder 3 +2025-11-25  stdio  \d+ frames  4 exchanges", line)
    assert "1 open" in line
    assert "2 errors" in line
    assert "a·[31m note" in line
    assert "INCOMPLETE" not in line


@pytest.mark.slow(quick=5)
@pytest.mark.parametrize(
    ("home", "word", "kept"),
    [
        ("/home/ann", "/home/ann/.venv/bin/server", "~/.venv/bin/server"),
        ("/home/ann/", "--dir=/home/ann", "--dir=~"),
        ("/home/ann", "A=/usr/lib:/home/ann/lib", "A=/usr/lib:~/lib"),
        ("/home/ann", "/home/anna/x", "/home/anna/x"),
        ("/home/ann", "/mnt/home/ann/x", "/mnt/home/ann/x"),
        ("/", "/usr/bin/server", "/usr/bin/server"),
    ],
)
def test_where_the_home_of_the_user_is_does_not_go_onto_the_tape(
    monkeypatch: pytest.MonkeyPatch, home: str, word: str, kept: str
) -> None:
    monkeypatch.setenv("HOME", home)
    assert hide_home(["run", word]) == ["run", kept]


@pytest.mark.parametrize(("options", "kept"), [([], "~/server"), (["--no-redact"], "{home}/server")])
@pytest.mark.slow
def test_a_command_within_the_home_is_recorded_from_there(tmp_path: Path, options: list[str], kept: str) -> None:
    server = tmp_path / "server"
    server.write_text("#!/bin/sh\n")
    server.chmod(0o755)
    words = ["record", "-q", "-o", "tape.db", *options, "--", str(server)]
    run([*MCP_TAPE, *words], cwd=tmp_path, env=os.environ | {"HOME": str(tmp_path)})
    assert json.loads(read(tmp_path / "tape.db", "ls", "--json"))["target"]["command"] == [kept.format(home=tmp_path)]


def test_ls_as_json_has_the_whole_row_and_the_counts(tape: Path) -> None:
    row = json.loads(read(tape, "ls", "--json"))
    assert (row["server_name"], row["server_version"], row["exit_code"]) == ("adder", "3", 3)
    assert (row["exchanges"], row["open"], row["errors"]) == (4, 1, 2)
    assert row["target"]["command"][-1].endswith("answers")


def shown(tape: Path) -> list[str]:
    """The lines of show from the direction on, with durations as T."""
    lines = [line[16:] for line in read(tape, "show").splitlines()]
    return [re.sub(r"\d+(\.\d+)? (µs|ms|s)\b", "T", line) for line in lines]


def test_show_has_one_line_a_message(tape: Path) -> None:
    lines = shown(tape)

    def has(pattern: str) -> bool:
        return any(re.match(pattern, line) for line in lines)

    assert has(r" → #1   initialize +\d+  \{\"protocolVersion")
    assert has(r" → #2   tools/call add +\d+  \{")
    assert has(r" ← #1   initialize ok T +\d+  \{")
    assert has(r"!← #2   tools/call tool-error T +\d+  \{")
    assert has(r" ←      notifications/message +\d+  \{")
    assert has(r" ← #99  \? ok +\d+  \{\}")  # answers no request


def test_show_has_one_line_per_message_of_a_batch(tape: Path) -> None:
    lines = shown(tape)
    assert [line.split()[:3] for line in lines if re.search(r"ping|tools/list", line)] == [
        ["→", "#3", "ping"],
        ["→", "#4", "tools/list"],
        ["!←", "#4", "tools/list"],
        ["←", "#3", "ping"],
    ]


def test_show_describes_events_in_words(tape: Path) -> None:
    lines = shown(tape)
    assert " →      closes" in lines
    assert " ←      closes stderr" in lines
    assert lines[-1] == "!←      exits 3"
    assert any(re.match(r"!←      noise +15  Hello on stdout", line) for line in lines)
    assert any(re.match(r" ←      stderr +\d+  ·\]0;title· warning", line) for line in lines)


@pytest.mark.slow
def test_show_as_json_has_every_line_with_its_times(tape: Path) -> None:
    rows = [json.loads(line) for line in read(tape, "show", "--json").splitlines()]
    assert [row["seq"] for row in rows] == sorted(row["seq"] for row in rows)
    assert len(rows) == len(shown(tape))
    by_seq = {row["seq"]: row for row in rows}
    answers = [row for row in rows if row.get("answers")]
    assert len(answers) == 4
    for row in answers:
        assert row["microseconds"] == row["at"] - by_seq[row["answers"]]["at"] >= 0


@pytest.mark.slow
def test_raw_gives_back_each_sides_bytes(tape: Path) -> None:
    assert stream(tape, "client") == CLIENT
    assert stream(tape, "server") == SERVER


@pytest.mark.slow
def test_json_lines_have_every_frame_verbatim(tape: Path) -> None:
    rows = [json.loads(line) for line in read(tape, "convert").splitlines()]
    sent = [row for row in rows if row["sender"] == "client" and row["kind"] in ("message", "batch", "noise")]
    assert "".join(row["text"] + row["eol"] for row in sent).encode() == CLIENT
    assert [row["kind"] for row in rows if "base64" in row] == ["stderr"]
    only = [json.loads(line) for line in read(tape, "convert", "--side", "client").splitlines()]
    assert only == [row for row in rows if row["sender"] == "client"]


@pytest.mark.slow(quick=4)
@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_a_pipe_gets_plain_text(tape: Path, words: list[str]) -> None:
    text = read(tape, *words)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)


@pytest.mark.slow(quick=4)
@pytest.mark.parametrize("words", READERS, ids=" ".join)
@pytest.mark.parametrize("no_colour", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_nothing_that_was_recorded_acts_on_a_terminal(tape: Path, words: list[str], no_colour: dict[str, str]) -> None:
    environ = {"NO_COLOR": "", "TERM": "xterm"} | no_colour
    output = on_terminal([*MCP_TAPE, words[0], str(tape), *words[1:]], **environ).decode()
    assert len(output) > 100
    assert not re.search(r"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f]", output)


@pytest.mark.slow
def test_a_terminal_gets_colours_and_lines_of_its_width(tape: Path) -> None:
    output = on_terminal([*MCP_TAPE, "show", str(tape)], TERM="xterm", NO_COLOR="", COLUMNS="60")
    assert b"\x1b[31m" in output
    plain = re.sub(r"\x1b\[\d*m", "", output.decode())
    assert max(map(len, plain.splitlines())) == 60


@pytest.mark.slow
def test_raw_bytes_are_not_written_to_a_terminal(tape: Path) -> None:
    output = on_terminal([*MCP_TAPE, "convert", str(tape), "--to", "raw", "--side", "server"])
    assert b"Error: raw bytes" in output
    assert b"Hello on stdout" not in output


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize(
    "words", [["show"], ["show", "--json"], ["convert"], ["convert", "--to", "raw", "--side", "client"]], ids=" ".join
)
def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path, words: list[str]) -> None:
    long = tmp_path / "long.db"
    line = b'{"jsonrpc":"2.0","method":"x","params":{"text":"' + b"y" * 1000 + b'"}}\n'
    assert run(record(long, python("import sys; sys.stdin.read()"), "--no-redact"), line * 1000).returncode == 0
    command = [*MCP_TAPE, words[0], str(long), *words[1:]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(WAIT) == 0


@pytest.mark.slow
def test_a_recording_goes_on_if_stderr_is_not_read(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = record(tmp_path / "tape.db", python("print(input())"), "--no-redact")
    done = subprocess.run(command, input=b"hello\n", stdout=subprocess.PIPE, stderr=writer, timeout=WAIT)
    os.close(writer)
    assert (done.returncode, done.stdout) == (0, b"hello\n")
    assert stream(tmp_path / "tape.db", "client") == b"hello\n"


@pytest.mark.slow
def test_one_session_of_several_is_shown_by_its_number(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    for word in (b"first", b"second"):
        run(record(tape, python("print(input())"), "--no-redact"), word + b"\n")
    assert len(read(tape, "ls").splitlines()) == 2
    assert "second" in read(tape, "show")
    assert "first" in read(tape, "show", "--session", "1")
    assert stream(tape, "client", 1) == b"first\n"
