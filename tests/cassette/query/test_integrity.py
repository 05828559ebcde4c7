"""mcp-tape check: defects of a cassette and their places, without revealing secrets."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.cassette import schema
from mcp_tape.cassette.query import integrity
from tests.support.decks import alter
from tests.support.many import findings as found_in
from tests.support.reading import GOLDEN, Frames, Recording, call, invoke, make, message, said
from tests.support.running import MCP_TAPE, WAIT

TOKEN = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"


def talk() -> Frames:
    frames = Frames().client(call(1, "add", a=1)).server(said(1, "two"))
    return frames.client(call(2, "find")).server(message(id=2, error={"code": -1, "message": "no"}))


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return make(tmp_path / "tape.db", talk())


def findings(*words: object, code: int = 1) -> list[dict[str, Any]]:
    result = invoke("check", *words, "--json")
    assert (result.exit_code, result.stderr) == (code, "")
    return found_in(result.stdout)


def test_a_whole_cassette_has_no_findings(tape: Path) -> None:
    result = invoke("check", tape)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"mcp-tape: {tape}: no problems were found\n"


@pytest.mark.slow
def test_the_golden_cassettes_are_whole_and_hold_no_secrets() -> None:
    assert findings(*GOLDEN, code=0) == []


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("DROP INDEX derived_key", "the index derived_key is missing"),
        ("DROP VIEW stderr", "the view stderr is missing"),
        ("CREATE TABLE extra (a)", "the table extra does not belong to a cassette"),
        ("CREATE VIEW extra AS SELECT 1", "the view extra does not belong to a cassette"),
        ("ALTER TABLE facts ADD COLUMN extra", "the table facts differs from a cassette's"),
        ("DELETE FROM sessions", "4 rows of frames belong to no row of sessions"),
        ("UPDATE sessions SET extends = 9", "1 rows of sessions belong to no row of sessions"),
    ],
)
def test_a_foreign_schema_is_reported(tape: Path, statement: str, said: str) -> None:
    alter(tape, statement)
    assert [(found["what"], found["message"]) for found in findings(tape)] == [("schema", said)]


def test_a_changed_view_is_reported(tape: Path) -> None:
    alter(tape, "DROP VIEW stderr", "CREATE VIEW stderr AS SELECT 1")
    assert [found["message"] for found in findings(tape)] == ["the view stderr differs from a cassette's"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE derived SET method = 'x' WHERE id & 4294967295 = 3",
        "UPDATE derived SET key = x'00' WHERE id & 4294967295 = 3",
        "UPDATE derived SET status = 'ok' WHERE id & 4294967295 = 3",
        "UPDATE derived SET answers = 99 WHERE id & 4294967295 = 3",
        "UPDATE derived SET cue = 0 WHERE id & 4294967295 = 3",
        "DELETE FROM derived WHERE id & 4294967295 = 3",
        "UPDATE derived SET part = 7 WHERE id & 4294967295 = 3",
        "DELETE FROM facts WHERE id & 4294967295 = 4",  # adds its message to the frame before it
        "UPDATE facts SET kind = 'noise' WHERE id & 4294967295 = 3",
    ],
)
def test_derived_rows_that_do_not_match_the_frames_are_reported(tape: Path, statement: str) -> None:
    alter(tape, statement)
    found = [(row["what"], row["session"], row["seq"]) for row in findings(tape)]
    assert ("messages", 1, 3) in found


def test_many_wrong_rows_are_counted(tmp_path: Path) -> None:
    frames = Frames()
    for number in range(30):
        frames.client(call(number, "x"))
    tape = make(tmp_path / "tape.db", frames)
    alter(tape, "UPDATE derived SET method = 'y'")
    found = findings(tape)
    assert len(found) == integrity._MOST + 1
    assert found[-1]["message"] == f"and {30 - integrity._MOST} more frames with such rows"


def test_keys_that_cannot_be_made_anew_are_not_held_against_a_cassette(tape: Path) -> None:
    alter(tape, "UPDATE facts SET redactions = 1 WHERE id & 4294967295 = 1")
    alter(tape, "UPDATE derived SET key = x'00' WHERE id & 4294967295 = 1")
    assert findings(tape, code=0) == []
    alter(tape, "UPDATE sessions SET key_version = 0", "UPDATE derived SET key = x'00' WHERE key IS NOT NULL")
    assert findings(tape, code=0) == []


@pytest.mark.slow
def test_open_and_incomplete_sessions_are_reported(tmp_path: Path) -> None:
    tape = make(tmp_path / "tape.db", talk())
    alter(tape, "UPDATE sessions SET incomplete = 'for a reason'")
    recording = Recording(tape)
    recording.write(talk())
    try:
        first, second = findings(tape)
    finally:
        recording.end()
    assert (first["session"], first["message"]) == (1, "is incomplete: for a reason")
    assert second["session"] == 2 and second["message"].startswith("is open: never closed")


def test_a_secret_is_reported_by_its_place_and_never_by_its_value(tmp_path: Path) -> None:
    frames = talk().client(call(3, "login", password="hunter2-hunter2", deep=[{"note": f"use {TOKEN} now"}]))
    frames.stderr("password=hunter2-hunter2")
    tape = make(tmp_path / "tape.db", frames, note=f"with {TOKEN}")
    result = invoke("check", tape)
    assert result.exit_code == 1
    assert sorted(line.removeprefix(f"{tape}: ") for line in result.stdout.splitlines()) == [
        "session 1 #5 $.params.arguments.deep[0].note: looks like a secret (shape:github)",
        "session 1 #5 $.params.arguments.password: looks like a secret (key:password)",
        "session 1 #6 $: looks like a secret (key:password)",
        "session 1 note: looks like a secret (shape:github)",
    ]
    assert "hunter2" not in result.output and TOKEN not in result.output


def test_values_of_this_environment_and_own_rules_count(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert findings(tape, code=0) == []
    assert [found["path"] for found in findings(tape, "--redact-value", "^two$")] == ["$.result.content[0].text"]
    monkeypatch.setenv("SOME_TOKEN", "xy-12345678-zz")
    secret = make(tape.parent / "secret.db", talk().server(said(9, "xy-12345678-zz")))
    assert [found["message"] for found in findings(secret)] == ["looks like a secret (env:SOME_TOKEN)"]


def test_damage_is_reported_and_ends_the_check(tmp_path: Path) -> None:
    tape = make(tmp_path / "tape.db", Frames().client(call(9, "x", text="y" * 20000)))
    data = bytearray(tape.read_bytes())
    at = data.rindex(b"y" * (schema.PAGE_SIZE - 4))
    data[at - 4 : at] = b"\xff\xff\xff\xff"  # the page where a long text continues
    tape.write_bytes(data)
    result = invoke("check", tape)
    assert result.exit_code in (1, 3)
    assert len(result.stdout.splitlines()) >= 1 and str(tape) in result.stdout


def test_several_files_are_checked_although_one_cannot_be_read(tape: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.db"
    bad.write_text("nothing of the kind")
    odd = shutil.copy(tape, tmp_path / "odd.db")
    alter(Path(odd), "CREATE TABLE extra (a)")
    found = findings(bad, tape, odd, tmp_path / "missing.db", code=3)
    assert [(Path(row["file"]).name, row["what"]) for row in found] == [
        ("bad.db", "file"),
        ("odd.db", "schema"),
        ("missing.db", "file"),
    ]
    assert invoke("check", bad, odd).stderr == "mcp-tape: 2 cassettes: 1 failed, 1 unreadable\n"


def test_names_in_a_strangers_file_are_printed_harmlessly(tape: Path) -> None:
    alter(tape, 'CREATE TABLE "a\x1b[31m" (x)')
    assert "\x1b" not in invoke("check", tape).output


@pytest.mark.parametrize(("first", "code"), [("odd", 1), ("missing", 3)])
@pytest.mark.slow
def test_findings_count_even_if_the_reader_of_stdout_has_gone(tape: Path, first: str, code: int) -> None:
    alter(tape, "CREATE TABLE extra (a)")
    odd = [*[tape.with_name("missing.db")] * (first == "missing"), tape, tape]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*MCP_TAPE, "check", *odd], stdout=writer, stderr=subprocess.PIPE, timeout=WAIT)
    os.close(writer)
    assert (done.returncode, done.stderr) == (code, b"")
