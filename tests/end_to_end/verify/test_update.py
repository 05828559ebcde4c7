"""--update: the new recording replaces the old one, as a whole or not at all, and nothing else changes."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.cassette.reader import Cassette
from mcp_tape.errors import CassetteError
from mcp_tape.verify.update import update
from tests.support.decks import alter, back_to_back
from tests.support.running import is_one_file, python, sessions
from tests.support.verifying import command, exchanges, moody, moody_tape, play, words

BETTER = "import sys, json; from tests.servers.moody import Moody; moody = Moody('good'); moody._in_good_mood = "
BETTER += "lambda number, what: moody._answer(number, content=[{'type': 'text', 'text': what.upper()}])\n"
BETTER += "for line in sys.stdin: moody.hear(json.loads(line))"


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """Three sessions; the last extends the second."""
    path = tmp_path / "tape.db"
    for what in ("one", "two", "three"):
        moody_tape(path, what)
    alter(
        path,
        "UPDATE sessions SET extends = 2 WHERE id = 3",
        "UPDATE sessions SET note = 'mine', run = 'r' WHERE id = 2",
    )
    path.chmod(0o640)
    return path


def said(path: Path, session: int) -> list[str]:
    return [words(answer) for method, _, answer in exchanges(path, session) if method == "tools/call"]


def rows(path: Path, session: int) -> list[Any]:
    with contextlib.closing(sqlite3.connect(path)) as db:
        names = "seq, elapsed, sender, channel, kind, head, eol, redactions, text, data"
        return db.execute(f"SELECT {names} FROM frames WHERE session = ? ORDER BY seq", (session,)).fetchall()


@pytest.mark.slow
def test_the_session_is_replaced_and_the_others_stay_as_they_were(tape: Path, tmp_path: Path) -> None:
    others = [rows(tape, number) for number in (1, 3)]
    done = play(tape, tmp_path / "new", python(BETTER), session="2")
    update(str(tape), [done])
    assert [said(tape, number) for number in (1, 2, 3)] == [["one"], ["TWO"], ["three"]]
    assert [rows(tape, number) for number in (1, 3)] == others
    assert [(s.extends, s.note, s.run) for s in sessions(tape)] == [
        (None, None, None),
        (None, "mine", "r"),
        (2, None, None),
    ]
    assert json.loads(sessions(tape)[1].target) == {"command": python(BETTER)}
    assert is_one_file(tape) and tape.stat().st_mode & 0o777 == 0o640


@pytest.mark.slow
def test_an_updated_session_plays(tape: Path, tmp_path: Path) -> None:
    update(str(tape), [play(tape, tmp_path / "new", python(BETTER), session="2")])
    _, told, player, client = back_to_back(tape, "2")
    assert client.finished and player.deck.misses == 0 and player.unplayed() == []
    assert any(b"TWO" in text for text in told)


@pytest.mark.slow
def test_the_changes_are_shown_and_then_the_recording_is_replaced(tape: Path) -> None:
    code, out, err = command(str(tape), "--session", "1", "--update", "--category", "model", "--", *python(BETTER))
    assert (code, said(tape, 1)) == (0, ["ONE"]), err
    assert "call-text-changed" in out
    assert f"updated: {tape}" in err


@pytest.mark.slow
def test_several_sessions_are_replaced_at_once(tape: Path) -> None:
    code, _, err = command(str(tape), "--session", "all", "--update", "--fail-on", "never", "--", *python(BETTER))
    assert code == 0, err
    assert [said(tape, number) for number in (1, 2, 3)] == [["ONE"], ["TWO"], ["THREE"]]
    assert [session.extends for session in sessions(tape)] == [None, None, 2]


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize(
    ("server", "options", "why"),
    [
        (moody("crash"), (), "the server ended with exit code 3"),
        (moody("stuck"), ("--timeout", "0.5"), "no answer within 0.5 s"),
        (moody("writing"), (), "calls were left out"),
    ],
    ids=["crashed", "hung", "left out"],
)
def test_a_recording_that_is_not_whole_replaces_nothing(
    server: list[str], options: tuple[str, ...], why: str, tape: Path
) -> None:
    before = tape.read_bytes()
    code, _, err = command(str(tape), "--session", "2", "--update", *options, "--", *server)
    assert code == 1
    assert f"{tape} was not changed" in err and why in err
    assert tape.read_bytes() == before
    assert is_one_file(tape)


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize(
    ("options", "environ", "kept"),
    [((), {}, True), (("--no-keep",), {}, False), ((), {"CI": "true"}, False)],
    ids=["kept", "no-keep", "CI"],
)
def test_a_recording_with_changes_is_kept_for_a_review(
    options: tuple[str, ...], environ: dict[str, str], kept: bool, tape: Path
) -> None:
    code, _, err = command(f"{tape}#2", *options, "--", *python(BETTER), **environ)
    new = tape.with_name("tape.db.new")
    assert (code, new.exists()) == (0, kept)
    assert (f"mcp-tape review {tape}" in err) == kept
    assert said(tape, 2) == ["two"]
    if kept:
        assert [said(new, number) for number in (1, 2, 3)] == [["one"], ["TWO"], ["three"]]


@pytest.mark.slow
def test_sessions_of_one_cassette_are_kept_together_however_it_is_named(tape: Path) -> None:
    other = moody_tape(tape.with_name("other.db"))
    again = tape.with_name("again.db")
    again.symlink_to(tape)
    code, _, err = command(f"{tape}#1", f"{other}#1", f"{again}#2", "--", *python(BETTER))
    assert code == 0, err
    assert [said(tape.with_name("tape.db.new"), number) for number in (1, 2, 3)] == [["ONE"], ["TWO"], ["three"]]
    assert not tape.with_name("again.db.new").exists()


@pytest.mark.slow
def test_a_pending_recording_is_removed_if_nothing_has_changed(tape: Path) -> None:
    new = tape.with_name("tape.db.new")
    new.write_bytes(tape.read_bytes())
    code, out, _ = command(f"{tape}#2", "--", *moody())
    assert (code, new.exists()) == (0, False), out


@pytest.mark.slow
def test_a_cassette_in_use_is_not_replaced(tape: Path, tmp_path: Path) -> None:
    done = play(tape, tmp_path / "new", python(BETTER), session="2")
    with contextlib.closing(sqlite3.connect(tape)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("UPDATE sessions SET note = 'busy' WHERE id = 1")
        db.commit()
        db.execute("BEGIN")
        db.execute("SELECT * FROM sessions").fetchone()
        with pytest.raises(CassetteError, match="in use"):
            update(str(tape), [done])
        db.execute("COMMIT")
    with Cassette(tape):
        pass
    assert said(tape, 2) == ["two"] and sessions(tape)[0].note == "busy"


@pytest.mark.slow
def test_a_secret_that_the_new_recording_does_not_hide_is_not_kept(tmp_path: Path) -> None:
    from tests.end_to_end.verify.test_verify import secret_tape

    tape = secret_tape(tmp_path / "tape.db")
    values = {"PASSWORD": "hunter22", "API_KEY": "k-123456789", "PARAMS_ARGUMENTS_BADGE": "1234"}
    environ = {f"MCP_TAPE_SECRET_{name}": value for name, value in values.items()}
    before = tape.read_bytes()
    code, _, err = command(str(tape), "--update", "--allow-writes", "--", *moody(), **environ)
    assert code == 1
    assert "$MCP_TAPE_SECRET_PARAMS_ARGUMENTS_BADGE" in err and "1234" not in err
    assert tape.read_bytes() == before
    again = ("--redact-path", "$.params.arguments.badge")
    code, _, err = command(str(tape), "--update", "--allow-writes", *again, "--", *moody(), **environ)
    assert code == 0, err
    assert not any(value.encode() in tape.read_bytes() for value in values.values())


@pytest.mark.slow
def test_options_for_redaction_and_decoding_reach_the_recorder(tape: Path, tmp_path: Path) -> None:
    secrets = tmp_path / "its.env"
    secrets.write_text("DB_PASSWORD=NOT-A-REAL-ONE-1234\n")
    moody_tape(tape, "not-a-real-one-1234")
    code, _, err = command(str(tape), "--update", "--fail-on", "never", "--session", "4", "--env-file", str(secrets),
                           "--redact-env-from", "parents", "--max-decoded", "1M", "--", *python(BETTER))  # fmt: skip
    assert code == 0, err
    assert said(tape, 4) == ["[redacted:env:DB_PASSWORD]"]
    assert b"NOT-A-REAL-ONE-1234" not in tape.read_bytes()


def test_secrets_that_cannot_be_read_are_refused_before_anything_is_played(tape: Path) -> None:
    before = tape.read_bytes()
    code, _, err = command(str(tape), "--update", "--env-file", "missing.env", "--", *moody())
    assert (code, tape.read_bytes()) == (1, before)
    assert "cannot read the secrets to hide from missing.env" in err
