"""The deck in the client's role: the order of messages, skipped ones, and answers to requests."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.cassette.reader import Cassette
from mcp_tape.compare.checks.server_requests import is_same_request
from mcp_tape.replay.selection import select
from mcp_tape.verify.client_deck import ClientDeck
from mcp_tape.verify.plan import VerifyOptions, plan_sessions
from mcp_tape.verify.recorded_client import RecordedClient
from tests.support.decks import Said, alter, make_cassette
from tests.support.messages import request, result, tell

PATIENCE = 1.0


class Played:
    """A deck, and the messages that it sends."""

    def __init__(self, cassette: Cassette, **options: Any) -> None:
        selection = select(cassette, "latest")
        self.deck = ClientDeck(selection, selection.sessions[0], **options)

    def at(self, now: float, *texts: str) -> list[Any]:
        """The ids or methods of messages sent after these have arrived."""
        for text in texts:
            self.deck.receive(text.encode(), "stdio", now)
        sent = [json.loads(send.text) for send in self.deck.due(now)]
        return [name(body) for body in sent]

    def awaiting(self) -> list[str | None]:
        return [row.rpc_id for row in self.deck.awaited_requests()]


def name(body: Any) -> Any:
    if isinstance(body, list):
        return [name(part) for part in body]
    return body["id"] if "id" in body else body["method"]


@contextlib.contextmanager
def playing(path: Path, conversation: Sequence[Any], *changes: str, **options: Any) -> Iterator[Played]:
    tape = make_cassette(path / f"{len(list(path.iterdir()))}.db", conversation)
    alter(tape, *changes)
    with Cassette(tape) as cassette:
        yield Played(cassette, **options)


HELLO: list[Said] = [("client", request(0, "a")), ("server", result(0, "a"))]


def test_a_request_waits_for_the_answers_recorded_before_it(tmp_path: Path) -> None:
    conversation: list[Said] = [
        ("client", request(1, "a")), ("client", request(2, "b")), ("server", result(2, "b")), ("client", tell("c")),
        ("server", result(1, "a")), ("client", request(3, "d")), ("server", result(3, "d")),
    ]  # fmt: skip
    with playing(tmp_path, conversation) as played:
        assert played.at(0) == [1, 2]
        assert played.at(0, result(1, "a")) == []
        assert played.awaiting() == ["2"]
        assert played.at(0, result(2, "b")) == ["c", 3]
        assert not played.deck.is_complete
        assert played.at(0, result(3, "d")) == []
        assert played.deck.finished and played.deck.is_complete and played.awaiting() == []


def test_requests_that_were_given_up_are_not_waited_for(tmp_path: Path) -> None:
    with playing(tmp_path, [*HELLO, ("client", request(1, "b")), ("server", result(1, "b"))]) as played:
        assert played.at(0) == [0]
        assert played.deck.overdue_requests(4.9, 5) == []
        overdue = played.deck.overdue_requests(5, 5)
        assert [row.rpc_id for row in overdue] == ["0"]
        played.deck.give_up(overdue)
        assert played.awaiting() == [] and played.at(5) == [1]


def test_an_answer_to_another_request_renews_the_patience(tmp_path: Path) -> None:
    both: list[Said] = [("client", request(1, "a")), ("client", request(2, "b"))]
    with playing(tmp_path, [*both, ("server", result(1, "a")), ("server", result(2, "b"))]) as played:
        played.at(0)
        played.at(4, result(1, "a"))
        assert played.deck.overdue_requests(6, 5) == []
        assert [row.rpc_id for row in played.deck.overdue_requests(9, 5)] == ["2"]


@pytest.mark.parametrize(
    "between",
    [
        [("client", tell("notifications/cancelled", requestId=1)), ("server", result(1, "too late"))],
        [],
    ],
    ids=["cancelled", "never answered"],
)
def test_cancelled_and_unanswered_requests_hold_up_nothing(between: list[Said], tmp_path: Path) -> None:
    conversation = [("client", request(1, "slow")), *between, ("client", request(2, "b")), ("server", result(2, "b"))]
    with playing(tmp_path, conversation) as played:
        assert played.at(0)[-1] == 2
        assert played.awaiting() == ["2"]


def test_a_listen_stays_open_and_holds_up_nothing(tmp_path: Path) -> None:
    listen: list[Said] = [("client", request("l", "subscriptions/listen")), ("server", result("l", "ended"))]
    with playing(tmp_path, [*listen, ("client", request(2, "b")), ("server", result(2, "b"))]) as played:
        assert played.at(0) == ["l", 2]
        assert played.awaiting() == ["2"]


def test_a_request_that_the_client_had_to_make_again_is_made_once(tmp_path: Path) -> None:
    again: list[Said] = [("client", request(1, "b")), ("server", result(1, "b"))]
    forget = (
        "UPDATE derived SET key = NULL, status = 'retry' WHERE rpc_id = '0' AND cue IS NULL"  # as the recorder does
    )
    with playing(tmp_path, [*HELLO, *again], forget) as played:
        assert played.at(0) == [1]


def test_a_message_waits_a_moment_for_unsolicited_server_messages(tmp_path: Path) -> None:
    changed = tell("notifications/tools/list_changed")
    conversation = [*HELLO, ("server", changed), ("client", request(1, "tools/list")), ("server", result(1, []))]
    with playing(tmp_path, conversation, patience=PATIENCE) as played:
        played.at(0)
        assert played.at(1, result(0, "a")) == []
        assert played.deck.next_at() == 1 + PATIENCE
        assert played.at(1.5, changed) == [1]
    with playing(tmp_path, conversation, patience=PATIENCE) as played:
        played.at(0)
        assert played.at(1, result(0, "a")) == []
        assert played.at(1 + PATIENCE) == [1]


def test_messages_before_an_answer_are_not_waited_for_after_it(tmp_path: Path) -> None:
    progress = tell("notifications/progress", progressToken=0, progress=1)
    conversation = [("client", request(0, "a")), ("server", progress), ("server", result(0, "a"))]
    with playing(tmp_path, [*conversation, ("client", request(1, "b"))], patience=PATIENCE) as played:
        played.at(0)
        assert played.at(0, result(0, "a")) == [1]


def test_a_task_is_not_polled_faster_than_recorded(tmp_path: Path) -> None:
    conversation = [
        ("client", request(1, "tools/call"), 0), ("server", result(1, "t"), 1_000_000),
        ("client", request(2, "tasks/get"), 3_000_000), ("server", result(2, "done"), 3_000_001),
    ]  # fmt: skip
    with playing(tmp_path, conversation, patience=PATIENCE) as played:
        played.at(0)
        assert played.at(10, result(1, "t")) == []
        assert played.deck.next_at() == 12
        assert played.at(12) == [2]


def test_the_servers_questions_get_the_recorded_answers_the_same_question_first(tmp_path: Path) -> None:
    conversation = [
        ("client", request(1, "a")),
        ("server", request(10, "roots/list", of="x")), ("client", result(10, "x")),
        ("server", request(11, "roots/list", of="y")), ("client", result(11, "y")),
        ("server", result(1, "a")),
    ]  # fmt: skip
    with playing(tmp_path, conversation) as played:
        played.at(0)
        played.deck.receive(request("q", "roots/list", of="y").encode(), "stdio", 0)
        played.deck.receive(request("r", "roots/list", of="new").encode(), "stdio", 0)
        played.deck.receive(request("s", "roots/list", of="x").encode(), "stdio", 0)
        answers = [json.loads(send.text) for send in played.deck.due(0)]
    assert sorted((a["id"], a.get("result", a.get("error"))) for a in answers) == [
        ("q", {"value": "y"}),
        ("r", {"value": "x"}),
        ("s", {"code": -32601, "message": "the tape has no answer to this"}),
    ]


def elicit(rpc_id: Any, message: str) -> str:
    return request(rpc_id, "elicitation/create", message=message)


def answered(played: Played, *questions: str) -> dict[Any, Any]:
    """The answer to each question, by its id; None: an error that there is no answer."""
    for question in questions:
        played.deck.receive(question.encode(), "stdio", 0)
    answers = [json.loads(send.text) for send in played.deck.due(0)]
    return {answer["id"]: answer["result"]["value"] if "result" in answer else None for answer in answers}


TWO_CALLS: list[Said] = [
    ("client", request(1, "x", of="a")), ("client", request(2, "x", of="b")),
    ("server", elicit(10, "Delete a? (6f1c1f0e9a5b)")), ("client", result(10, "yes")),
    ("server", elicit(11, "Delete b? (0a0a0a0a9a5b)")), ("client", result(11, "no")),
    ("server", result(1)), ("server", result(2)),
]  # fmt: skip


def test_the_same_question_may_contain_values_made_up_by_the_server(tmp_path: Path) -> None:
    with playing(tmp_path, TWO_CALLS, same=is_same_request) as played:
        played.at(0)
        asked = elicit("q", "Delete b? (b4c1d2e3aaaa)"), elicit("r", "Delete a? (11112222bbbb)")
        assert answered(played, *asked) == {"q": "no", "r": "yes"}


def test_a_different_elicitation_gets_no_recorded_answer(tmp_path: Path) -> None:
    with playing(tmp_path, TWO_CALLS, same=is_same_request) as played:
        played.at(0)
        assert answered(played, elicit("q", "Delete everything?")) == {"q": None}
        assert answered(played, elicit("r", "Delete a? (11112222bbbb)")) == {"r": "yes"}


def sample(rpc_id: Any, text: str) -> str:
    return request(rpc_id, "sampling/createMessage", text=text, maxTokens=5)


def test_sampling_gets_the_answer_to_the_most_similar_question_of_an_open_call(tmp_path: Path) -> None:
    conversation: list[Said] = [
        *HELLO, ("client", request(1, "x")),
        ("server", sample(10, "sum up the first page")), ("client", result(10, "one")),
        ("server", sample(11, "sum up the second page")), ("client", result(11, "two")),
        ("server", result(1)), ("client", request(2, "y")),
        ("server", sample(12, "sum up the third page")), ("client", result(12, "three")), ("server", result(2)),
    ]  # fmt: skip
    with playing(tmp_path, conversation) as played:
        played.at(0)
        played.at(0, result(0, "a"))
        asked = [
            sample(name, f"sum up the {page} leaf") for name, page in (("q", "second"), ("r", "third"), ("s", "x"))
        ]
        assert answered(played, *asked) == {"q": "two", "r": "one", "s": None}


def test_a_question_may_contain_values_put_into_the_call(tmp_path: Path) -> None:
    conversation = [
        ("client", request(1, "x", of=17)), ("server", elicit(10, "Delete 17?")), ("client", result(10, "yes")),
        ("server", result(1)),
    ]  # fmt: skip
    with playing(tmp_path, conversation, prepare=lambda row, text: text.replace(b"17", b"40")) as played:
        played.at(0)
        assert answered(played, elicit("q", "Delete 23?"), elicit("r", "Delete 40?")) == {"q": None, "r": "yes"}


def test_a_session_that_extends_another_uses_the_live_values_of_that_one(tmp_path: Path) -> None:
    first = [("client", request(1, "make")), ("server", result(1, {"id": "id-12"}))]
    second = [("client", request(1, "get", id="id-12", uri="job://id-12/log")), ("server", result(1))]
    tape = make_cassette(tmp_path / "tape.db", first, second)
    alter(tape, "UPDATE sessions SET extends = 1 WHERE id = 2")
    base, more = plan_sessions(str(tape), VerifyOptions())
    with Cassette(tape) as cassette:
        deck = RecordedClient(cassette, base, VerifyOptions(), {}).deck
        deck.due(0)
        deck.receive(result(1, {"id": "id-34"}).encode(), "stdio", 0)
        (sent,) = RecordedClient(cassette, more, VerifyOptions(), {}).deck.due(0)
        assert json.loads(sent.text)["params"] == {"id": "id-34", "uri": "job://id-34/log"}
        (alone,) = RecordedClient(
            cassette, plan_sessions(f"{tape}", VerifyOptions("2"))[0], VerifyOptions(), {}
        ).deck.due(0)
        assert json.loads(alone.text)["params"] == {"id": "id-12", "uri": "job://id-12/log"}


def test_answers_go_out_in_recorded_order_unless_that_takes_too_long(tmp_path: Path) -> None:
    conversation = [
        ("client", request(1, "a")), ("server", request(10, "x")), ("server", request(11, "y")),
        ("client", result(11, "y")), ("client", result(10, "x")), ("server", result(1, "a")),
    ]  # fmt: skip
    with playing(tmp_path, conversation, patience=PATIENCE) as played:
        played.at(0)
        assert played.at(0, request(10, "x")) == []
        assert played.at(0.5, request(11, "y")) == [11, 10]
    with playing(tmp_path, conversation, patience=PATIENCE) as played:
        played.at(0)
        assert played.at(0, request(10, "x")) == []
        assert played.at(PATIENCE) == [10]


def test_skipped_parts_of_a_batch_are_not_waited_for(tmp_path: Path) -> None:
    batch = f"[{request(1, 'a')}, {request(2, 'b')},{request(3, 'c')}]"
    answers = f"[{result(1, 'a')},{result(2, 'b')},{result(3, 'c')}]"
    conversation: list[Said] = [("client", batch), ("server", answers), ("client", request(4, "d"))]
    leave_out: Any = {"prepare": lambda row, text: None if row.rpc_id == "2" else text.replace(b'"c"', b'"C"')}
    with playing(tmp_path, conversation, **leave_out) as played:
        (send,) = played.deck.due(0)
        assert send.text == f"[{request(1, 'a')},{request(3, 'C')}]\n".encode()
        assert played.awaiting() == ["1", "3"]
        assert played.at(0, result(1, "a"), result(3, "c")) == [4]


def test_a_batch_of_which_nothing_is_left_is_not_sent(tmp_path: Path) -> None:
    conversation: list[Said] = [("client", f"[{request(1, 'a')}]"), ("server", f"[{result(1, 'a')}]")]
    with playing(tmp_path, [*conversation, ("client", tell("b"))], prepare=_only_b) as played:
        assert played.at(0) == ["b"]


def _only_b(row: Any, text: bytes) -> bytes | None:
    return text if row.method == "b" else None


def test_an_id_that_is_in_flight_is_not_used_twice(tmp_path: Path) -> None:
    """Over HTTP, clients of the modern era share a session, and each counts from 1."""
    conversation: list[Said] = [
        ("client", request(1, "subscriptions/listen")), ("client", request(1, "a")), ("server", result(1, "a")),
        ("client", request(2, "b")),
    ]  # fmt: skip
    with playing(tmp_path, conversation) as played:
        assert played.at(0) == [1, "mcp-tape-0"]
        assert played.awaiting() == ["1"]
        assert played.at(0, result("mcp-tape-0", "a")) == [2]


def test_an_inserted_request_is_answered_before_the_tape_goes_on(tmp_path: Path) -> None:
    def hear(row: Any, message: Any) -> None:
        if row.rpc_id == "0":
            played.deck.insert(request("more", "a").encode(), row._replace(rpc_id='"more"'))

    with playing(tmp_path, [*HELLO, ("client", request(1, "b"))], hear=hear) as played:
        assert played.at(0) == [0]
        assert played.at(0, result(0, "a")) == ["more"]
        assert played.awaiting() == ['"more"']
        assert played.at(0, result("more", "a")) == [1]


def test_lines_end_as_they_did_and_noise_is_noise(tmp_path: Path) -> None:
    conversation: list[Said] = [*HELLO, ("client", tell("b") + "\r")]
    with playing(tmp_path, conversation, noise=[(4, b"not JSON\n")]) as played:
        sent = [send.text for send in played.deck.due(0)]
        assert sent == [request(0, "a").encode() + b"\n"]
        played.deck.receive(result(0, "a").encode(), "stdio", 0)
        assert [send.text for send in played.deck.due(0)] == [tell("b").encode() + b"\r\n", b"not JSON\n"]
