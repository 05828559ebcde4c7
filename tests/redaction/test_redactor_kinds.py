"""Hundreds of secrets and innocents by kind: every secret is hidden, and no innocent is changed."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from mcp_tape.redaction.redactor import Redactor
from tests.end_to_end.record.test_secrets_corpus import traces
from tests.support import fuzzing
from tests.support.decks import Player, alter, make_cassette
from tests.support.made_secrets import Case, innocents, secrets
from tests.support.messages import call, result


def hidden(case: Case) -> str:
    """The stored form of a message, a line of stderr or a command line."""
    redactor = Redactor({})
    if case.is_command:
        return "\n".join(redactor.arguments(case.text.split("\n")))
    channel = "stdio" if case.text.startswith("{") else "stderr"
    return redactor.redact(case.text.encode(), channel).text.decode()


def is_kept(case: Case) -> bool:
    text = hidden(case).encode()
    return any(trace in text for trace in traces(case.secret))


def test_there_are_as_many_of_both_as_the_docs_say() -> None:
    page = (Path(__file__).parents[2] / "docs" / "redaction.md").read_text("utf-8")
    assert f"{len(secrets(Random(0)))} secrets" in page
    assert f"{len(innocents(Random(0)))} look-alikes" in page


@pytest.mark.slow
def test_every_secret_is_hidden() -> None:
    for case in fuzzing.cases(2):
        assert [secret for secret in secrets(case) if is_kept(secret)] == []


@pytest.mark.slow
def test_every_innocent_stays() -> None:
    for case in fuzzing.cases(2):
        assert [innocent for innocent in innocents(case) if hidden(innocent) != innocent.text] == []


def test_a_key_of_putty_is_hidden_line_by_line() -> None:
    redactor = Redactor({})
    lines = [
        "PuTTY-User-Key-File-3: ssh-ed25519",
        "Private-Lines: 2",
        "AAAAIEr1" * 8,
        "AAAAIEr2+w==",
        "Private-MAC: 0f",
        "done",
    ]
    kept = [redactor.redact(line.encode(), "stderr").text.decode() for line in lines]
    assert kept == [*lines[:2], *["[redacted:shape:private-key]"] * 3, "done"]


@pytest.mark.parametrize("flag", ["--api_key", "--API_KEY", "-password", "--db_pass"])
def test_options_in_a_list_of_a_message_name_secrets_however_they_are_spelled(flag: str) -> None:
    text = json.dumps({"jsonrpc": "2.0", "method": "x", "params": {"args": ["run", flag, "sunshine", "now"]}})
    kept = json.loads(Redactor({}).redact(text.encode()).text)["params"]["args"]
    assert kept == ["run", flag, f"[redacted:key:{flag.lstrip('-')}]", "now"]


def test_an_empty_string_before_a_call_is_no_value() -> None:
    code = 'code_verifier = "".join(choice(letters + "-._~1") for _ in range(128))'
    assert Redactor({}).text(code) == code
    assert Redactor({}).text('token = """kJ8mN2pQ4"""') == 'token = """[redacted:key:token]"""'


def test_types_are_no_table() -> None:
    line = "current_token: Ed25519Key | None | AccessToken2 = None"
    assert Redactor({}).text(line) == line
    rows = " name | password \n------+----------\n ada  | kJ8mN2pQ4\n"
    assert Redactor({}).text(rows) == rows.replace("kJ8mN2pQ4", "[redacted:key:password]")


@pytest.mark.parametrize("key", ["openai_key", "DPoP"])
def test_a_request_under_a_name_that_is_no_part_of_match_keys_still_matches(tmp_path: Path, key: str) -> None:
    recorded, live = (call(1, "ask", **{key: value}, text="hello") for value in (f"[redacted:key:{key}]", "V4711-etc"))
    path = make_cassette(tmp_path / "tape.db", [("client", recorded), ("server", result(1))])
    alter(path, "UPDATE facts SET redactions = 1 WHERE id & 4294967295 = 1")
    player = Player(path)
    assert player.say(live) == [result(1)]


@pytest.mark.parametrize("text", ["|" + "-" * 200_000 + "x|", "password | " * 50_000, "| " * 100_000 + "token"])
@pytest.mark.slow
def test_odd_tables_take_linear_time(text: str) -> None:
    assert Redactor({}).text(f"password\n{text}") == f"password\n{text}"


def test_numbered_tokens_of_a_text_are_words() -> None:
    text = json.dumps({"token1": "hello", "token_2": "world", "password2": "sunshine"})
    assert Redactor({}).redact(text.encode()).text.decode() == text.replace("sunshine", "[redacted:key:password2]")
