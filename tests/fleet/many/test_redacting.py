"""redact_one: hides the secrets of one cassette, and returns a result."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from mcp_tape import Cassette, check_one, redact_one
from mcp_tape.fleet.shards import content_hash
from tests.support.decks import make_cassette
from tests.support.many import SECRET, damaged


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    return make_cassette(tmp_path / "secret.db", [("client", SECRET)])


def test_values_to_hide_are_counted_and_the_file_stays(secret: Path) -> None:
    before = secret.read_bytes()
    result = redact_one(secret, dry_run=True)
    assert result.counts == {"values": 1, "frames": 1} and result.details["hidden"] == {"key:password": 1}
    assert result.status == "passed" and result.details["dry_run"] is True
    assert secret.read_bytes() == before


def test_secrets_are_hidden_once(secret: Path) -> None:
    before = content_hash(str(secret))
    first, second = redact_one(secret), redact_one(secret)
    assert [finding.what for finding in first.findings] == ["key:password"] and not second.findings
    assert first.hash == before != second.hash == content_hash(str(secret))
    assert check_one(secret).status == "passed"
    assert pickle.loads(pickle.dumps(first)) == first


def hushed(text: str) -> str:
    return text.replace("quiet", "[hidden]")


def test_a_function_of_ones_own_hides_more(tmp_path: Path) -> None:
    said = '{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"be quiet"}}'
    tape = make_cassette(tmp_path / "tape.db", [("client", said)])
    assert redact_one(tape, dry_run=True).counts["values"] == 0
    assert redact_one(tape, redactions=[hushed]).counts["frames"] == 1
    with Cassette(tape) as cassette:
        assert b"be [hidden]" in next(cassette.frames(1)).text


def test_an_unreadable_cassette_is_a_result_and_stays(tmp_path: Path) -> None:
    path = damaged(tmp_path / "damaged.db")
    before = path.read_bytes()
    result = redact_one(path)
    assert (result.status, result.code, path.read_bytes()) == ("unreadable", 3, before)
