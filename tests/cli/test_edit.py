"""A session is changed in an editor and written back, as a whole or not at all."""

from __future__ import annotations

import json
import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.cassette.reader import Cassette
from mcp_tape.formats import sheet
from tests.support.decks import alter
from tests.support.golden import GOLDEN
from tests.support.running import (
    ECHO,
    MCP_TAPE,
    WAIT,
    frames,
    is_recording,
    on_terminal,
    python,
    receive_line,
    record,
    send,
    sessions,
    started,
    until,
)
from tests.support.texts import everything, hidden, odd, over_http, recorded, several, table, tape

MAKERS = [odd, hidden, over_http, several]


REPLACES = """
import pathlib, sys
file = pathlib.Path(sys.argv[3])
file.write_bytes(file.read_bytes().replace(*(word.encode() for word in sys.argv[1:3])))
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for texts that are kept."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    return tmp_path


def replacing(old: str, new: str) -> str:
    """An editor that replaces a text everywhere."""
    return shlex.join([sys.executable, "-c", REPLACES, old, new])


def edit(path: Path, old: str, new: str, *words: object, code: int = 0) -> str:
    return tape("edit", path, "--editor", replacing(old, new), *words, code=code).stderr


def text_of(path: Path, session: int | None = None) -> str:
    from io import StringIO

    out = StringIO()
    sheet.write(str(path), session, out)
    return out.getvalue()


@pytest.mark.parametrize("make", MAKERS)
def test_an_untouched_text_gives_every_frame_again(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    path = make(tmp_path / "tape.db")
    with Cassette(path) as cassette:
        for session in cassette.sessions():
            lines = text_of(path, session.id).split("\n")
            rows = list(sheet.read_frames(lines, lambda seq: cassette.frame(session.id, seq)))  # noqa: B023 - used at once
            assert [row.frame for row in rows] == list(cassette.frames(session.id))
            assert not any(row.changed for row in rows)


@pytest.mark.parametrize("make", MAKERS)
def test_unedited_frames_stay_byte_for_byte(place: Path, make: Callable[[Path], Path]) -> None:
    path = make(place / "tape.db")
    number = sessions(path)[-1].id
    before, said = everything(path), frames(path)
    last = "# Lines that begin with # are ignored.\n"
    assert "1 frame added" in edit(path, last, f"{last}@new server stderr\n| one more\n")
    new, *rest = frames(path)
    assert new.text == b"one more"
    assert [frame._replace(seq=frame.seq - 1) for frame in rest] == said
    assert others(everything(path), number) == others(before, number)
    keys = [row[12] for row in before["messages"] if row[3] == number]
    assert [row[12] for row in everything(path)["messages"] if row[3] == number] == keys


def others(tables: dict[str, list[tuple[Any, ...]]], session: int) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of the other sessions."""
    column = {"sessions": 0, "frames": 1, "messages": 3}
    return {name: [row for row in tables[name] if row[place] != session] for name, place in column.items()}


@pytest.mark.slow(quick=3)
@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_an_edit_and_its_undoing_give_the_same_cassette(place: Path, golden: Path) -> None:
    path = place / "tape.db"
    path.write_bytes(golden.read_bytes())
    before = everything(path)
    assert "changed" in edit(path, '"method": "', '"method": "s', "--session", 1)
    changed = everything(path)
    assert changed["frames"] != before["frames"] and changed["messages"] != before["messages"]
    edit(path, '"method": "s', '"method": "', "--session", 1)
    after = everything(path)
    assert after["sessions"] == before["sessions"]
    # White space between tokens may change.
    assert [row[:-2] for row in after["frames"]] == [row[:-2] for row in before["frames"]]
    assert after["messages"] == before["messages"]


def test_an_edited_message_keeps_every_other_token(place: Path) -> None:
    path = odd(place / "tape.db")
    assert "1 frame changed" in edit(path, '"name": "sum"', '"name": "total"')
    (text,) = [frame.text for frame in frames(path) if b"total" in frame.text]
    assert text == (
        b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"total","arguments":'
        b'{"a":1E2,"b":1.0,"c":123456789012345678901234567890,"d":"\\u00e9\\ud800","e":-0,"a":3}}}'
    )
    (row,) = [row for row in table(path, "messages") if row[7] == b"tools/call"]
    assert row[9] == b"total"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (',\n      "version": "1.0"', "", ("odd", None, "2025-11-25")),
        ('"serverInfo"', '"theirInfo"', (None, None, "2025-11-25")),
        ('"protocolVersion"', '"version"', ("odd", "1.0", None)),
    ],
)
def test_session_facts_that_frames_no_longer_state_go(
    place: Path, old: str, new: str, told: tuple[str | None, ...]
) -> None:
    path = odd(place / "tape.db")
    before = sessions(path)[0]
    edit(path, old, new)
    after = sessions(path)[0]
    assert (after.server_name, after.server_version, after.protocol_version) == told
    assert after == before._replace(server_name=told[0], server_version=told[1], protocol_version=told[2])


def test_session_facts_that_frames_never_stated_stay(place: Path) -> None:
    path = recorded(place / "tape.db", b'{"jsonrpc":"2.0","id":1,"method":"x"}\n', b"")
    alter(path, "UPDATE sessions SET server_name = 'known', client_version = '7', note = 'a note'")
    before = sessions(path)
    edit(path, '"x"', '"y"')
    assert sessions(path) == before


def test_removed_text_is_nowhere_in_the_file(place: Path) -> None:
    path = odd(place / "tape.db")
    assert b"never/answered" in path.read_bytes()
    edit(path, "never/answered", "x/y")
    assert b"never/answered" not in path.read_bytes()


def test_frames_can_be_added_and_removed(place: Path) -> None:
    path = odd(place / "tape.db")
    added = '@new server\n{\n  "id": 4,\n  "result": {}\n}\n@new server stderr\n| a line\n'
    told = edit(path, "# Lines that begin with # are ignored.\n", added)
    assert "2 frames added" in told
    first, second, *_ = frames(path)
    assert (first.seq, first.text, first.kind, first.eol) == (1, b'{"id":4,"result":{}}', "message", b"\n")
    assert (second.text, second.kind) == (b"a line", "stderr")
    assert "1 frame removed" in edit(path, '@1 server  # answer ok\n{\n  "id": 4,\n  "result": {}\n}\n', "")
    assert frames(path)[0].text == b"a line"


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize(
    ("old", "new", "place_of", "hint"),
    [
        ('"method": "ping"', '"method": ping', '"method": ping', "not JSON"),
        ('"method": "ping"', '"method": "ping",,', ",,", "not JSON"),
        ("| plain", "plain", "plain", "| before"),
        ("| plain", "777", "777", "| before"),
        ("| plain", "", "@7 server stderr", "no text"),
        ("@7 server", "@7 servant", "@7 servant", "@5 server"),
        ("@7 server", "@700 server", "@700 server", "no frame 700"),
        ("# Lines that begin", "Lines that begin", "Lines that begin", "@5 server"),
        ("\nbase64: ", "\nbase64: %", "base64: %", "base64"),
    ],
)
def test_a_text_that_does_not_parse_is_kept_and_the_place_is_named(
    place: Path, old: str, new: str, place_of: str, hint: str
) -> None:
    path = odd(place / "tape.db")
    before = path.read_bytes()
    assert old in text_of(path), text_of(path)
    told = edit(path, old, new, code=1)
    assert path.read_bytes() == before
    (kept,) = place.glob("tmp/*/tape.txt")
    at = next(n for n, line in enumerate(kept.read_text().split("\n"), 1) if place_of in line)
    assert f"{kept}, line {at}: " in told
    assert hint in told
    # The command in the message writes the corrected text back.
    kept.write_text(kept.read_text().replace(new, old.replace("never", "x")) if new else text_of(path))
    again = shlex.split(told.partition("once it is right: ")[2])
    assert again[:2] == ["mcp-tape", "edit"]
    tape(*again[1:])


@pytest.mark.parametrize(("editor", "code"), [("false", 1), ("rm", 1), ("no-such-editor-anywhere", 1)])
def test_an_editor_that_fails_changes_nothing(place: Path, editor: str, code: int) -> None:
    path = odd(place / "tape.db")
    before = path.read_bytes()
    assert "nothing was changed" in tape("edit", path, "--editor", editor, code=code).stderr
    assert path.read_bytes() == before
    assert not list((place / "tmp").iterdir())


def test_nothing_is_left_behind(place: Path) -> None:
    path = odd(place / "tape.db")
    edit(path, "ping", "pong")
    assert sorted(os.listdir(place)) == ["tape.db", "tmp"]
    assert not list((place / "tmp").iterdir())


@pytest.mark.parametrize("name", ["VISUAL", "EDITOR"])
def test_the_editor_comes_from_the_environment(place: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    path = odd(place / "tape.db")
    for other in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, replacing("ping", "pong"))
    assert json.loads(tape("edit", path, "--json").stdout) == {
        "file": str(path), "session": 1, "changed": 1, "added": 0, "removed": 0,
    }  # fmt: skip


@pytest.mark.slow
def test_a_session_changed_by_another_process_is_not_overwritten(place: Path) -> None:
    path = odd(place / "tape.db")
    other = shlex.join([*MCP_TAPE, "edit", str(path), "--editor", replacing("ping", "theirs")])
    told = tape("edit", path, "--editor", f"{other} && {replacing('ping', 'ours')}", code=3).stderr
    assert "another process has changed session 1 meanwhile" in told
    texts = b"".join(frame.text for frame in frames(path))
    assert b"theirs" in texts and b"ours" not in texts
    (kept,) = place.glob("tmp/*/tape.txt")
    assert "ours" in kept.read_text()
    assert str(kept) in told


@pytest.mark.slow
def test_another_session_may_still_be_recorded(place: Path) -> None:
    path = odd(place / "tape.db")
    with started(record(path, ECHO, "--no-redact")) as recorder:
        assert recorder.stdin and recorder.stdout
        send(recorder.stdin, b"before\n")
        assert receive_line(recorder.stdout) == b"before\n"
        until(lambda: len(sessions(path)) == 2 and len(frames(path, 2)) == 2, "what was recorded so far")
        assert "1 frame changed" in edit(path, "ping", "pong", "--session", 1)
        send(recorder.stdin, b"after\n")
        assert receive_line(recorder.stdout) == b"after\n"
        recorder.stdin.close()
        assert recorder.wait(WAIT) == 0
    assert is_recording(path)
    assert [f.text for f in frames(path, 2) if f.kind == "noise"] == [b"before", b"before", b"after", b"after"]
    assert any(b"pong" in f.text for f in frames(path, 1))


@pytest.mark.slow
def test_on_a_terminal_one_may_edit_again(place: Path) -> None:
    path = odd(place / "tape.db")
    flag = place / "flag"
    wrong, right = replacing("| plain", "plain"), replacing("\nplain", "\n| simple")
    script = f'if test -e {flag}; then {right} "$1"; else touch {flag}; {wrong} "$1"; fi'
    command = [*MCP_TAPE, "edit", str(path), "--editor", shlex.join(["sh", "-c", script, "sh"])]
    master, slave = pty.openpty()
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave) as process:
        os.close(slave)
        os.write(master, b"y\n")
        assert process.wait(WAIT) == 0
        output = os.read(master, 65536)
    os.close(master)
    assert b"Edit again?" in output and b"1 frame changed" in output
    assert any(frame.text == b"simple" for frame in frames(path))


PATIENT = "from mcp_tape.console import progress; progress._PATIENCE = progress._EVERY = 0"


@pytest.mark.slow
def test_a_terminal_shows_progress(place: Path) -> None:
    path = odd(place / "tape.db")
    words = ["edit", str(path), "--editor", replacing("ping", "pong")]
    output = on_terminal(python(f"{PATIENT}\nfrom mcp_tape.cli import cli; cli({words!r})"))
    assert b"\rputting session 1 back: " in output and b"\r\x1b[K" in output
    assert b"1 frame changed" in output
