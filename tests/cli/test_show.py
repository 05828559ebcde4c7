"""mcp-tape show: the conversation, one whole exchange, and a recording in progress."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import random
import re
import shlex
import signal
import struct
import subprocess
import termios
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.cassette.query.timeline import session_rows
from mcp_tape.cassette.reader import Cassette
from mcp_tape.console.terminal import display_width, fit, pad, wrap
from mcp_tape.formats import pretty
from mcp_tape.formats.pretty import lay_out
from tests.support.decks import alter
from tests.support.reading import GOLDEN, Frames, Recording, call, invoke, lines, make, message, objects, said
from tests.support.running import MCP_TAPE, WAIT, receive, receive_line, run, started

EVIL = "\x1b]0;title\x07\x9b31m\u202e\r\n"
WIDE = "日本語 👋 Grüezi e\u0301"
TALK = (
    Frames()
    .client(message(id=1, method="initialize"))
    .server(message(id=1, result={"serverInfo": {"name": "x", "version": "1"}}))
    .client(message(id=2, method="tools/call", params={"name": "ask", "_meta": {"progressToken": 2}}))
    .server(message(method="notifications/progress", params={"progressToken": 2, "progress": 1}))
    .stderr("asking the model")
    .server(message(id=1, method="sampling/createMessage", params={"messages": [], "maxTokens": 20}))
    .server(b"DEBUG on stdout", kind="noise")
    .client(message(id=1, result={"role": "assistant", "model": WIDE}))
    .server(said(2, WIDE, isError=True))
    .stderr("afterwards")
    .client(call(3, "日本語のツール" * 9, text=WIDE * 40))
    .server(message(id=3, error={"code": -32602, "message": EVIL}))
    .client(call(4, "never"))
    .server(message(method="notifications/tools/list_changed"))
    .server(message(id=9, method="roots/list"))
    .stderr("Traceback: it crashed")
    .happened("client", "stdio", event="close")
    .happened("server", "stdio", event="exit", code=1)
)
HTTP = (
    Frames()
    .posts("post-1", message(id=1, method="initialize"), message(id=1, result={}))
    .posts("post-2", message(method="notifications/initialized"), None)
    .happened("client", "get-1", event="request", verb="GET", path="/mcp", headers={})
    .happened("server", "get-1", event="response", status=405, headers={})
    .posts("post-3", call(2, "add", a=1), said(2, "1"))
)


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("show") / "tape.db", TALK)


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("show") / "web.db", HTTP, transport="http")


def marked(shown: list[str]) -> list[int]:
    return [int(line[:5]) for line in shown if line[16] == "!"]


def test_lines_that_need_attention_have_a_mark(tape: Path) -> None:
    shown = lines("show", tape)
    # noise, isError, an error, calls without an answer from either side, a bad exit; not stderr, which servers log to
    assert marked(shown) == [7, 9, 12, 13, 15, 18]
    assert re.search(r"!→ #4   tools/call never unanswered ", shown[12])
    assert re.search(r"!← #9   roots/list unanswered ", shown[14])


def test_a_cancelled_call_is_no_failure() -> None:
    (cancelled,) = [path for path in GOLDEN if path.name == "cancelled.db"]
    shown = lines("show", cancelled)
    assert re.search(r" → #2   tools/call slow cancelled ", shown[3])
    assert re.search(r" ← #2   roots/list cancelled ", shown[12])
    assert marked(shown) == [18]


@pytest.mark.parametrize("tape", GOLDEN, ids=lambda path: path.stem)
def test_the_golden_cassettes_have_a_line_for_every_message_and_frame(tape: Path) -> None:
    with Cassette(tape) as cassette:
        sql = """SELECT f.seq FROM frames f LEFT JOIN messages m ON m.frame = f.id
                 WHERE f.session = ? ORDER BY f.seq, m.part"""
        expected = [seq for (seq,) in cassette.rows(sql, (cassette.session().id,))]
    assert [int(line[:5]) for line in lines("show", tape)] == expected
    assert [row["seq"] for row in objects("show", tape)] == expected


def columns_of(line: str) -> int:
    """Counted independently: a wide character takes two columns, a combining mark none."""
    plain = re.sub(r"\x1b\[\d*m", "", line)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in ("W", "F") else 1 for c in plain
    )


def on_terminal(command: list[str], columns: int, **environ: str) -> str:
    """The output of a command to a terminal of this many columns."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR")}
    environment |= {"TERM": "xterm"} | environ
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment) as process:
        os.close(slave)
        output = read_terminal(master)
        process.wait(WAIT)
    os.close(master)
    return output.decode()


def read_terminal(master: int) -> bytes:
    got = b""
    try:
        while data := os.read(master, 65536):
            got += data
    except OSError:
        pass  # Linux raises this after the terminal's last user has gone
    return got


@pytest.mark.slow(quick=4)
@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("words", [["show"], ["show", "--filter", "kind:message"], ["ls"], ["stats"]], ids=" ".join)
def test_lines_fit_the_terminal(tape: Path, words: list[str], columns: int) -> None:
    output = on_terminal([*MCP_TAPE, words[0], str(tape), *words[1:]], columns)
    widths = [columns_of(line) for line in output.splitlines()]
    assert widths and max(widths) <= columns, output


@pytest.mark.slow
def test_a_narrow_terminal_shows_the_main_part(tmp_path: Path) -> None:
    frames = Frames().client(call(1, "add", a=12)).server(said(1, "the sum")).client(call(2, "add"))
    frames.server(message(id=2, error={"code": -1, "message": "no sum"}))
    tape = make(tmp_path / "tape.db", frames)
    output = on_terminal([*MCP_TAPE, "show", str(tape)], 80, NO_COLOR="1")
    assert [line[66:].strip() for line in output.splitlines()] == ['{"a":12}', "the sum", "", "no sum"]


def test_wide_characters_do_not_move_the_columns(tmp_path: Path) -> None:
    names = ["add", "日本語", "👋👋", "e\u0301e\u0301"]
    frames = Frames()
    for number, name in enumerate(names):
        frames.client(call(number, name)).server(said(number, "x"))
    shown = lines("show", make(tmp_path / "tape.db", frames))[::2]
    assert {columns_of(line.partition("  {")[0]) for line in shown} == {66}


@pytest.mark.slow
def test_a_terminal_gets_colours_unless_they_are_off(tape: Path) -> None:
    command = [*MCP_TAPE, "show", str(tape)]
    assert "\x1b[31m" in on_terminal(command, 80)
    for environ in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        plain = on_terminal(command, 80, **environ)
        assert "\x1b" not in plain
        assert marked(plain.splitlines()) == marked(lines("show", tape))


@pytest.mark.parametrize("words", [[], ["--all"], ["12"], ["16"], ["--json"], ["3", "--json"]], ids=" ".join)
def test_untrusted_text_is_harmless(tape: Path, words: list[str]) -> None:
    result = invoke("show", tape, *words)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", result.stdout if "--json" not in words else "")
    assert "\x1b" not in result.stdout


@pytest.mark.slow(quick=4)
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("words", [["show"], ["show", "3"], ["ls"], ["stats"]], ids=" ".join)
def test_an_encoding_that_lacks_characters_is_no_crash(tape: Path, words: list[str], encoding: str) -> None:
    command = [*MCP_TAPE, words[0], str(tape), *words[1:]]
    done = run(command, env=os.environ | {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert words[0] != "show" or b" > #" in done.stdout


# -- HTTP


def test_ordinary_http_events_are_left_out(web: Path) -> None:
    what = [re.sub(r" [\d.]+ (ms|µs)$", "", re.split(r"  +", line[24:].strip())[0]) for line in lines("show", web)]
    assert what == [
        "initialize",
        "initialize ok",
        "notifications/initialized",
        "GET /mcp on get-1",
        "405 on get-1",
        "tools/call add",
        "tools/call ok",
    ]


def test_all_of_http_is_shown_on_request(web: Path) -> None:
    assert len(lines("show", web, "--all")) == len(HTTP)
    assert len(objects("show", web)) == len(HTTP)
    assert any("200 application/json on post-3" in line for line in lines("show", web, "--all"))


def test_an_exchange_over_http_includes_the_events_around_it(web: Path) -> None:
    shown = lines("show", web, 13)
    assert headings(shown) == [12, 13, 14, 15, 16]
    assert "POST /mcp on post-3" in shown[0]
    assert "closes post-3" in shown[-1]


# -- one exchange, whole


def headings(shown: list[str]) -> list[int]:
    return [int(line[:5]) for line in shown if re.match(r" *\d+ +\d+\.\d{3} ", line)]


@pytest.mark.parametrize("seq", [3, 4, 6, 8, 9])
def test_any_message_of_an_exchange_shows_it_whole(tape: Path, seq: int) -> None:
    shown = lines("show", tape, seq)
    assert headings(shown) == [3, 4, 5, 6, 7, 8, 9]
    text = "\n".join(shown)
    assert '      "method": "tools/call",\n' in text
    assert '"maxTokens": 20' in text
    assert "    asking the model" in shown and "    DEBUG on stdout" in shown
    assert "afterwards" not in text
    assert sum("notifications/progress" in line for line in shown) == 1


@pytest.mark.parametrize(
    ("seq", "text"),
    [(7, "DEBUG on stdout"), (10, "afterwards"), (16, "Traceback: it crashed"), (18, "exits 1"), (17, "closes")],
)
def test_a_frame_without_a_message_is_shown_alone(tape: Path, seq: int, text: str) -> None:
    shown = lines("show", tape, seq)
    assert headings(shown) == [seq]
    assert text in shown[-1]


def test_a_notification_of_no_exchange_is_shown_alone() -> None:
    (batch,) = [path for path in GOLDEN if path.name == "batch.db"]
    shown = lines("show", batch, 3)
    assert headings(shown) == [3]
    assert '      "method": "notifications/initialized"' in shown


def test_a_call_without_an_answer_is_shown_with_later_stderr(tape: Path) -> None:
    shown = lines("show", tape, 13)
    assert "    Traceback: it crashed" in shown
    assert "unanswered" in shown[0]


def test_the_text_of_a_whole_exchange_is_verbatim(tmp_path: Path) -> None:
    odd = b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1E2,"b":-0,"c":[],"d":{"e":"\\u00e9 {,}"},"a":[1,[2]]}}'
    shown = lines("show", make(tmp_path / "tape.db", Frames().client(odd)), 1)
    assert "".join(line.strip().replace('": ', '":') for line in shown[1:]) == odd.decode()
    (row,) = objects("show", tmp_path / "tape.db", 1)
    assert row["text"] == odd.decode()


VALUES = [{}, [], {"a": []}, [1, [2, {"b": None}], {}], "x", 5, {"a": {"b": {"c": [1.5, "}"]}}}]


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_pretty_json_equals_the_standard_librarys(value: Any) -> None:
    assert lay_out(json.dumps(value, separators=(",", ":"))) == json.dumps(value, indent=2)


@pytest.mark.parametrize(
    "value", [*VALUES, {"z": -0.0, "a": {"b": ["\ud800", 1e300, {"y": "é" * 99}], "x": "x" * 99}}], ids=str
)
def test_a_large_text_in_pieces_equals_the_same_text_at_once(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps({"id": 1, "result": value, "a": [], "\u0065rror": 1.0})
    members = ("error", "result")

    def texts() -> list[str]:
        found = (
            pretty.pieces(text),
            pretty.pieces_of_members(text, members),
            pretty.canonical_pieces(text.encode()) or (),
        )
        return ["".join(pieces) for pieces in found]

    at_once = texts()
    monkeypatch.setattr(pretty, "LARGE", 0)
    monkeypatch.setattr(pretty, "_PIECE", 7)
    assert texts() == at_once


def test_a_text_that_is_no_json_keeps_all_but_white_space() -> None:
    for text in ('{"a": [1, "b\\"', '}]{"a" "b"::,', '{"result"', "[" * 300 + ']"\\'):
        assert "".join(lay_out(text).split()) == "".join(text.split())
        assert isinstance("".join(pretty.pieces_of_members(text, ("result",))), str)


def test_a_large_message_is_cut_in_the_list_and_whole_on_its_own(tmp_path: Path) -> None:
    frames = Frames().client(call(1, "big", text="y" * 300_000)).server(said(1, "z" * 300_000 + "end"))
    big = make(tmp_path / "tape.db", frames)
    first, second = lines("show", big)
    assert re.search(r'  \{"name": "big", "arguments": \{"text": "y+…$', first)
    assert "tools/call ok" in second
    assert "z" * 300_000 + "end" in "\n".join(lines("show", big, 2))
    assert "z" * 300_000 + "end" in objects("show", big)[1]["detail"]


@pytest.mark.slow
def test_an_exchange_of_thousands_of_messages_is_whole(tmp_path: Path) -> None:
    frames = Frames().client(message(id=1, method="m", params={"_meta": {"progressToken": 1}}))
    for number in range(2500):
        frames.server(message(method="notifications/progress", params={"progressToken": 1, "progress": number}))
    frames.server(message(id=1, result={}))
    assert headings(lines("show", make(tmp_path / "tape.db", frames), 1200)) == list(range(1, 2503))


def test_each_message_of_a_large_batch_has_its_own_content(tmp_path: Path) -> None:
    parts = [message(method=f"n/{number}", params={"number": number, "x": "y" * 50}) for number in range(200)]
    tape = make(tmp_path / "tape.db", Frames().client(b"[" + b",".join(parts) + b"]", kind="batch"))
    shown = lines("show", tape)
    assert [re.search(r'(n/\d+) .*"number":(\d+)', line).groups() for line in shown] == [  # type: ignore[union-attr]
        (f"n/{number}", str(number)) for number in range(200)
    ]


@pytest.mark.parametrize("words", [["3", "-f"], ["3", "--filter", "tool:x"], ["x"], ["-3"]], ids=" ".join)
def test_wrong_usage_is_reported(tape: Path, words: list[str]) -> None:
    assert invoke("show", tape, *words).exit_code == 2


@pytest.mark.parametrize("number", [99, (1 << 32) + 3, 10**30])  # the second would be in the next session
def test_a_number_that_is_not_there_points_to_the_list(tape: Path, number: int) -> None:
    result = invoke("show", tape, number)
    assert result.exit_code == 3
    assert f"session 1 of {tape} has no frame {number}; see: mcp-tape show {tape}" in result.stderr


def test_a_command_to_try_can_be_pasted_into_a_shell(tape: Path, tmp_path: Path) -> None:
    odd = tmp_path / "it's my tape.db"
    odd.write_bytes(tape.read_bytes())
    for words in (["show", odd, 99], ["show", odd, "--session", 9], ["show", tmp_path / "it's gone.db"]):
        hint = invoke(*words).stderr.rpartition(": mcp-tape ")[2]
        assert str(words[1]) in shlex.split(hint)


@pytest.mark.parametrize("column", ["sender", "channel", "kind"])
def test_rows_with_invalid_values_are_reported(tmp_path: Path, column: str) -> None:
    tape = make(tmp_path / "tape.db", Frames().client(call(1, "x")).server(said(1, "y")))
    alter(tape, f"UPDATE facts SET {column} = x'ff'")
    for words in (["show"], ["show", "--json"]):
        result = invoke(*words, tape)
        assert result.exit_code in (0, 3) and "Traceback" not in result.stderr


@pytest.mark.parametrize("seed", range(25))
def test_bytes_that_went_wrong_are_no_traceback(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(chance.choice(GOLDEN).read_bytes())
    for _ in range(chance.choice([1, 5, 50])):
        data[chance.randrange(100, len(data))] = chance.randrange(256)
    (tmp_path / "tape.db").write_bytes(data)
    for words in (["ls"], ["show"], ["show", "--json"], ["show", "6"], ["show", "--filter", "dur:>1 -x"], ["stats"]):
        assert invoke(words[0], tmp_path / "tape.db", *words[1:]).exit_code in (0, 3)


# -- many messages


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cassette of 20,000 messages; a page has a thousand."""
    frames = Frames()
    for number in range(10_000):
        frames.client(b'{"id":%d,"method":"tools/call","params":{"name":"add"}}' % number)
        frames.server(b'{"id":%d,"result":{}}' % number)
    return make(tmp_path_factory.mktemp("long") / "long.db", frames)


@pytest.mark.slow
def test_every_message_of_a_long_session_is_shown_once(long: Path) -> None:
    assert [int(line[:7]) for line in lines("show", long)] == list(range(1, 20_001))


@pytest.mark.slow
def test_the_first_lines_need_only_the_first_block(long: Path) -> None:
    asked: list[str] = []
    with Cassette(long) as cassette:
        cassette.connection.set_trace_callback(asked.append)
        rows = session_rows(cassette, 1)
        assert [next(rows).seq for _ in range(100)] == list(range(1, 101))
    assert len(asked) == 1


# -- during recording


@pytest.fixture
def following(tmp_path: Path) -> Iterator[Any]:
    with started([*MCP_TAPE, "show", "-f", str(tmp_path / "tape.db")]) as process:
        yield process


@pytest.mark.slow
def test_a_recording_is_followed_from_before_it_begins_to_its_end(tmp_path: Path, following: Any) -> None:
    assert b"there is no cassette at" in receive_line(following.stderr)
    recording = Recording(tmp_path / "tape.db")
    recording.write([TALK[0]])
    assert b"initialize" in receive_line(following.stdout)
    recording.write(TALK[1:4])
    for expected in (b"initialize ok", b"tools/call ask"):
        assert expected in receive_line(following.stdout)
    another = Recording(tmp_path / "tape.db")
    another.write(Frames().client(message(id=1, method="elsewhere")))
    recording.end()
    rest = [receive_line(following.stdout) for _ in range(4)]
    assert b"notifications/progress" in rest[0]
    assert sum(b"tools/call ask unanswered" in line for line in rest) == 1
    assert b"session 2\n" in rest and any(b"elsewhere" in line for line in rest)
    another.end()
    assert b"elsewhere unanswered" in receive(following.stdout)
    assert (following.wait(WAIT), receive(following.stderr)) == (0, b"")


@pytest.mark.slow
def test_a_call_is_not_called_unanswered_while_it_may_be_answered(tmp_path: Path, following: Any) -> None:
    receive_line(following.stderr)
    recording = Recording(tmp_path / "tape.db")
    recording.write([TALK[0]])
    assert b"unanswered" not in receive_line(following.stdout)
    recording.write([TALK[1]])
    recording.end()
    assert b"unanswered" not in receive(following.stdout)
    assert following.wait(WAIT) == 0


@pytest.mark.slow
def test_a_call_that_may_still_be_answered_is_not_unanswered_in_json(tmp_path: Path) -> None:
    frames = Frames().client(call(1, "soon")).client(call(2, "never")).server(said(1, "x"))
    recording = Recording(tmp_path / "tape.db")
    recording.write(frames[:2])
    with started([*MCP_TAPE, "show", "-f", str(tmp_path / "tape.db"), "--json"]) as process:
        assert process.stdout
        early = [json.loads(receive_line(process.stdout)) for _ in range(2)]
        recording.write(frames[2:])
        recording.end()
        late = [json.loads(line) for line in receive(process.stdout).splitlines()]
    assert [(line["what"], line["status"], line["odd"]) for line in early + late if line["kind"] == "request"] == [
        ("tools/call soon", None, False),
        ("tools/call never", None, False),
        ("tools/call never unanswered", "unanswered", True),
    ]


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_numbers_are_shown_as_they_were_recorded(tmp_path: Path, words: list[str]) -> None:
    params = b'{"name":"x","arguments":{"a":1e2,"b":123456789012345678901234567890,"c":-0,"d":1.10}}'
    tape = make(tmp_path / "tape.db", Frames().client(b'{"id":1,"method":"tools/call","params":' + params + b"}"))
    (line,) = lines("show", tape, *words)
    assert params.partition(b'"arguments":')[2][:-1].decode() in line.replace('\\"', '"')


@pytest.mark.slow
def test_following_waits_for_the_next_session_and_stops_on_demand(tmp_path: Path) -> None:
    tape = make(tmp_path / "tape.db", TALK[:2])
    with started([*MCP_TAPE, "show", "-f", str(tape), "--json"]) as process:
        assert process.stdout and process.stderr
        assert [json.loads(receive_line(process.stdout))["seq"] for _ in range(2)] == [1, 2]
        assert b"waiting for the next session" in receive_line(process.stderr)
        recording = Recording(tape)
        recording.write(TALK[:1])
        assert json.loads(receive_line(process.stdout))["session"] == 2
        process.send_signal(signal.SIGINT)
        assert (process.wait(WAIT), receive(process.stderr)) == (0, b"")
        recording.end()


def test_following_one_finished_session_prints_it_and_ends(tape: Path) -> None:
    assert lines("show", tape, "-f", "--session", "1") == lines("show", tape)


def test_following_keeps_to_the_filter(tape: Path) -> None:
    words = ["--session", "1", "--filter", "tool:ask"]
    assert lines("show", tape, "-f", *words) == lines("show", tape, *words)


@pytest.mark.parametrize("make_it", [lambda path: path.mkdir(), lambda path: path.write_text("Dear diary")])
def test_it_does_not_wait_for_a_file_that_is_not_a_cassette(tmp_path: Path, make_it: Any) -> None:
    make_it(tmp_path / "tape.db")
    assert invoke("show", "-f", tmp_path / "tape.db").exit_code == 3


# -- columns


@pytest.mark.parametrize(
    ("text", "width", "fitted"),
    [
        ("hello", 5, "hello"),
        ("hello", 4, "hel…"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("a\x1bb", 9, "a·b"),
        ("e\u0301e\u0301", 2, "e\u0301e\u0301"),
        ("x", 1, "x"),
        ("xx", 1, "…"),
        ("", 0, ""),
    ],
)
def test_text_is_cut_by_columns(text: str, width: int, fitted: str) -> None:
    assert fit(text, width) == fitted
    assert display_width(fitted) <= width
    assert display_width(pad(fitted, 20)) == 20


def test_parts_are_wrapped_between_them() -> None:
    assert wrap(["one", "two", "three"], 8, 2) == "one  two\n  three"
    assert wrap(["one", "much too long"], 8, 2) == "one\n  much …"
