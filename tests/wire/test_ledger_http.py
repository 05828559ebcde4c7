"""Facts of HTTP: the request of each answer, and messages that are never played."""

from __future__ import annotations

import gzip
import json
from functools import partial
from pathlib import Path

import pytest

from mcp_tape.cassette.lookup.controls import Controls
from mcp_tape.cassette.reader import Cassette
from mcp_tape.redaction.redactor import Redactor
from mcp_tape.wire import ledger
from mcp_tape.wire.frames import Side
from mcp_tape.wire.framing import Events
from mcp_tape.wire.ledger import Ledger
from tests.support.decks import Player, alter
from tests.support.http_facts import EVENTS, Http, Kept, Talk, cassette
from tests.support.messages import call, error, progress, request, result, tell, values

# Pairing -----------------------------------------------------------------------------------------------


def two_clients(http: Http) -> None:
    http.post("post-1", call(1, "a"))
    http.post("post-2", call(1, "b"))


@pytest.mark.parametrize("first", ["post-1", "post-2"])
@pytest.mark.parametrize("as_events", [False, True])
def test_requests_with_the_same_id_are_distinguished_by_their_channels(first: str, as_events: bool) -> None:
    def answers(http: Http) -> None:
        for channel in sorted(["post-1", "post-2"], key=lambda name: name != first):
            text = result(1, channel)
            if as_events:
                http.respond(channel)
                http.event(channel, text)
                http.end("server", channel)
            else:
                http.answer(channel, text)

    kept = Kept(two_clients, answers)
    assert kept.answered(result(1, "post-1")) == kept.seq(call(1, "a"))
    assert kept.answered(result(1, "post-2")) == kept.seq(call(1, "b"))
    assert (kept.tape.ledger.exchanges, kept.tape.ledger.open_exchanges) == (2, 0)


def test_the_requests_of_a_channel_are_found_without_a_look_at_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy's archive may have thousands of requests that began at once."""
    looks, number = 0, 300

    class Exchange(ledger._Exchange):
        def __getattribute__(self, name: str) -> object:
            nonlocal looks
            looks += 1
            return super().__getattribute__(name)

    monkeypatch.setattr(ledger, "_Exchange", Exchange)

    def talk(http: Http) -> None:
        for each in range(number):
            http.post(f"post-{each}", call(each, "a"))
        for each in range(number):
            http.answer(f"post-{each}", result(each, "b"))

    kept = Kept(talk)
    assert (kept.tape.ledger.exchanges, kept.tape.ledger.open_exchanges) == (number, 0)
    assert looks < 50 * number


def test_a_second_answer_on_a_stream_answers_no_other_request() -> None:
    def twice(http: Http) -> None:
        http.respond("post-2")
        http.event("post-2", result(1, "b"))
        http.event("post-2", result(1, "again"))

    kept = Kept(two_clients, twice, lambda http: http.answer("post-1", result(1, "a")))
    assert kept.answered(result(1, "again")) is None
    assert kept.answered(result(1, "a")) == kept.seq(call(1, "a"))


def test_progress_belongs_to_the_call_of_its_channel_that_asked_for_it() -> None:
    def talk(http: Http) -> None:
        http.post("post-1", call(1, "a", token=1))
        http.post("post-2", call(1, "b", token=1))
        http.respond("post-1")
        http.event("post-1", progress(1, 5))
        http.event("post-1", tell("notifications/message", data="x"))

    kept = Kept(talk)
    for text in (progress(1, 5), tell("notifications/message", data="x")):
        assert kept.entry(text).exchange == kept.entry(text).cue == kept.seq(call(1, "a", token=1))


def old_session(http: Http) -> None:
    """HTTP+SSE: a POST is accepted, and answered on the stream."""
    http.open("get-1", "/sse")
    http.respond("get-1")
    http.feed("server", "get-1", b"event: endpoint\r\ndata: /messages?sessionId=1\r\n\r\n")
    for number, text in enumerate((call(1, "a", token=7), call(2, "b")), 1):
        http.post(f"post-{number}", text, "/messages?sessionId=1")
        http.answer(f"post-{number}", "Accepted", 202)


@pytest.mark.parametrize("status", [200, 202])
def test_answers_on_the_stream_of_http_sse_find_their_requests(status: int) -> None:
    def answers(http: Http) -> None:
        http.post("post-3", call(3, "c"), "/messages?sessionId=1")
        http.answer("post-3", "ok", status)
        http.event("get-1", result(2))
        http.event("get-1", progress(7, 1))
        http.event("get-1", tell("notifications/message", data="x"))
        http.event("get-1", result(1))
        http.event("get-1", result(3))

    kept = Kept(old_session, answers)
    assert kept.answered(result(2)) == kept.seq(call(2, "b"))
    assert kept.answered(result(1)) == kept.seq(call(1, "a", token=7))
    assert kept.answered(result(3)) == kept.seq(call(3, "c"))
    assert kept.entry(progress(7, 1)).exchange == kept.seq(call(1, "a", token=7))
    # As on stdio: it belongs to the newest open request.
    assert kept.entry(tell("notifications/message", data="x")).exchange == kept.seq(call(3, "c"))
    assert all(not entries for frame, entries in kept.rows if frame.text in (b"Accepted", b"ok"))


def test_a_post_of_http_sse_may_be_refused_all_the_same() -> None:
    def refused(http: Http) -> None:
        http.post("post-3", call(3), "/messages?sessionId=1")
        http.answer("post-3", "no such session", 404)

    kept = Kept(old_session, refused)
    entry = kept.entry("no such session")
    assert (entry.answers, entry.message.status) == (kept.seq(call(3)), "refused")


def test_messages_on_a_resumed_stream_belong_to_its_first_request() -> None:
    def talk(http: Http) -> None:
        http.post("post-1", call(1, "a"))
        http.respond("post-1")
        http.event("post-1", "", "e1")
        http.end("server", "post-1")
        http.post("post-2", call(1, "b"))  # the same id, newer
        http.open("get-1", last_event_id="e1")
        http.respond("get-1")
        http.event("get-1", tell("notifications/message", data="x"), "e2")
        http.end("server", "get-1")
        http.open("get-2", last_event_id="e2")  # resumed again
        http.respond("get-2")
        http.event("get-2", result(1, "a"), "e3")
        http.answer("post-2", result(1, "b"))

    kept = Kept(talk)
    assert kept.entry(tell("notifications/message", data="x")).exchange == kept.seq(call(1, "a"))
    assert kept.answered(result(1, "a")) == kept.seq(call(1, "a"))
    assert kept.answered(result(1, "b")) == kept.seq(call(1, "b"))


def test_a_stream_that_the_client_lost_and_resumed_goes_on() -> None:
    def talk(http: Http) -> None:
        http.post("post-1", call(1, "a"))
        http.respond("post-1")
        http.event("post-1", "", "e1")
        http.abort("client", "post-1")
        http.open("get-1", last_event_id="e1")
        http.respond("get-1")
        http.event("get-1", request(1, "roots/list"), "e2")
        http.post("post-2", result(1, "root"))
        http.event("get-1", result(1, "a"), "e3")

    kept = Kept(talk)
    assert kept.entry(request(1, "roots/list")).exchange == kept.seq(call(1, "a"))
    assert kept.entry(result(1, "a")).cue == kept.seq(result(1, "root"))


def test_a_question_on_the_get_stream_belongs_to_the_open_call_and_news_to_none() -> None:
    def talk(http: Http) -> None:
        http.open("get-1")
        http.respond("get-1")
        http.post("post-1", request("l", "subscriptions/listen"))
        http.post("post-2", call(2))
        http.event("get-1", tell("notifications/tools/list_changed"))
        http.event("get-1", request(0, "sampling/createMessage"))
        http.post("post-3", result(0, "said"))
        http.answer("post-3", "", 202)
        http.answer("post-2", result(2))

    kept = Kept(talk)
    asked, answer = kept.entry(request(0, "sampling/createMessage")), kept.entry(result(0, "said"))
    assert asked.exchange == answer.exchange == asked.cue == kept.seq(call(2))
    assert answer.answers == kept.seq(request(0, "sampling/createMessage"))
    assert kept.entry(result(2)).cue == kept.seq(result(0, "said"))
    news = kept.entry(tell("notifications/tools/list_changed"))
    assert (news.exchange, news.cue) == (None, kept.seq(call(2)))


def test_a_cancel_posted_on_a_channel_of_its_own_finds_its_call() -> None:
    def talk(http: Http) -> None:
        http.post("post-1", call(1))
        http.post("post-2", tell("notifications/cancelled", requestId=1))

    kept = Kept(talk)
    assert kept.entry(tell("notifications/cancelled", requestId=1)).exchange == kept.seq(call(1))


BATCH = f"[{call(1, 'a')},{call(2, 'b')}]"


def test_a_batch_is_answered_by_a_batch_or_by_events() -> None:
    def as_batch(http: Http) -> None:
        http.post("post-1", BATCH)
        http.answer("post-1", f"[{result(2)},{result(1)}]")

    def as_events(http: Http) -> None:
        http.post("post-2", BATCH)
        http.respond("post-2")
        http.event("post-2", result(2))
        http.event("post-2", result(1))

    kept = Kept(as_batch, as_events)
    first, second = [frame.seq for frame, _ in kept.rows if frame.text == BATCH.encode()]
    told = [(e.message.rpc_id, e.answers) for frame, entries in kept.rows for e in entries if frame.sender == "server"]
    assert told == [("2", first + 1), ("1", first), ("2", second + 1), ("1", second)]  # each its own request
    assert kept.tape.ledger.open_exchanges == 0


# Refusals and retries -------------------------------------------------------------------------------------

REFUSAL = '{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}'


@pytest.mark.parametrize("body", [REFUSAL, "go away", "", '{"error":"invalid"}'])
@pytest.mark.parametrize("asked", [call(1), f"[{call(1)},{call(2)}]"])
def test_a_body_that_answers_none_of_the_requests_refuses_them_all(body: str, asked: str) -> None:
    kept = Kept(lambda http: http.post("post-1", asked), lambda http: http.answer("post-1", body, 400))
    ((_, requests),) = [row for row in kept.rows if row[0].seq == kept.seq(asked)]
    ((_, refusals),) = [row for row in kept.rows if row[0].seq == kept.seq(body)]
    assert [(entry.answers, entry.message.status) for entry in refusals] == [
        (kept.seq(asked) + part, "refused") for part in range(len(requests))
    ]
    assert kept.tape.ledger.open_exchanges == 0


def test_an_error_with_the_requests_id_is_an_answer_with_any_status() -> None:
    body = '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}'
    kept = Kept(lambda http: http.post("post-1", call(1)), lambda http: http.answer("post-1", body, 404))
    assert (kept.answered(body), kept.entry(body).message.status) == (kept.seq(call(1)), "error")


@pytest.mark.parametrize("status", [200, 202, 400])
@pytest.mark.parametrize("body", ["", "Accepted", REFUSAL])
def test_the_response_to_a_notification_is_never_played(status: int, body: str) -> None:
    told = tell("notifications/initialized")
    kept = Kept(lambda http: http.post("post-1", told), lambda http: http.answer("post-1", body, status))
    played = [e for frame, entries in kept.rows if frame.sender == "server" for e in entries if e.cue is not None]
    assert played == []


RETRIED = [301, 307, 401, 404, 429, 503]


@pytest.mark.parametrize("status", RETRIED)
def test_a_request_that_was_to_be_made_again_plays_once(tmp_path: Path, status: int) -> None:
    def talk(http: Http) -> None:
        http.post("post-1", call(1), mcp_session_id="ended")
        http.answer("post-1", REFUSAL, status)
        http.post("post-2", call(1), mcp_session_id="new")
        http.answer("post-2", result(1))

    kept = Kept(talk)
    assert (kept.tape.ledger.open_exchanges, kept.tape.ledger.exchanges) == (0, 1)
    player = Player(cassette(tmp_path / "tape.db", talk))
    assert player.unplayed() == [kept.seq(result(1)) - 2]
    assert values(player.say(call(5))) == ["ok"]
    assert error(player.say(call(6)))["code"] == -32010


def test_a_request_that_never_reached_the_server_is_not_on_the_tape_to_be_played(tmp_path: Path) -> None:
    def talk(http: Http) -> None:
        http.post("post-1", call(1))
        http.control("server", "post-1", event="failed", why="no route")

    player = Player(cassette(tmp_path / "tape.db", talk))
    assert player.unplayed() == []
    assert error(player.say(call(1)))["code"] == -32010


# Disconnects and incomplete messages ----------------------------------------------------------------------


def left(http: Http) -> None:
    http.post("post-1", call(1, "slow"))
    http.respond("post-1")
    http.abort("client", "post-1")


def test_a_call_that_the_client_left_is_silent_and_takes_nothing_more(tmp_path: Path) -> None:
    def later(http: Http) -> None:
        http.open("get-1")
        http.respond("get-1")
        http.event("get-1", request(0, "roots/list"))

    kept = Kept(left, later)
    assert kept.entry(request(0, "roots/list")).exchange is None
    assert Player(cassette(tmp_path / "tape.db", left)).say(call(9, "slow")) == []


@pytest.mark.parametrize("modern", [True, False])
def test_leaving_is_a_cancel_in_the_modern_era_only(modern: bool, tmp_path: Path) -> None:
    asked = json.loads(call(1, "slow"))
    asked["params"] |= {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}} if modern else {}

    def talk(http: Http) -> None:
        http.post("post-1", request(0, "initialize"))
        http.answer("post-1", result(0))
        http.post("post-2", json.dumps(asked))
        http.abort("client", "post-2")

    told = Player(cassette(tmp_path / "tape.db", talk)).say(json.dumps(asked))
    assert [json.loads(text)["error"]["code"] for text in told] == ([] if modern else [-32010])


def test_a_call_that_the_server_broke_off_says_so(tmp_path: Path) -> None:
    def talk(http: Http) -> None:
        http.post("post-1", call(1))
        http.respond("post-1")
        http.abort("server", "post-1")

    refused = error(Player(cassette(tmp_path / "tape.db", talk)).say(call(1)))
    assert "closed the connection before it answered" in refused["message"]


def begun(content: str, data: bytes) -> Talk:
    def talk(http: Http) -> None:
        http.post("post-1", call(1))
        http.respond("post-1", 200, content)
        http.feed("server", "post-1", data)

    return talk


CUT = [(EVENTS, b"id: 1\nda"), (EVENTS, b"data: {}"), (EVENTS, b": pi"), ("application/json", b'{"jsonrpc":')]


@pytest.mark.parametrize("side", ["server", "client"])
@pytest.mark.parametrize(("content", "data"), CUT)
def test_a_truncated_message_is_kept_in_its_place_without_effect(content: str, data: bytes, side: Side) -> None:
    kept = Kept(begun(content, data), lambda http: http.abort(side, "post-1"), lambda http: http.post("post-2", "{}"))
    (seq,) = [frame.seq for frame, _ in kept.rows if frame.sender == "server" and frame.kind == "noise"]
    fragment, entries = kept.rows[seq - 1]
    assert (fragment.head or b"") + fragment.text in (data, data.replace(b"data: ", b""))
    assert entries == []
    assert json.loads(kept.rows[seq][0].text) == {"event": "abort"}


def test_a_whole_answer_counts_even_if_the_client_left_before_the_end() -> None:
    kept = Kept(
        begun(EVENTS, f"data: {result(1)}\n\n".encode()),
        lambda http: http.abort("client", "post-1"),
    )
    assert kept.answered(result(1)) == kept.seq(call(1))


def test_a_request_that_was_cut_off_says_nothing() -> None:
    def talk(http: Http) -> None:
        http.open("post-1")
        http.feed("client", "post-1", call(1).encode()[:-1])
        http.abort("client", "post-1")

    kept = Kept(talk)
    assert kept.texts("noise") == [call(1).encode()[:-1]]
    assert kept.tape.ledger.open_exchanges == 0


def test_an_event_that_the_stream_ended_within_is_no_message() -> None:
    whole = begun(EVENTS, f"data: {result(1)}\n".encode())
    kept = Kept(whole, lambda http: http.end("server", "post-1"))
    assert kept.rows[kept.seq(result(1)) - 1][1] == []
    assert kept.tape.ledger.open_exchanges == 1


def test_an_endpoint_that_the_stream_ended_within_is_none() -> None:
    def talk(http: Http) -> None:
        http.open("get-1", "/sse")
        http.respond("get-1")
        http.feed("server", "get-1", b"event: endpoint\ndata: /mess")
        http.end("server", "get-1")

    events = [json.loads(text).get("event") for text in Kept(talk).texts("control")]
    assert events == ["request", "response", "close"]


TALKS = [
    two_clients,
    old_session,
    left,
    begun(EVENTS, b"data: {"),
    begun("application/json", b'{"jsonrpc":'),
]


@pytest.mark.parametrize("talk", TALKS, ids=range(len(TALKS)))
@pytest.mark.parametrize("end", ["answer", "abort"])
def test_entries_derived_from_frames_alone_are_the_same(talk: Talk, end: str) -> None:
    def ends(http: Http) -> None:
        if end == "answer":
            http.answer("post-1", REFUSAL, 400)
        else:
            http.abort("server", "post-1")

    kept, ledger = Kept(talk, ends), Ledger()
    for frame, entries in kept.rows:
        assert ledger.derive(frame) == entries


# Bodies on the tape ---------------------------------------------------------------------------------------

SECRET = "ghp_" + "aB3dE6gH9j" * 4


@pytest.mark.parametrize(
    "data",
    [
        f"data: {SECRET}\n\n",
        f": {SECRET}\n\n",
        f"x-note: {SECRET}\ndata: {{}}\n\n",
        f"event: endpoint\ndata: /messages?token={SECRET}\n\n",
    ],
)
def test_no_secret_in_an_event_stream_is_kept(data: str) -> None:
    kept = Kept(begun(EVENTS, data.encode()), redactor=Redactor({}))
    assert not [frame for frame, _ in kept.rows if SECRET.encode() in frame.text + (frame.head or b"")]


def test_no_secret_behind_a_cut_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_tape.record.tape.Events", partial(Events, limit=40))
    kept = Kept(
        begun(EVENTS, b'data: {"text":"' + b"x" * 40),
        lambda http: http.feed("server", "post-1", f'{SECRET}"}}\n\n'.encode()),
        redactor=Redactor({}),
    )
    assert kept.tape.incomplete is not None
    assert not [frame for frame, _ in kept.rows if SECRET.encode() in frame.text + (frame.head or b"")]


def test_headers_are_redacted_except_values_that_the_protocol_needs() -> None:
    def talk(http: Http) -> None:
        http.open("post-1", f"/mcp?api_key={SECRET}", authorization="Bearer 0123456789", mcp_session_id="s" * 40)

    (control,) = Kept(talk, redactor=Redactor({})).texts("control")
    facts = json.loads(control)
    assert facts["headers"] == {"authorization": "[redacted:key:authorization]", "mcp-session-id": "s" * 40}
    assert SECRET not in facts["path"]


def test_a_compressed_body_is_stored_plain_and_an_unreadable_one_unchanged() -> None:
    def talk(coding: str, data: bytes) -> Talk:
        def answer(http: Http) -> None:
            http.post("post-1", call(1))
            http.respond("post-1", 200, "application/json", content_encoding=coding)
            http.feed("server", "post-1", data)
            http.end("server", "post-1")

        return answer

    kept = Kept(talk("gzip", gzip.compress(result(1).encode())))
    assert kept.answered(result(1)) == kept.seq(call(1))
    assert kept.tape.incomplete is None
    kept = Kept(talk("br", b"\1\2\3"))
    assert b"\1\2\3" in [frame.text for frame, _ in kept.rows]
    assert kept.tape.incomplete == "a body was compressed in a way that cannot be read"


# Control events -------------------------------------------------------------------------------------------


def modern_talk(http: Http) -> None:
    http.post("post-1", request(0, "initialize"))
    http.answer("post-1", result(0), mcp_session_id="abc")
    http.open("get-1")
    http.answer("get-1", "", 405)
    http.post("post-2", call(1))
    http.answer("post-2", REFUSAL, 422)
    http.open("get-2", last_event_id="e7")
    http.respond("get-2")


def test_controls_have_the_recorded_facts(tmp_path: Path) -> None:
    with Cassette(cassette(tmp_path / "tape.db", modern_talk, left)) as tape:
        controls = Controls(tape)
        rows = {(frame.channel, frame.sender, frame.text): frame.seq for frame in tape.frames(1)}
        refusal = rows["post-2", "server", REFUSAL.encode()]
        assert controls.response(1, "post-2", refusal)[0] == 422
        assert controls.response(1, "post-2", 1) == (200, "")
        assert controls.session_id(1) == "abc"
        assert controls.stream_status(1) == 405
        assert (controls.resumed_event(1, "get-1"), controls.resumed_event(1, "get-2")) == (None, "e7")
        assert not controls.was_left(1, "post-2", 1)
        assert controls.was_left(1, "post-1", rows["post-1", "client", call(1, "slow").encode()])
        assert not controls.is_shared(1)


@pytest.mark.parametrize("transport", ["stdio", "sse"])
def test_all_of_the_server_came_on_one_stream_unless_it_was_streamable_http(tmp_path: Path, transport: str) -> None:
    with Cassette(cassette(tmp_path / "tape.db", old_session, transport=transport)) as tape:
        assert Controls(tape).is_shared(1)


@pytest.mark.parametrize("text", ["{}", "[]", "no JSON", '{"event":"response","status":"no","headers":5}', "[" * 3000])
def test_controls_of_a_stranger_tell_nothing(tmp_path: Path, text: str) -> None:
    path = cassette(tmp_path / "tape.db", modern_talk)
    alter(path, f"UPDATE facts SET text = '{text}' WHERE kind = 'control'")
    with Cassette(path) as tape:
        controls = Controls(tape)
        assert (controls.session_id(1), controls.stream_status(1), controls.resumed_event(1, "get-2")) == (
            None,
            None,
            None,
        )
        assert controls.response(1, "post-2", 99) == (200, "")
        assert not controls.was_left(1, "post-2", 0)
        ledger = Ledger()
        assert not any(ledger.derive(frame) for frame in tape.frames(1) if frame.kind == "control")
