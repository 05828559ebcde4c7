"""The calls of a session: requests with their answers, and the messages that belong to them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.cassette.query import recorded_requests
from mcp_tape.cassette.reader import Cassette
from mcp_tape.errors import CassetteError
from tests.support.decks import Said, alter, make_cassette
from tests.support.http_facts import Http
from tests.support.http_facts import cassette as over_http
from tests.support.messages import call, progress, request, result, tell

SAMPLE = "sampling/createMessage"


def conversation() -> Iterator[Said]:
    yield "client", request(1, "initialize")
    yield "server", result(1)
    yield "client", call(2, "add", token="t")
    yield "server", progress("t", 1)
    yield "server", request(1, SAMPLE)
    yield "client", result(1)
    yield "server", json.dumps({"jsonrpc": "2.0", "id": 2, "error": {"code": 1, "message": "no"}})
    yield "server", tell("notifications/tools/list_changed")
    yield "server", result(7)
    yield "client", call(3, "slow")
    yield "client", tell("notifications/cancelled", requestId=3)
    yield "client", "no JSON"


@pytest.fixture
def cassette(tmp_path: Path) -> Iterator[Cassette]:
    with Cassette(make_cassette(tmp_path / "tape.db", conversation(), conversation())) as opened:
        yield opened


def test_requests_come_with_their_answers(cassette: Cassette) -> None:
    found = list(recorded_requests.requests(cassette, 1))
    assert [asked.title for asked in found] == ["initialize", "tools/call add", "tools/call slow"]
    assert [asked.status for asked in found] == ["ok", "error", None]
    assert [asked.microseconds for asked in found] == [1000, 4000, None]
    texts = [recorded_requests.message_text(cassette, asked.frame, asked.part) for asked in found]
    assert [json.loads(text)["id"] for text in texts] == [1, 2, 3]


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("together", [False, True])
def test_requests_are_read_in_order_however_many(tmp_path: Path, together: bool) -> None:
    number = 2_500
    asked = [call(n) for n in range(number)]
    lines = [f"[{','.join(asked)}]"] if together else asked
    with Cassette(make_cassette(tmp_path / "tape.db", [("client", line) for line in lines])) as cassette:
        found = list(recorded_requests.requests(cassette, 1))
    places = [recorded_requests.place_of(one) for one in found]
    assert len(places) == number
    assert places == sorted(set(places))


def test_rows_of_other_types_are_refused(tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "tape.db", conversation())
    alter(tape, "UPDATE derived SET name = x'00' WHERE name = 'add'")
    with Cassette(tape) as cassette, pytest.raises(CassetteError, match="a row of its table messages"):
        list(recorded_requests.requests(cassette, 1))


def test_the_server_s_own_messages_are_found(cassette: Cassette) -> None:
    (asked,) = [one for one in recorded_requests.requests(cassette, 1) if one.name == "add"]
    (question,) = recorded_requests.questions(cassette, 1)
    assert (question.method, question.exchange) == (SAMPLE, asked.seq)
    assert (asked.seq, SAMPLE, 1) in recorded_requests.server_methods(cassette, 1, "request")
    assert recorded_requests.notifications_during(cassette, asked) == ["notifications/progress"]
    assert len(recorded_requests.server_message_seqs(cassette, 1, "notifications/tools/list_changed")) == 1
    assert recorded_requests.unasked_answers(cassette, 1) == 1


def test_abandoned_requests_are_found(cassette: Cassette) -> None:
    (slow,) = [one for one in recorded_requests.requests(cassette, 1) if one.name == "slow"]
    assert recorded_requests.cancelled_requests(cassette, 1) == {(1, slow.seq)}


@pytest.mark.parametrize(
    ("only", "statuses"),
    [
        ({}, {"ok", "error"}),
        ({"session": 2}, {"ok", "error"}),
        ({"session": 9}, set()),
        ({"method": "initialize"}, {"ok"}),
        ({"session": 1, "method": "tools/call"}, {"error"}),
    ],
)
def test_statuses_are_those_of_a_session_or_a_method(
    cassette: Cassette, only: dict[str, Any], statuses: set[str]
) -> None:
    assert recorded_requests.answer_statuses(cassette, **only) == statuses


def test_lines_that_are_no_messages_keep_their_ends(cassette: Cassette) -> None:
    assert [text for _, text in recorded_requests.client_noise(cassette, 1)] == [b"no JSON\n"]


def test_a_frame_is_redacted_if_something_was_hidden_in_it(tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "tape.db", conversation())
    alter(tape, "UPDATE facts SET redactions = 1 WHERE id & 4294967295 = 1")
    with Cassette(tape) as cassette:
        (first, *others) = recorded_requests.requests(cassette, 1)
        assert list(recorded_requests.redacted_texts(cassette, 1)) == [first.frame]
        assert recorded_requests.is_redacted(cassette, first.frame)
        assert not any(recorded_requests.is_redacted(cassette, one.frame) for one in others)


def test_a_request_over_http_has_a_head(tmp_path: Path) -> None:
    def talk(http: Http) -> None:
        http.post("post-1", call(1), mcp_param_city="Bern")
        http.answer("post-1", result(1))

    with Cassette(over_http(tmp_path / "tape.db", talk)) as cassette:
        (asked,) = recorded_requests.requests(cassette, 1)
        head = json.loads(recorded_requests.request_head(cassette, 1, "post-1", asked.seq))
        assert head["headers"]["mcp-param-city"] == "Bern"
        assert recorded_requests.request_head(cassette, 1, "post-2", asked.seq) is None
