"""mcp-tape redact: secrets hidden after recording, in every byte of the file."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.cassette.change.hide_secrets import hide
from mcp_tape.cassette.reader import Cassette
from mcp_tape.redaction.redactor import Redactor
from tests.support.decks import alter
from tests.support.derived import rebuild_cassette
from tests.support.reading import Frames, Recording, call, invoke, make, message, said
from tests.support.running import ECHO, MCP_TAPE, frames, record, run
from tests.support.texts import table

PASSWORD, TOKEN = "hunter2-hunter2", "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"


def talk() -> Frames:
    """The password appears before it is known to be one."""
    talked = Frames().stderr(f"starting with {PASSWORD} in mind")
    talked.client(call(1, "login", user="Zoë", password=PASSWORD, big=123456789012345678901234567890))
    talked.server(said(1, f"hello, your token is {TOKEN}"))
    talked.client(message(id=2, method="resources/read", params={"uri": f"https://x.example/?token={TOKEN}"}))
    talked.server(message(id=2, error={"code": -1, "message": "no"}))
    talked.client(b"[" + message(id=3, method="ping") + b"," + call(4, "again", api_key=TOKEN) + b"]", kind="batch")
    talked.server(said(4, "x"), channel="post-1")
    talked[-1] = talked[-1]._replace(head=b": " + TOKEN.encode() + b"\n")
    return talked.client(call(5, "plain", text="nothing to hide"))


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    target = {"command": ["server", "--api-key", TOKEN, "--verbose"]}
    return make(tmp_path / "tape.db", talk(), talk(), note=f"uses {TOKEN}", target=target)


def redact(tape: Path, *words: str) -> dict[str, Any]:
    result = invoke("redact", tape, *words, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_no_byte_of_the_file_or_its_journals_holds_a_hidden_value(tape: Path) -> None:
    assert PASSWORD.encode() in tape.read_bytes() and TOKEN.encode() in tape.read_bytes()
    redact(tape)
    assert os.listdir(tape.parent) == ["tape.db"]
    for secret in (PASSWORD, TOKEN, PASSWORD[:10], TOKEN[:20]):
        assert secret.encode() not in tape.read_bytes()


@pytest.mark.slow
def test_it_is_hidden_as_recording_hides_it(tmp_path: Path) -> None:
    said = b"\n".join(frame.text for frame in talk() if frame.sender == "client") + b"\n"
    run(record(tmp_path / "then.db", ECHO), said)
    run(record(tmp_path / "later.db", ECHO, "--no-redact"), said)
    redact(tmp_path / "later.db")

    def kept(name: str) -> Counter[tuple[object, ...]]:
        return Counter((f.sender, f.kind, f.text, f.redactions) for f in frames(tmp_path / name))

    def derived(name: str) -> Counter[tuple[object, ...]]:
        with Cassette(tmp_path / name) as cassette:
            return Counter(cassette.rows("SELECT sender, kind, method, rpc_id, name, status, key FROM messages"))

    assert sum(frame.redactions for frame in frames(tmp_path / "later.db")) == 6
    assert kept("later.db") == kept("then.db")
    assert derived("later.db") == derived("then.db")


def test_all_other_data_stays(tape: Path) -> None:
    before = [[frame._replace(head=None) for frame in frames(tape, session)] for session in (1, 2)]
    redact(tape)
    for session, old in enumerate(before, 1):
        new = frames(tape, session)
        assert new[7] == old[7]
        assert b'"big": 123456789012345678901234567890' in new[1].text and "Zoë".encode() in new[1].text
        for one, other in zip(old, new, strict=True):
            assert other._replace(text=one.text, redactions=0, head=None) == one


def test_hidden_values_are_counted_by_kind(tape: Path) -> None:
    told = redact(tape)
    assert told["hidden"] == {
        "key:password": 4, "shape:github": 4, "key:token": 4, "key:api-key": 2, "key:api_key": 2,
    }  # fmt: skip
    assert told["frames"] == 12
    again = redact(tape)
    assert (again["hidden"], again["frames"], again["findings"]) == ({}, 0, [])


def test_people_see_the_same_counts(tape: Path) -> None:
    result = invoke("redact", tape)
    assert "      4  [redacted:key:password]\n" in result.stdout
    assert result.stderr == f"mcp-tape: 16 values hidden in {tape}, in 12 frames\n"
    assert invoke("redact", tape).stderr == f"mcp-tape: nothing to hide in {tape}\n"


def test_the_derived_rows_and_the_session_are_those_of_the_new_texts(tape: Path) -> None:
    redact(tape)
    assert invoke("check", tape).exit_code == 0
    with Cassette(tape) as cassette:
        session = cassette.session(1)
        assert session.note == "uses [redacted:shape:github]"
        assert json.loads(session.target) == {"command": ["server", "--api-key", "[redacted:key:api-key]", "--verbose"]}
        names = [name for (name,) in cassette.rows("SELECT name FROM messages WHERE method = 'resources/read'")]
    assert names == ["https://x.example/?token=[redacted:key:token]"] * 2


@pytest.mark.parametrize(
    "path",
    ["$.params._meta", "$.result.isError", "$.result.serverInfo.name", "$.params.clientInfo", "$.params.requestId"],
)
def test_derived_values_follow_the_new_text(tmp_path: Path, path: str) -> None:
    names = {"client_name": "the client", "server_name": "the server"}
    tape = make(tmp_path / "tape.db", told_in_places(), **names)
    redact(tape, "--redact-path", path)
    assert invoke("check", tape).exit_code == 0
    rebuilt = shutil.copy(tape, tmp_path / "rebuilt.db")
    rebuild_cassette(str(rebuilt))
    assert table(tape, "messages") == table(rebuilt, "messages")
    (side,) = [side for side in ("client", "server") if f"{side}Info" in path] or ["neither"]
    assert f"the {side}".encode() not in tape.read_bytes()


def told_in_places() -> Frames:
    """Texts that decide the place of a message and the facts of a session."""
    talked = Frames().client(message(id=0, method="initialize", params={"clientInfo": {"name": "the client"}}))
    talked.server(message(id=0, result={"serverInfo": {"name": "the server"}}))
    for number in (1, 2):
        params = {"name": "slow", "_meta": {"progressToken": f"t{number}"}}
        talked.client(message(id=number, method="tools/call", params=params))
    talked.server(message(method="notifications/progress", params={"progressToken": "t1", "progress": 1}))
    talked.server(said(1, "done", isError=True))
    return talked.client(message(method="notifications/cancelled", params={"requestId": 2}))


def test_keys_of_an_older_version_are_not_mixed_with_ours(tape: Path) -> None:
    alter(tape, "UPDATE sessions SET key_version = 0", "UPDATE derived SET key = x'00' WHERE key IS NOT NULL")
    redact(tape)
    assert invoke("check", tape).exit_code == 0
    assert not [row for row in table(tape, "messages") if b"\0" in row]


def test_a_key_no_longer_tells_the_secret_and_requests_still_match(tape: Path) -> None:
    before = {row[4]: row for row in table(tape, "messages", session=1)}
    redact(tape)
    with Cassette(tape) as cassette:
        keys = dict(cassette.rows("SELECT seq, key FROM messages WHERE session = 1 AND key IS NOT NULL"))
    assert keys[9] in before[9]  # nothing was hidden there
    assert keys[2] in before[2]  # values under secret keys are not part of a key
    assert keys[4] not in before[4]
    asked = b"".join(frame.text + b"\n" for frame in talk()[1:4:2])
    done = run([*MCP_TAPE, "replay", str(tape), "--session", "1", "-q"], asked)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 2), done.stderr


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["--redact-key", "user"], "key:user"),
        (["--redact-path", "$.params.arguments.big"], "path:$.params.arguments.big"),
        (["--redact-value", "nothing to"], "value"),
        (["--redact-with", "tests.cassette.change.test_hide_secrets:shout"], "failed"),
    ],
)
def test_own_rules_hide_more(tape: Path, words: list[str], kind: str) -> None:
    assert redact(tape, *words)["hidden"][kind] >= 2


def shout(text: str) -> str:
    if "nothing to hide" in text:
        raise RuntimeError("a rule that breaks")
    return text


def test_it_fails_closed(tape: Path) -> None:
    redact(tape, "--redact-with", "tests.cassette.change.test_hide_secrets:shout")
    assert b"nothing to hide" not in tape.read_bytes()
    with Cassette(tape) as cassette:
        assert cassette.session(1).incomplete == "a frame could not be redacted and was left out"
    assert frames(tape, 1)[7].kind == "noise"


def test_a_dry_run_changes_nothing(tape: Path) -> None:
    before = tape.read_bytes()
    told = redact(tape, "--dry-run")
    assert told["dry_run"] is True and told["hidden"]["key:password"] == 4
    assert tape.read_bytes() == before
    assert os.listdir(tape.parent) == ["tape.db"]
    assert "16 values would be hidden" in invoke("redact", tape, "--dry-run").stderr


def test_with_nothing_to_hide_the_file_stays_unchanged(tmp_path: Path) -> None:
    tape = make(tmp_path / "tape.db", Frames().client(call(1, "plain")))
    before = os.stat(tape).st_ino, tape.read_bytes()
    assert redact(tape)["hidden"] == {}
    assert (os.stat(tape).st_ino, tape.read_bytes()) == before


def test_a_failure_leaves_the_cassette_whole(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tape.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = invoke("redact", tape)
    assert result.exit_code == 3
    assert "was not changed: No space left on device" in result.stderr
    assert tape.read_bytes() == before
    assert os.listdir(tape.parent) == ["tape.db"]


def test_a_link_stays_one_and_the_mode_is_kept(tape: Path) -> None:
    os.chmod(tape, 0o640)
    link = tape.parent / "link.db"
    link.symlink_to(tape)
    redact(link)
    assert link.is_symlink() and PASSWORD.encode() not in tape.read_bytes()
    assert os.stat(tape).st_mode & 0o777 == 0o640


def test_data_deleted_earlier_is_gone_too(tape: Path) -> None:
    shutil.copy(tape, tape.parent / "copy.db")
    alter(tape, "PRAGMA secure_delete = OFF", "DELETE FROM facts WHERE id = (1 << 32) + 9")
    hide(str(tape), Redactor({}))
    assert tape.read_bytes().count(b"nothing to hide") == 1


def test_secrets_in_the_journal_of_a_killed_recorder_are_hidden_too(tape: Path) -> None:
    place = tape.parent / "left"
    place.mkdir()
    recording = Recording(tape)
    recording.write(talk())
    try:
        for ending in ("", "-wal"):
            shutil.copy(f"{tape}{ending}", place / f"left.db{ending}")
    finally:
        recording.end()
    left = place / "left.db"
    assert PASSWORD.encode() in Path(f"{left}-wal").read_bytes()
    assert redact(left)["hidden"]["key:password"] == 6
    assert os.listdir(place) == ["left.db"]
    assert PASSWORD.encode() not in left.read_bytes()


def test_leftovers_of_a_killed_command_are_removed_by_the_next(tape: Path) -> None:
    left = tape.with_name(f".{tape.name}.0123abcd.part")
    left.mkdir()
    for ending in ("", "-journal"):
        shutil.copy(tape, left / f"{tape.name}{ending}")
    redact(tape)
    assert os.listdir(tape.parent) == ["tape.db"]


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("number", [300, 3000])
def test_however_many_secrets_there_are_each_is_hidden_everywhere(tmp_path: Path, number: int) -> None:
    secrets = [f"Zq7-Secret-{n:05}" for n in range(number)]
    talked = Frames().stderr(" ".join(secrets))
    for n, secret in enumerate(secrets):
        talked.client(call(n, "login", password=secret)).server(said(n, f"hello {secrets[n - 1]}"))
    tape = make(tmp_path / "tape.db", talked)
    redact(tape)
    assert b"Zq7-Secret" not in tape.read_bytes()
    assert invoke("check", tape).exit_code == 0


def test_a_private_key_that_was_cut_off_hides_nothing_of_other_sessions_or_before_it(tmp_path: Path) -> None:
    first = (
        Frames().stderr("hello from the start").stderr("-----BEGIN PRIVATE KEY-----").stderr("MIIEvQIBADANBgkqhkiG9w0B")
    )
    second = Frames().stderr("session two begins").stderr("ok")
    tape = make(tmp_path / "tape.db", first, second)
    redact(tape)
    texts = [[frame.text for frame in frames(tape, session)] for session in (1, 2)]
    hidden = b"[redacted:shape:private-key]"
    assert texts == [[b"hello from the start", hidden, hidden], [b"session two begins", b"ok"]]


def test_bytes_that_are_not_utf8_stay_beside_hidden_values() -> None:
    redacted = Redactor({}, values=["C-[0-9]+"]).redact(b'{"a":"caf\xe9 C-17","b":"\\udce9 C-18"}')
    assert redacted.text == b'{"a":"caf\xe9 [redacted:value]","b":"\\udce9 [redacted:value]"}'
