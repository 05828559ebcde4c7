"""Clients that lose a stream and resume after an event of it, at any place; and streams that end in other ways."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_tape.replay.sends import Send
from mcp_tape.transports.http import streams
from tests.support.decks import Player, Said, make_cassette
from tests.support.http import Client, Message, ask
from tests.support.http_facts import Http, Talk, cassette
from tests.support.http_running import Running, replaying
from tests.support.messages import call, progress, request, result, tell
from tests.support.running import until

INITIALIZE = request(0, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "c"})
INITIALIZED = tell("notifications/initialized")


def note(number: int) -> str:
    return tell("notifications/message", level="info", data=number)


def eventful(http: Http) -> None:
    """A call whose stream has five events with ids, and a stream of the server's own."""
    http.post("post-1", INITIALIZE)
    http.answer("post-1", result(0), mcp_session_id="S")
    http.post("post-2", INITIALIZED, mcp_session_id="S")
    http.answer("post-2", "", 202)
    http.open("get-1", mcp_session_id="S")
    http.respond("get-1")
    http.post("post-3", call(1, "many"), mcp_session_id="S")
    http.respond("post-3")
    for number in range(4):
        http.event("post-3", note(number), f"e{number}")
    http.event("post-3", result(1, "done"), "e4")
    http.end("server", "post-3")
    for number in (4, 5):
        http.post(f"post-{number}", call(number, "tell"), mcp_session_id="S")
        http.event("get-1", note(10 + number), f"g{number}")
        http.respond(f"post-{number}")
        http.event(f"post-{number}", result(number, "told"), f"t{number}")
        http.end("server", f"post-{number}")


def begin(url: str) -> dict[str, str]:
    """A new session; returns the header that names it."""
    own = {"mcp_session_id": ask(url, INITIALIZE.encode()).header("mcp-session-id") or ""}
    ask(url, INITIALIZED.encode(), **own)
    return own


def ids(data: bytes) -> list[str]:
    return re.findall(r"^id: (\S+)$", data.decode(), re.M)


def resumed(url: str, event: str, own: dict[str, str]) -> Message:
    return ask(url, verb="GET", last_event_id=event, **own)


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    tape = cassette(tmp_path_factory.mktemp("resume") / "tape.db", eventful)
    with replaying(tape) as running:
        yield running


@pytest.mark.parametrize("seen", range(1, 6))
def test_a_client_goes_on_behind_any_event_of_a_call(seen: int, replay: Running) -> None:
    own = begin(replay.url)
    with Client(replay.url) as client:
        client.ask(call(7, "many").encode(), **own)
        client.answer_head()
        got = b"".join(client.chunk() for _ in range(seen))
    rest = resumed(replay.url, ids(got)[-1], own)
    assert (rest.status, rest.header("content-type")) == (200, "text/event-stream")
    assert ids(got + rest.body) == ["e0", "e1", "e2", "e3", "e4"]
    assert (b'"id":7' in rest.body.replace(b" ", b"")) == (seen < 5)


def test_a_client_goes_on_again_and_again(replay: Running) -> None:
    own = begin(replay.url)
    ask(replay.url, call(7, "many").encode(), **own)
    assert ids(resumed(replay.url, "e2", own).body) == ["e3", "e4"]
    assert ids(resumed(replay.url, "e0", own).body) == ["e1", "e2", "e3", "e4"]
    assert ids(resumed(replay.url, "e4", own).body) == []


def test_a_client_goes_on_with_unsolicited_messages(replay: Running) -> None:
    own = begin(replay.url)
    with Client(replay.url) as listener:
        listener.ask(verb="GET", **own)
        listener.answer_head()
        assert ask(replay.url, call(4, "tell").encode(), **own).status == 200
        assert ids(listener.chunk()) == ["g4"]
    ask(replay.url, call(5, "tell").encode(), **own)
    with Client(replay.url) as listener:
        listener.ask(verb="GET", last_event_id="g4", **own)
        listener.answer_head()
        assert ids(listener.chunk()) == ["g5"]


def test_behind_an_answer_there_is_nothing(replay: Running) -> None:
    own = begin(replay.url)
    assert ids(ask(replay.url, call(4, "tell").encode(), **own).body) == ["t4"]
    rest = resumed(replay.url, "t4", own)
    assert (rest.status, rest.body) == (200, b"")


@pytest.mark.parametrize("event", ["e0", "never", "é"])
def test_an_event_that_was_never_sent_is_refused_and_reported(event: str, replay: Running) -> None:
    refused = resumed(replay.url, event, begin(replay.url))
    assert refused.status == 400
    assert "Last-Event-ID" in refused.document["error"]["message"]
    until(lambda: "which was never sent" in replay.said, "the note")


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("fault", ["disconnect", "reset"])
def test_a_client_that_was_cut_off_gets_its_answer_when_it_comes_back(fault: str, tmp_path: Path) -> None:
    tape = cassette(tmp_path / "tape.db", eventful)
    with replaying(tape, "--fault", f"tools/call={fault}") as replay:
        own = begin(replay.url)
        with Client(replay.url) as client:
            client.ask(call(7, "many").encode(), **own)
            client.answer_head()
            assert ids(client.chunk()) == ["e0"]
            client.how_it_ends()
        assert ids(resumed(replay.url, "e0", own).body) == ["e1", "e2", "e3", "e4"]


def test_only_the_last_events_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(streams, "_MOST_BYTES", 25)
    kept, player = streams.SentEvents(), Player(cassette(tmp_path / "tape.db", eventful))
    row = player.selection.cued_messages(1, player.selection.requests("tools/call")[0].seq)[0]
    for number in range(4):
        kept.add("post-1", Send(b"x" * 10, "post-1", recorded=row._replace(head=b"id: %d\n" % number)), ("1",))
    assert kept.events_after("1") is None
    found = kept.events_after("2")
    assert found is not None and len(found.sends) == 1
    kept.add("post-1", Send(b"x" * 30, "post-1", recorded=row._replace(head=b"id: 4\n")), ("1",))
    assert kept.events_after("3") is None and kept.events_after("4") is not None  # the last one, however large


# Other ends ------------------------------------------------------------------------------------------------


HELLO: list[Said] = [("client", INITIALIZE), ("server", result(0)), ("client", INITIALIZED)]


def test_messages_between_the_answers_to_a_batch_are_not_lost(tmp_path: Path) -> None:
    batch = f"[{call(1, 'a')},{call(2, 'b')}]"
    sampling, sampled = request("s", "sampling/createMessage"), result("s")
    said: list[Said] = [
        ("client", batch),
        ("server", result(1)),
        ("server", sampling),
        ("client", sampled),
        ("server", result(2)),
    ]
    tape = make_cassette(tmp_path / "tape.db", [*HELLO, *said])
    with replaying(tape) as replay, Client(replay.url) as client:
        own = begin(replay.url)
        client.ask(batch.encode(), **own)
        client.answer_head()
        heard = [client.chunk(), client.chunk()]
        assert ask(replay.url, sampled.encode(), **own).status == 202
        heard += iter(client.chunk, b"")
    texts = [json.loads(chunk.partition(b"data: ")[2]) for chunk in heard]
    assert [text["id"] for text in texts] == [1, "s", 2]


def test_messages_after_an_answer_go_to_the_stream_for_all_others(tmp_path: Path) -> None:
    taken_back = tell("notifications/cancelled", requestId="s")
    said: list[Said] = [("server", text) for text in (request("s", "sampling/createMessage"), result(1), taken_back)]
    tape = make_cassette(tmp_path / "tape.db", [*HELLO, ("client", call(1)), *said])
    with replaying(tape) as replay, Client(replay.url) as listener:
        own = begin(replay.url)
        listener.ask(verb="GET", **own)
        listener.answer_head()
        assert b"sampling" in ask(replay.url, call(1).encode(), **own).body
        assert taken_back.encode() in listener.chunk()


@pytest.mark.parametrize("speed", ["0", "0.001"])  # at once, or 10 ms later
def test_messages_after_the_answer_on_a_calls_own_stream_come_there_again(speed: str, tmp_path: Path) -> None:
    def talk(http: Http) -> None:
        eventful(http)
        http.post("post-6", call(6, "asks"), mcp_session_id="S")
        http.respond("post-6")
        said = (request("s", "sampling/createMessage"), result(6), tell("notifications/cancelled", requestId="s"))
        for number, text in enumerate(said):
            http.event("post-6", text, f"a{number}")

    with (
        replaying(cassette(tmp_path / "tape.db", talk), speed=speed) as replay,
        Client(replay.url) as listener,
    ):
        own = begin(replay.url)
        listener.ask(verb="GET", **own)
        listener.answer_head()
        assert ids(ask(replay.url, call(6, "asks").encode(), **own).body) == ["a0", "a1", "a2"]


def test_without_a_stream_for_all_else_it_comes_behind_the_answer(tmp_path: Path) -> None:
    said: list[Said] = [("client", call(1, "a", token="t")), ("server", result(1)), ("server", progress("t", 2))]
    with replaying(make_cassette(tmp_path / "tape.db", [*HELLO, *said])) as replay:
        heard = ask(replay.url, call(7, "a", token="u").encode(), **begin(replay.url)).body.decode()
    assert re.findall(r"^data: (.*)$", heard, re.M) == [result(7), progress("u", 2)]


def test_a_waiting_call_gets_an_error_when_its_session_ends(tmp_path: Path) -> None:
    cancelled = tell("notifications/cancelled", requestId=1)
    tape = make_cassette(tmp_path / "tape.db", [*HELLO, ("client", call(1)), ("client", cancelled)])
    with replaying(tape) as replay, Client(replay.url) as client:
        own = begin(replay.url)
        client.ask(call(7).encode(), **own)
        ask(replay.url, tell("notifications/cancelled", requestId=7).encode(), **own)  # now on the server
        assert ask(replay.url, verb="DELETE", **own).status == 200
        told = client.answer()
    assert (told.status, told.document["id"], told.document["error"]["code"]) == (404, 7, -32001)


# Messages after the answer ---------------------------------------------------------------------------------


def _plain_calls(http: Http) -> None:
    """Two calls with nothing but an answer, one of them as an event, and a stream of the server's own."""
    http.post("post-1", INITIALIZE)
    http.answer("post-1", result(0), mcp_session_id="S")
    http.open("get-1", mcp_session_id="S")
    http.respond("get-1")
    http.post("post-2", call(1, "a", token="a"), mcp_session_id="S")
    http.answer("post-2", result(1, "a"))
    http.post("post-3", call(2, "b", token="b"), mcp_session_id="S")
    http.respond("post-3")
    http.event("post-3", result(2, "b"), "e1")
    http.end("server", "post-3")


def _told(http: Http, channel: str, text: str) -> None:
    http.post(channel, text, mcp_session_id="S")
    http.answer(channel, "", 202)


def late_progress(http: Http) -> None:
    _plain_calls(http)
    _told(http, "post-4", _ROOTS)
    http.event("get-1", progress("a", 1), "g1")
    http.event("get-1", progress("b", 1), "g2")


def late_cancels(http: Http) -> None:
    _plain_calls(http)
    for number in (2, 1):
        _told(http, f"post-{6 - number}", tell("notifications/cancelled", requestId=number))
        http.event("get-1", tell("notifications/message", data=f"of {number}"), f"g{number}")
        http.event("get-1", result(number, "once more"))


def behind_the_answer(http: Http) -> None:
    _plain_calls(http)
    http.open("get-2", mcp_session_id="S", last_event_id="e1")
    http.respond("get-2")
    _told(http, "post-4", _ROOTS)
    http.event("get-2", progress("b", 1), "e2")


_ROOTS = tell("notifications/roots/list_changed")
_CANCELS = [tell("notifications/cancelled", requestId=number) for number in (31, 30)]


@pytest.mark.parametrize(
    ("talk", "texts", "expected"),
    [
        (late_progress, [_ROOTS], ['"progressToken": "x"', '"progressToken": "y"']),
        (late_cancels, _CANCELS, ["of 2", '"id": 31', "of 1", '"id": 30']),
        (behind_the_answer, [_ROOTS], ["id: e2", '"progressToken": "y"']),
    ],
)
def test_later_messages_name_the_call_by_the_clients_id(
    talk: Talk, texts: list[str], expected: list[str], tmp_path: Path
) -> None:
    with replaying(cassette(tmp_path / "tape.db", talk)) as replay, Client(replay.url) as listener:
        own = begin(replay.url)
        for text in (call(30, "a", token="x"), call(31, "b", token="y"), *texts):
            assert ask(replay.url, text.encode(), **own).status in (200, 202)
        listener.ask(verb="GET", **own, **({"last_event_id": "e1"} if talk is behind_the_answer else {}))
        listener.answer_head()
        got = ""
        while not all(text in got for text in expected):
            got += listener.chunk().decode()
    places = [got.find(text) for text in expected]
    assert places == sorted(places)
