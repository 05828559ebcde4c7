"""HTTP archives, written by hand in the form of browsers: both transports, other traffic, and missing parts.

Archives from real browsers are in `test_others.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.cassette.reader import Cassette, Session
from mcp_tape.errors import CassetteError
from mcp_tape.wire.frames import Frame
from tests.support.http_running import INITIALIZE, INITIALIZED, call, event, result

STREAM = {"Content-Type": "text/event-stream", "Mcp-Session-Id": "s-1"}
OURS = {"mcp-session-id": "s-1"}


def entry(verb: str, second: float, body: bytes | None, answer: str | None, **more: Any) -> dict[str, Any]:
    """An entry with the members that are read here."""
    headers = more.get("headers", {})
    request: dict[str, Any] = {"method": verb, "url": more.get("url", "http://127.0.0.1:3001/mcp"), "headers": []}
    request["headers"] = [{"name": name, "value": value} for name, value in more.get("asks", {}).items()]
    if body is not None:
        request["postData"] = {"mimeType": "application/json", "params": [], "text": body.decode()}
    content = {"mimeType": headers.get("Content-Type", ""), "size": 0} | ({} if answer is None else {"text": answer})
    response = {"status": more.get("status", 200), "content": content}
    response["headers"] = [{"name": name, "value": value} for name, value in headers.items()]
    timings = {"blocked": 0, "send": 0, "wait": 20, "receive": 10}
    started = f"2026-11-18T08:00:{second:06.3f}+01:00"
    return {"startedDateTime": started, "time": 30, "request": request, "response": response, "timings": timings}


def archive(path: Path, *entries: dict[str, Any]) -> Path:
    log = {"version": "1.2", "creator": {"name": "a browser", "version": "1"}, "entries": list(entries)}
    path.write_text(json.dumps({"log": log}))
    return path


def read(path: Path) -> tuple[Session, list[Frame]]:
    with Cassette(path) as cassette:
        (session,) = cassette.sessions()
        return session, list(cassette.frames(session.id))


def said(frames: list[Frame]) -> list[tuple[str, bytes]]:
    return [(frame.sender, frame.text) for frame in frames if frame.kind in ("message", "batch")]


PAGE = entry("GET", 0, None, "<p>hello", url="http://127.0.0.1:3001/", headers={"Content-Type": "text/html"})
FORM = entry("POST", 0, b"a=b", "thanks", url="http://127.0.0.1:3001/form", headers={"Content-Type": "text/html"})


def test_streamable_http_is_found_among_other_traffic(tmp_path: Path) -> None:
    hello, progress = result(0, protocolVersion="2025-11-25"), call(9, "ping")
    answer = result(1, content=[])
    session, frames = read(
        archive(
            tmp_path / "page.har",
            PAGE,
            FORM,
            entry("POST", 1, INITIALIZE, event(hello).decode(), headers=STREAM),
            entry("POST", 2, INITIALIZED, "", asks=OURS | {"Cookie": "x=1"}, status=202),
            entry("POST", 3, call(1), (event(progress) + event(answer)).decode(), headers=STREAM, asks=OURS),
        )
    )
    assert said(frames) == [
        ("client", INITIALIZE), ("server", hello), ("client", INITIALIZED),
        ("client", call(1)), ("server", progress), ("server", answer),
    ]  # fmt: skip
    assert (session.transport, session.started_at) == ("http", "2026-11-18T07:00:01.000000Z")
    assert session.incomplete == "imported from HAR: times of events invented"
    assert [frame.at for frame in frames if frame.text in (call(1), answer)] == [2_000_000, 2_030_000]
    statuses = [json.loads(frame.text).get("status") for frame in frames if frame.kind == "control"]
    assert statuses.count(200) == 2 and statuses.count(202) == 1


def test_http_with_sse_is_found_and_answers_come_behind_their_requests(tmp_path: Path) -> None:
    old = {"Content-Type": "text/event-stream"}
    url, hello = "http://127.0.0.1:3001/message?sessionId=7", result(0, protocolVersion="2024-11-05")
    stream = event(b"/message?sessionId=7", b"event: endpoint\n") + event(hello) + event(result(1, tools=[]))
    session, frames = read(
        archive(
            tmp_path / "old.har",
            entry(
                "GET",
                1,
                None,
                stream.decode(),
                url="http://127.0.0.1:3001/sse",
                headers=old,
            ),
            entry("POST", 2, INITIALIZE, "Accepted", url=url, status=202),
            entry("POST", 3, INITIALIZED, "Accepted", url=url, status=202),
            entry("POST", 4, call(1, "tools/list"), "Accepted", url=url, status=202),
        )
    )
    assert session.transport == "sse"
    assert said(frames) == [
        ("client", INITIALIZE), ("server", hello), ("client", INITIALIZED),
        ("client", call(1, "tools/list")), ("server", result(1, tools=[])),
    ]  # fmt: skip


ASKS = b'{"jsonrpc":"2.0","id":"q","method":"roots/list"}'
TOLD = b'{"jsonrpc":"2.0","id":"q","result":{"roots":[]}}'


@pytest.mark.parametrize("receive", [0, 10])
def test_a_question_comes_before_its_answer_whatever_its_time(receive: int, tmp_path: Path) -> None:
    """The duration of a stream is unknown, or wrong."""
    hello, answer = result(0, protocolVersion="2025-11-25"), result(1, content=[])
    asking = entry("POST", 2, call(1), (event(ASKS) + event(answer)).decode(), headers=STREAM, asks=OURS)
    asking["timings"]["receive"] = receive
    _, frames = read(
        archive(
            tmp_path / "asks.har",
            entry("POST", 1, INITIALIZE, event(hello).decode(), headers=STREAM),
            asking,
            entry("POST", 2.01, TOLD, "", asks=OURS, status=202),
        )
    )
    assert said(frames)[2:] == [("client", call(1)), ("server", ASKS), ("client", TOLD), ("server", answer)]


def test_a_stream_that_stays_open_asks_when_it_is_answered(tmp_path: Path) -> None:
    old, url = {"Content-Type": "text/event-stream"}, "http://127.0.0.1:3001/message?sessionId=7"
    progress = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}'
    asking = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":"t"}}}'
    stream = event(b"/message?sessionId=7", b"event: endpoint\n") + event(progress) + event(ASKS) + event(result(1))
    _, frames = read(
        archive(
            tmp_path / "old.har",
            entry("GET", 1, None, stream.decode(), url="http://127.0.0.1:3001/sse", headers=old),
            entry("POST", 2, asking, "Accepted", url=url, status=202),
            entry("POST", 3, TOLD, "Accepted", url=url, status=202),
        )
    )
    assert said(frames) == [
        ("client", asking), ("server", progress), ("server", ASKS), ("client", TOLD), ("server", result(1)),
    ]  # fmt: skip


def test_a_body_that_is_not_in_the_archive_is_a_loss(tmp_path: Path) -> None:
    hello = event(result(0, protocolVersion="2025-11-25")).decode()
    session, frames = read(
        archive(
            tmp_path / "open.har",
            entry("POST", 1, INITIALIZE, hello, headers=STREAM),
            entry("POST", 2, call(1), None, headers=STREAM, asks=OURS),
        )
    )
    assert "cut off: the body of a response is not in the file" in (session.incomplete or "")
    assert said(frames)[-1] == ("client", call(1))


HELLO = event(result(0, protocolVersion="2025-11-25"))


@pytest.mark.parametrize("half", [b"", b"data: {"])
def test_a_stream_that_firefox_has_as_it_was_when_saved_is_open_and_no_loss(half: bytes, tmp_path: Path) -> None:
    """It has everything up to that moment, without times."""
    listening = entry("GET", 2, None, (event(ASKS) + half).decode(), headers=STREAM, asks=OURS) | {"timings": {}}
    path = archive(tmp_path / "open.har", entry("POST", 1, INITIALIZE, HELLO.decode(), headers=STREAM), listening)
    session, frames = read(path)
    assert session.incomplete == "imported from HAR: times of events invented"
    assert said(frames)[-1] == ("server", ASKS)
    assert (frames[-1].channel, json.loads(frames[-1].text)) == ("get-2", {"event": "open"})


CUT = "imported from HAR: times of events invented; cut off: the end of a body is not in the file"


def test_an_answer_that_had_not_ended_when_firefox_saved_it_is_a_loss(tmp_path: Path) -> None:
    hello = entry("POST", 1, INITIALIZE, HELLO.decode(), headers=STREAM)
    begun = entry("POST", 2, call(1), event(call(9, "ping")).decode(), headers=STREAM, asks=OURS) | {"timings": {}}
    session, frames = read(archive(tmp_path / "begun.har", hello, begun))
    assert session.incomplete == CUT
    assert said(frames)[2:] == [("client", call(1)), ("server", call(9, "ping"))]


@pytest.mark.parametrize("verb", ["POST", "GET"])
def test_of_a_long_stream_that_firefox_has_filled_with_nuls_whole_events_are_kept(verb: str, tmp_path: Path) -> None:
    filled = (event(call(9, "ping")) + event(result(1))[:12]).decode() + "\0" * 100
    hello = entry("POST", 1, INITIALIZE, HELLO.decode(), headers=STREAM)
    body = call(1) if verb == "POST" else None
    session, frames = read(
        archive(tmp_path / "long.har", hello, entry(verb, 2, body, filled, headers=STREAM, asks=OURS))
    )
    assert session.incomplete == CUT
    assert said(frames)[-1] == ("server", call(9, "ping")) and not any(b"\0" in frame.text for frame in frames)


def test_a_long_answer_that_firefox_has_filled_with_nuls_is_not_there(tmp_path: Path) -> None:
    hello = entry("POST", 1, INITIALIZE, HELLO.decode(), headers=STREAM)
    plain = {"Content-Type": "application/json"}
    filled = entry("POST", 2, call(1), result(1)[:12].decode() + "\0" * 100, headers=plain, asks=OURS)
    session, frames = read(archive(tmp_path / "long.har", hello, filled))
    assert "cut off: the body of a response is not in the file" in (session.incomplete or "")
    assert said(frames)[-1] == ("client", call(1))


@pytest.mark.parametrize("asks", [OURS, {}])
def test_a_long_request_that_firefox_truncated_is_left_out_and_reported(asks: dict[str, str], tmp_path: Path) -> None:
    hello = entry("POST", 1, INITIALIZE, HELLO.decode(), headers=STREAM)
    half = entry("POST", 2, call(1)[:-9], event(result(1)).decode(), headers=STREAM, asks=asks)
    session, frames = read(archive(tmp_path / "half.har", hello, half))
    assert session.incomplete == CUT
    assert [sender for sender, _ in said(frames)] == ["client", "server"]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_text_that_was_taken_for_another_encoding_is_read_as_it_was(encoding: str, tmp_path: Path) -> None:
    answer = result(0, protocolVersion="2025-11-25", instructions="Grüße ☃".encode().decode("latin-1"))
    if encoding == "cp1252":
        answer = result(0, protocolVersion="2025-11-25", instructions="Gr\u00c3\u00bc\u00c3\u0178e")  # ü, ß
    text = event(answer.decode("unicode-escape").encode()).decode()
    _, frames = read(archive(tmp_path / "odd.har", entry("POST", 1, INITIALIZE, text, headers=STREAM)))
    assert "Grüße".encode() in said(frames)[-1][1]


def test_an_archive_without_mcp_says_so(tmp_path: Path) -> None:
    with pytest.raises(CassetteError, match="none of its 2 entries is MCP traffic"):
        Cassette(archive(tmp_path / "page.har", PAGE, FORM))
