"""Limits of a listening mcp-tape: bodies that are too large, heads that never end; and bugs of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_tape.options import REPLAY, OptionValues, words_for
from mcp_tape.wire.frames import Side
from tests.end_to_end.http.test_resume import INITIALIZE, begin, eventful, note
from tests.support.decks import Said, make_cassette
from tests.support.http import LAST, Client, Message, Upstream, Wire, answer, ask, chunk
from tests.support.http_facts import cassette
from tests.support.http_running import Running, listening, recording, replaying, result
from tests.support.messages import call
from tests.support.running import python

LARGE = b" " * 3_000_000
HEAD = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    tape = cassette(tmp_path_factory.mktemp("strict") / "tape.db", eventful)
    with replaying(tape, "--max-body", "1k") as running:
        yield running


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """With a short head timeout, but enough for a head on a busy machine."""
    tape = cassette(tmp_path_factory.mktemp("hasty") / "tape.db", eventful)
    with replaying(tape, "--head-timeout", "1") as running:
        yield running


@pytest.mark.parametrize("to", ["/mcp", "/messages?sessionId=S"])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large_is_refused(to: str, chunked: bool, strict: Running) -> None:
    with Client(strict.url) as client:
        if chunked:
            client.send(f"POST {to} HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
            client.send(chunk(LARGE) * 2 + LAST)
        else:
            client.ask(LARGE, to=to)
        told = client.answer()
    assert told.status == 413
    assert "larger than 1.0k; see --max-body" in told.document["error"]["message"]


def test_a_client_that_asks_first_need_not_send_a_body_that_is_too_large(strict: Running) -> None:
    with Client(strict.url) as client:
        client.send(f"{HEAD}Content-Length: 1001\r\nExpect: 100-continue\r\n\r\n".encode())
        assert client.answer().status == 413


def test_a_body_up_to_the_limit_is_taken(strict: Running) -> None:
    assert ask(strict.url, INITIALIZE.encode().ljust(1000)).status == 200


@pytest.mark.slow(quick=3)
@pytest.mark.parametrize(("start", "before"), [("", False), ("P", False), (HEAD, False), ("P", True)])
def test_a_head_that_does_not_end_is_not_waited_for(start: str, before: bool, hasty: Running) -> None:
    with Client(hasty.url) as client:
        if before:
            client.ask(b"no JSON")
            assert client.answer().status == 400
        client.send(start.encode())
        told = client.head()
        assert (told.status if told else None) == (408 if start else None)
        assert client.how_it_ends() == "closed"


@pytest.mark.slow
def test_a_request_that_waits_for_its_answer_is_not_a_slow_one(hasty: Running) -> None:
    own = begin(hasty.url)
    with Client(hasty.url) as listener, Client(hasty.url) as slow:
        listener.ask(verb="GET", **own)
        listener.answer_head()
        slow.how_it_ends()
        assert ask(hasty.url, call(4, "tell").encode(), **own).status == 200
        assert note(14).encode() in listener.chunk()


@pytest.mark.slow
def test_a_recorder_does_not_wait_for_a_head_either(tmp_path: Path) -> None:
    def script(request: Message, wire: Wire) -> None:
        wire.send(answer(result(request.document["id"])))

    with (
        Upstream(script) as upstream,
        recording(tmp_path / "tape.db", upstream.url, "--head-timeout", "0.2") as recorder,
        Client(recorder.url) as client,
    ):
        client.send(HEAD.encode())
        assert client.answer_head().status == 408
    assert upstream.requests == []


# Our own bugs ----------------------------------------------------------------------------------------------

SECRET = "ghp_" + "k7Qz" * 9
BROKEN = f"""
import sys
def broken(*_, **__): raise KeyError("no {SECRET}\\n in here")
from mcp_tape.transports.http import response, streams, serve, relay
from mcp_tape.replay import deck
exec(sys.argv.pop(1))
from mcp_tape.__main__ import main
main()
"""


def assert_told_once(running: Running) -> None:
    assert running.stop() == 1
    (told,) = [line for line in running.said.splitlines() if "failed within mcp-tape" in line]
    assert "KeyError" in told and "(<string>:3)" in told
    assert SECRET not in running.said and "Traceback" not in running.said


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize(
    "bug",
    ["serve.ReplayServer._find_conversation", "deck.Deck.receive", "response._text", "streams.Conversation._hand_out"],
)
def test_a_bug_within_a_replay_is_answered_and_reported(bug: str, tmp_path: Path) -> None:
    said: list[Said | tuple[Side, str, int]] = [("client", INITIALIZE, 0), ("server", result(0).decode(), 9_000)]
    tape = make_cassette(tmp_path / "tape.db", [*said, ("client", call(1)), ("server", result(1).decode())])
    program, options = python(BROKEN), words_for(REPLAY, OptionValues(speed=1)) if "streams" in bug else []
    words = (f"{bug} = broken", "replay", str(tape), "--listen", "127.0.0.1:0", *options)
    with listening(*words, program=program) as replay:
        first = ask(replay.url, INITIALIZE.encode())
        then = ask(replay.url, call(2).encode(), mcp_session_id=first.header("mcp-session-id") or "tape-1")
        assert 500 in (first.status, then.status)
        assert_told_once(replay)


@pytest.mark.slow
def test_a_bug_within_a_recorder_is_answered_and_reported(tmp_path: Path) -> None:
    with Upstream(lambda request, wire: wire.send(answer(result(1)))) as upstream:
        words = ("relay.Proxy._headers = broken", "record", "--url", upstream.url, "-o", str(tmp_path / "tape.db"))
        with listening(*words, program=python(BROKEN)) as recorder:
            assert ask(recorder.url, call(1).encode()).status == 500
            assert_told_once(recorder)
