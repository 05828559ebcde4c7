"""Recorded bodies: batches, compressed ones, and requests that must be repeated elsewhere or later."""

from __future__ import annotations

import functools
import gzip
import json
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.http import LAST, Message, Upstream, Wire, answer, ask, begin, chunk
from tests.support.http_running import (
    HELLO,
    INITIALIZE,
    INITIALIZED,
    all_frames,
    call,
    event,
    exchanged,
    modern,
    recording,
    replaying,
    result,
    said,
    texts,
)
from tests.support.running import run, sessions

# Bodies ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_batch_is_paired_message_by_message(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    first = b"[" + call(1, name="a") + b"," + INITIALIZED + b"," + call("1", name="b") + b"]"
    second = b"[" + call(2, name="c") + b"," + call(3, name="d") + b"]"

    def script(request: Message, wire: Wire) -> None:
        if request.body == first:
            wire.send(answer(b"[" + result("1", got="b") + b",\n" + result(1, got="a") + b"]"))
        else:
            events = b"".join(chunk(event(result(number))) for number in (3, 2))
            wire.send(begin() + events + LAST)

    with Upstream(script) as upstream, recording(tape, upstream.url) as recorder:
        ask(recorder.url, first, mcp_session_id="s")
        ask(recorder.url, second, mcp_session_id="s")
    expected = {
        (call(1, name="a"), result(1, got="a")),
        (call("1", name="b"), result("1", got="b")),
        (call(2, name="c"), result(2)),
        (call(3, name="d"), result(3)),
    }
    assert {tuple(map(json.dumps, map(json.loads, pair))) for pair in exchanged(tape)} == {
        tuple(map(json.dumps, map(json.loads, pair))) for pair in expected
    }


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


PACKED: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", functools.partial(gzip.compress, mtime=0)),  # the same bytes a second later
    "zlib": ("deflate", zlib.compress),
    "raw": ("deflate", raw_deflate),
}


@pytest.mark.slow
def test_a_compressed_answer_is_passed_on_so_and_kept_plain(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    cases = [(how, size) for how in PACKED for size in (10, 3 << 20)]
    bodies = {f"/mcp?{how}{size}": (how, result(how, text="a" * size)) for how, size in cases}

    def script(request: Message, wire: Wire) -> None:
        how, body = bodies[request.target]
        coding, pack = PACKED[how]
        assert request.header("accept-encoding") == f"{coding};q=0.5"
        wire.send(answer(pack(body), content_encoding=coding))

    with Upstream(script) as upstream, recording(tape, upstream.url) as recorder:
        for target, (how, body) in bodies.items():
            coding, pack = PACKED[how]
            done = ask(recorder.url, modern(how), to=target, accept_encoding=f"br, {coding};q=0.5, zstd")
            assert (done.body, done.header("content-encoding")) == (pack(body), coding)
    assert texts(all_frames(tape), "server") == [body for _, body in bodies.values()]
    assert sessions(tape)[0].incomplete is None


@pytest.mark.slow
def test_compressed_events_are_kept_plain_one_by_one(tmp_path: Path) -> None:
    tape, packer = tmp_path / "tape.db", zlib.compressobj(wbits=31)
    plain = [event(said(method="notifications/x", params={"n": 1})), event(result(1))]
    packed = [packer.compress(one) + packer.flush(zlib.Z_SYNC_FLUSH) for one in plain] + [packer.flush()]
    body = begin(content_encoding="gzip") + b"".join(map(chunk, packed)) + LAST
    with (
        Upstream(lambda request, wire: wire.send(body)) as upstream,
        recording(tape, upstream.url) as recorder,
    ):
        assert ask(recorder.url, call(1), accept_encoding="gzip").body == b"".join(packed)
    assert [event(one) for one in texts(all_frames(tape), "server")] == plain


def test_an_unreadable_coding_is_passed_on_and_reported(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    bodies = {"/mcp?1": ("br", b"\x0b\x02\x80hello\x03"), "/mcp?2": ("gzip", b"no gzip at all")}

    def script(request: Message, wire: Wire) -> None:
        coding, body = bodies[request.target]
        wire.send(answer(body, content_encoding=coding))

    with Upstream(script) as upstream, recording(tape, upstream.url) as recorder:
        for target, (coding, body) in bodies.items():
            done = ask(recorder.url, call(1), to=target)
            assert (done.body, done.header("content-encoding")) == (body, coding)
        assert recorder.stop() == 0
        assert "INCOMPLETE: a body was compressed in a way that cannot be read" in recorder.said
    assert "compressed" in (sessions(tape)[0].incomplete or "")


@pytest.mark.slow
def test_a_body_that_is_too_large_when_decompressed_is_passed_on_and_left_out(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    secret = result(1, token="kJ8mN2pQ4xYz", text="a" * 300_000)
    small, bomb = gzip.compress(result(2, text="small")), gzip.compress(secret)
    stream = gzip.compress(event(result(3)) + event(result(4, text="b" * 300_000)) + event(result(5)))
    bodies = {"/mcp?1": answer(bomb, content_encoding="gzip"), "/mcp?2": answer(small, content_encoding="gzip")}
    bodies["/mcp?3"] = begin(content_encoding="gzip") + chunk(stream) + LAST

    with (
        Upstream(lambda request, wire: wire.send(bodies[request.target])) as upstream,
        recording(tape, upstream.url, "--max-decoded", "100k") as recorder,
    ):
        assert ask(recorder.url, modern("1"), to="/mcp?1", accept_encoding="gzip").body == bomb
        assert ask(recorder.url, modern("2"), to="/mcp?2", accept_encoding="gzip").body == small
        assert ask(recorder.url, modern("3"), to="/mcp?3", accept_encoding="gzip").body == stream
        assert recorder.stop() == 0
        assert "INCOMPLETE: a body of more than 100.0k when decompressed was left out" in recorder.said
    assert texts(all_frames(tape), "server") == [result(2, text="small")]
    noise = [frame.text for frame in all_frames(tape) if frame.kind == "noise"]
    assert noise == [b"[left out: too large when decompressed]"] * 2
    assert "left out" in (sessions(tape)[0].incomplete or "")
    assert tape.stat().st_size < 100_000


def test_a_size_that_is_none_is_refused(tmp_path: Path) -> None:
    done = run([sys.executable, "-m", "mcp_tape", "record", "--max-decoded", "much", "--", "cat"])
    assert done.returncode == 2 and b"'much' is not a size; write e.g. 800k, 64M or 1G" in done.stderr


# Redirects ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("absolute", [True, False])
@pytest.mark.slow
def test_a_redirect_within_the_server_leads_through_us_and_plays_as_one(absolute: bool, tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"

    def script(request: Message, wire: Wire) -> None:
        if request.target == "/mcp":
            wire.send(answer(b"", 307, location=(upstream.origin if absolute else "") + "/elsewhere/mcp?x=1"))
        else:
            wire.send(answer(result(1, text="there")))

    with Upstream(script) as upstream, recording(tape, upstream.url) as recorder:
        first = ask(recorder.url, modern(1))
        assert first.status == 307
        assert first.header("location") == (recorder.origin if absolute else "") + "/elsewhere/mcp?x=1"
        assert b"there" in ask(recorder.url, modern(1), to="/elsewhere/mcp?x=1").body
    with replaying(tape, "--repeats", "error", code=1) as replay:
        assert b"there" in ask(replay.url, modern(1)).body
        assert ask(replay.url, modern(1)).document["error"]["code"] == -32010


def test_a_redirect_elsewhere_is_left_alone(tmp_path: Path) -> None:
    locations = ["https://elsewhere.test/mcp", "mcp2", "", "http://[not-a-url/", "http://h:99999/", "http://h h/", "//"]
    locations += ["urn:ietf:rfc:2141", "javascript:alert(1)", "mailto:ada@h.test", "http:", "?x", "\xe9"]

    def script(request: Message, wire: Wire) -> None:
        wire.send(answer(b"", 307, location=locations[int(request.target.partition("?")[2])]))

    with Upstream(script) as upstream, recording(tmp_path / "tape.db", upstream.url) as recorder:
        for number, location in enumerate(locations):
            done = ask(recorder.url, call(1), to=f"/mcp?{number}")
            assert (done.status, done.header("location")) == (307, location)


def test_a_redirect_without_a_scheme_does_not_lead_past_us(tmp_path: Path) -> None:
    def script(request: Message, wire: Wire) -> None:
        wire.send(answer(b"", 308, location=f"//127.0.0.1:{upstream.port}/new"))

    with Upstream(script) as upstream, recording(tmp_path / "tape.db", upstream.url) as recorder:
        location = ask(recorder.url, call(1)).header("location")
        assert location in (f"{recorder.origin}/new", recorder.origin.removeprefix("http:") + "/new")


@pytest.mark.slow
def test_repeated_attempts_play_as_one_call_and_others_as_recorded(tmp_path: Path) -> None:
    tape, statuses = tmp_path / "tape.db", (401, 429, 503)

    def script(request: Message, wire: Wire) -> None:
        status = int(request.header("x-status") or 200)
        wire.send(answer(result(1)) if status == 200 else answer(b"not now", status, "text/plain"))

    with Upstream(script) as upstream, recording(tape, upstream.url) as recorder:
        for status in statuses:
            assert ask(recorder.url, modern(1, name=f"again {status}"), x_status=str(status)).status == status
            assert ask(recorder.url, modern(1, name=f"again {status}")).status == 200
        for status in statuses:
            assert ask(recorder.url, modern(1, name=f"given up {status}"), x_status=str(status)).status == status
    with replaying(tape) as replay:
        for status in statuses:
            assert ask(replay.url, modern(1, name=f"again {status}")).body == result(1)
        for status in statuses:
            done = ask(replay.url, modern(1, name=f"given up {status}"))
            assert (done.status, done.body) == (status, b"not now")


@pytest.mark.slow
def test_a_client_that_was_turned_away_does_not_hide_the_session_before(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"

    def script(request: Message, wire: Wire) -> None:
        if request.header("authorization") is None:
            wire.send(answer(b"", 401, www_authenticate="Bearer"))
        elif request.body == INITIALIZE:
            wire.send(answer(result(0, **HELLO), mcp_session_id="s"))
        else:
            wire.send(answer(result(1, tools=[])))

    with Upstream(script) as upstream, recording(tape, upstream.url) as recorder:
        assert ask(recorder.url, INITIALIZE, authorization="Basic eDp5").status == 200
        assert ask(recorder.url, call(1, "tools/list"), mcp_session_id="s", authorization="Basic eDp5").status == 200
        assert ask(recorder.url, INITIALIZE).status == 401
    with replaying(tape) as replay:
        assert ask(replay.url, INITIALIZE).header("mcp-session-id") == "s"
        assert ask(replay.url, call(1, "tools/list"), mcp_session_id="s").body == result(1, tools=[])
