"""The session of an HTTP channel: by its id, its endpoint, or the run; in order, without losses."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.record.http_sessions import Sessions, endpoint_path
from mcp_tape.record.tape import Tape
from mcp_tape.wire.frames import Frame
from tests.support.fuzzing import examples
from tests.support.http_facts import Http
from tests.support.messages import call, request, result, tell

INITIALIZE, HELLO = request(0, "initialize"), result(0, "hello")
ENDPOINT = "event: endpoint\ndata: {}\n\n"
Step = Callable[[Http], None]


class Recording:
    """The sessions made from some traffic."""

    def __init__(self) -> None:
        self.begun: list[tuple[int, str]] = []  # the time and the transport of each
        self.frames: list[list[Frame]] = []
        self.tapes: list[Tape] = []
        self.ended: list[int] = []  # sessions, by number
        self.http = Http(Sessions(self._begin, end=lambda tape: self.ended.append(self.tapes.index(tape))))

    def _begin(self, at: int, transport: str, legacy: bool) -> Tape:
        kept: list[Frame] = []
        self.begun.append((at, transport))
        self.frames.append(kept)
        self.tapes.append(Tape(lambda frame, entries: kept.append(frame), None, at))
        return self.tapes[-1]

    def end(self) -> Recording:
        assert isinstance(self.http.into, Sessions)
        self.http.into.end_all(self.http.at + 10)
        return self

    def said(self) -> list[list[str]]:
        """The messages of each session, including invalid ones."""
        return [[frame.text.decode() for frame in kept if frame.kind != "control"] for kept in self.frames]

    def channels(self) -> list[set[str]]:
        return [{frame.channel for frame in kept} for kept in self.frames]


@pytest.fixture
def recording() -> Recording:
    return Recording()


def initialize(http: Http, channel: str, number: str | None) -> None:
    http.post(channel, INITIALIZE)
    headers = {"mcp_session_id": number} if number else {}
    http.answer(channel, HELLO, 200, **headers)


def test_each_session_id_has_a_session(recording: Recording) -> None:
    http = recording.http
    initialize(http, "post-1", "a")
    initialize(http, "post-2", "b")
    http.post("post-3", call(1, "x"), mcp_session_id="a")
    http.open("get-1", mcp_session_id="b")
    http.open("delete-1", mcp_session_id="a")
    assert recording.end().channels() == [{"post-1", "post-3", "delete-1"}, {"post-2", "get-1"}]
    assert [transport for _, transport in recording.begun] == ["http", "http"]
    assert recording.said() == [[INITIALIZE, HELLO, call(1, "x")], [INITIALIZE, HELLO]]


def test_an_initialize_waits_for_the_id_in_its_response(recording: Recording) -> None:
    recording.http.post("post-1", INITIALIZE)
    assert recording.begun == []
    recording.http.respond("post-1", mcp_session_id="a")
    assert recording.begun == [(10, "http")]  # at the time of its request
    assert recording.said() == [[INITIALIZE]]


def test_all_that_has_no_id_is_one_session(recording: Recording) -> None:
    http = recording.http
    http.post("post-1", request(1, "server/discover"))
    http.post("post-2", call(1))
    initialize(http, "post-3", None)
    initialize(http, "post-4", "a")
    http.open("get-1")
    http.answer("get-1", "", 405)
    assert recording.end().channels() == [{"post-1", "post-2", "post-3", "get-1"}, {"post-4"}]


@pytest.mark.parametrize("end", ["failed", "abort", "open"])
def test_a_request_without_a_response_is_of_the_run(recording: Recording, end: str) -> None:
    recording.http.post("post-1", INITIALIZE)
    recording.http.control("server", "post-1", event=end)
    assert recording.said() == [[INITIALIZE]]


@pytest.mark.parametrize(
    ("endpoint", "path"),
    [
        ("/messages?sessionId=1", "/messages?sessionId=1"),
        ("messages?sessionId=1", "/api/messages?sessionId=1"),
        ("http://example.org:80/messages?sessionId=1", "/messages?sessionId=1"),
        ("?sessionId=1", "/api/sse?sessionId=1"),
        (" /messages/ \t", "/messages/"),
    ],
)
def test_a_post_to_an_endpoint_belongs_to_its_stream(recording: Recording, endpoint: str, path: str) -> None:
    http = recording.http
    http.open("get-1", "/api/sse")
    http.respond("get-1")
    http.feed("server", "get-1", b": welcome\n\n")
    assert recording.begun == []  # a comment does not decide
    http.feed("server", "get-1", ENDPOINT.format(endpoint).encode())
    http.post("post-1", call(1), path)
    http.event("get-1", result(1))
    http.post("post-2", call(2), "/api/sse")
    assert recording.end().said() == [[call(1), result(1)], [call(2)]]
    assert recording.begun[0] == (10, "sse")
    assert [frame.at for frame in recording.frames[0]][:4] == [0, 10, 20, 30]  # also for held-back frames
    assert endpoint_path("/api/sse", endpoint) == path


def test_each_stream_of_http_sse_is_a_session(recording: Recording) -> None:
    http = recording.http
    for number in (1, 2):
        http.open(f"get-{number}", "/sse")
        http.respond(f"get-{number}")
        http.feed("server", f"get-{number}", ENDPOINT.format(f"/messages?sessionId={number}").encode())
    http.post("post-1", call(1, "b"), "/messages?sessionId=2")
    http.post("post-2", call(1, "a"), "/messages?sessionId=1")
    http.event("get-2", result(1, "b"))
    http.event("get-1", result(1, "a"))
    assert recording.end().said() == [[call(1, "a"), result(1, "a")], [call(1, "b"), result(1, "b")]]


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_an_endpoint_may_come_in_pieces(recording: Recording, cut: int) -> None:
    http, event = recording.http, ENDPOINT.format("/messages").encode()
    http.open("get-1", "/sse")
    http.respond("get-1")
    http.feed("server", "get-1", event[:cut])
    http.feed("server", "get-1", event[cut:])
    assert [transport for _, transport in recording.begun] == ["sse"]


def test_a_stream_that_begins_with_a_message_is_of_the_run(recording: Recording) -> None:
    recording.http.open("get-1")
    recording.http.respond("get-1")
    recording.http.event("get-1", tell("notifications/message"))
    assert recording.said() == [[tell("notifications/message")]]


def test_traffic_held_back_is_there_at_the_end(recording: Recording) -> None:
    """A silent stream, an unfinished request, an incomplete event."""
    http = recording.http
    http.open("get-1", "/sse")
    http.respond("get-1")
    http.feed("server", "get-1", b"event: endp")
    http.open("post-1")
    http.feed("client", "post-1", b'{"jsonrpc"')
    http.post("post-2", call(1), mcp_session_id="a")
    http.respond("post-2")
    http.feed("server", "post-2", b'data: {"id"')
    assert recording.end().said() == [[call(1), '{"id"'], ["", '{"jsonrpc"']]
    assert [frame.head for frame in recording.frames[1] if frame.kind == "noise"] == [b"event: endp", None]


@pytest.mark.parametrize("event", ["open", "abort"])
def test_half_an_event_of_a_stream_that_was_open_to_the_end_is_kept(recording: Recording, event: str) -> None:
    http = recording.http
    http.open("get-1", mcp_session_id="a")
    http.respond("get-1")
    http.feed("server", "get-1", b'data: {"id"')
    http.control("client" if event == "abort" else "server", "get-1", event=event)
    assert recording.end().said() == [['{"id"']]


# In any order ------------------------------------------------------------------------------------------


def with_id(number: str) -> list[Step]:
    channel = f"post-init-{number}"
    return [
        lambda http: http.post(channel, request(number, "initialize")),
        lambda http: http.respond(channel, 200, "application/json", mcp_session_id=number),
        lambda http: http.feed("server", channel, result(number).encode()[:9]),
        lambda http: http.feed("server", channel, result(number).encode()[9:]),
        lambda http: http.end("server", channel),
        lambda http: http.post(f"post-call-{number}", call(number), mcp_session_id=number),
        lambda http: http.answer(f"post-call-{number}", result(number, "called")),
    ]


def stateless(channel: str, method: str) -> list[Step]:
    return [
        lambda http: http.open(channel),
        lambda http: http.feed("client", channel, request(channel, method).encode()),
        lambda http: http.end("client", channel),
        lambda http: http.respond(channel, 200, "application/json"),
        lambda http: http.feed("server", channel, result(channel).encode()),
        lambda http: http.end("server", channel),
    ]


def listening(channel: str) -> list[Step]:
    return [
        lambda http: http.open(channel),
        lambda http: http.respond(channel),
        lambda http: http.feed("server", channel, b": ping\n\n"),
        lambda http: http.event(channel, tell("notifications/message", data=channel)),
        lambda http: http.abort("client", channel),
    ]


def old(number: str) -> list[Step]:
    get, post = f"get-old-{number}", f"post-old-{number}"
    return [
        lambda http: http.open(get, "/sse"),
        lambda http: http.respond(get),
        lambda http: http.feed("server", get, ENDPOINT.format(f"/messages?s={number}").encode()),
        lambda http: http.post(post, call(number), f"/messages?s={number}"),
        lambda http: http.answer(post, "Accepted", 202),
        lambda http: http.event(get, result(number)),
        lambda http: http.end("server", get),
    ]


def scripts() -> dict[str, list[Step]]:
    return {
        "a": with_id("a"),
        "b": with_id("b"),
        "first": stateless("post-first", "initialize"),
        "second": stateless("post-second", "tools/list"),
        "listens": listening("get-1"),
        "c": old("c"),
        "d": old("d"),
    }


@st.composite
def mixed(draw: st.DrawFn) -> Recording:
    """Several clients at once, their steps in any order."""
    left, recording = scripts(), Recording()
    order = draw(st.permutations([name for name, steps in left.items() for _ in steps]))
    for name in order:
        left[name].pop(0)(recording.http)
    return recording.end()


@examples(50)
@given(mixed())
def test_every_client_has_its_own_session(recording: Recording) -> None:
    sessions = sorted(map(sorted, recording.said()))
    run = [
        *(request("post-first", "initialize"), result("post-first")),
        *(request("post-second", "tools/list"), result("post-second")),
        tell("notifications/message", data="get-1"),
    ]
    expected = [
        *([request(n, "initialize"), result(n), call(n), result(n, "called")] for n in "ab"),
        *([call(n), "Accepted", result(n)] for n in "cd"),
        run,
    ]
    assert sessions == sorted(map(sorted, expected))


@examples(50)
@given(mixed())
def test_each_channel_is_kept_in_its_order(recording: Recording) -> None:
    for kept in recording.frames:
        for channel in {frame.channel for frame in kept}:
            own = [frame.at for frame in kept if frame.channel == channel]
            assert own == sorted(own)


@examples(50)
@given(mixed())
def test_a_session_is_in_order_and_begins_with_its_first_byte(recording: Recording) -> None:
    for kept in recording.frames:
        at = [frame.at for frame in kept]
        assert at[0] >= 0
        assert at == sorted(at)


@examples(50)
@given(mixed())
def test_frames_are_numbered_without_a_gap(recording: Recording) -> None:
    for tape, kept in zip(recording.tapes, recording.frames, strict=True):
        assert [frame.seq for frame in kept] == list(range(1, tape.frames + 1))


# The end of a session ----------------------------------------------------------------------------------


def delete(http: Http, number: str, status: int = 200) -> None:
    http.open(f"delete-{number}", mcp_session_id=number)
    http.answer(f"delete-{number}", "", status)


def fill_up(http: Http) -> None:
    """As many ended sessions as are kept for late requests."""
    for number in range(100):
        initialize(http, f"post-more-{number}", f"more-{number}")
        delete(http, f"more-{number}")


@pytest.mark.parametrize(
    ("status", "is_end"), [(199, False), (200, True), (204, True), (299, True), (300, False), (405, False)]
)
def test_a_session_ends_when_the_server_accepts_its_delete(recording: Recording, status: int, is_end: bool) -> None:
    initialize(recording.http, "post-1", "a")
    delete(recording.http, "a", status)
    assert recording.ended == []  # more may come
    fill_up(recording.http)
    assert recording.ended == [0] * (200 <= status < 300)


def test_a_late_request_is_of_its_session_and_one_that_comes_too_late_of_another(recording: Recording) -> None:
    http = recording.http
    initialize(http, "post-1", "a")
    delete(http, "a")
    http.post("post-2", call(1), mcp_session_id="a")
    http.answer("post-2", "", 404)
    fill_up(http)
    http.post("post-3", call(2), mcp_session_id="a")
    said = recording.end().said()
    assert recording.ended == [0] and said[0] == [INITIALIZE, HELLO, call(1)] and said[-1] == [call(2)]


def test_a_session_goes_on_while_one_of_its_streams_is_open(recording: Recording) -> None:
    http = recording.http
    http.open("get-1", mcp_session_id="a")
    http.respond("get-1")
    delete(http, "a")
    fill_up(http)
    http.event("get-1", tell("notifications/message"))
    assert recording.ended == [] and recording.said()[0] == [tell("notifications/message")]
    http.end("server", "get-1")
    assert recording.ended == [0]


def test_a_session_of_http_sse_ends_with_its_stream(recording: Recording) -> None:
    http = recording.http
    for number in range(102):
        http.open(f"get-{number}", "/sse")
        http.respond(f"get-{number}")
        http.feed("server", f"get-{number}", ENDPOINT.format("/messages").encode())  # all have the same
        http.post(f"post-{number}", call(number), "/messages")
        http.answer(f"post-{number}", "", 202)
        assert recording.ended == [0] * (number == 101)
        http.control("client", f"get-{number}", event="abort")
    assert recording.ended == [0, 1]
    http.post("post-late", call("late"), "/messages")
    assert recording.said()[101] == [call(101), call("late")]


def test_the_end_of_another_request_is_no_end_of_a_session(recording: Recording) -> None:
    http = recording.http
    for number in range(150):
        initialize(http, f"post-{number}", f"{number}")
        http.open(f"get-{number}", mcp_session_id=f"{number}")
        http.answer(f"get-{number}", "", 200)
    assert recording.ended == []
