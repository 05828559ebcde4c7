"""Recording over HTTP: too many, too large or too slow requests, and the end of the recorder itself."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import sys
import threading
from pathlib import Path

import pytest

from tests.support.forked import SCRIPT
from tests.support.http import LAST, Client, CutOffError, Message, Upstream, Wire, answer, ask, begin, chunk
from tests.support.http_running import Running, all_frames, call, event, facts, recording, result, said, texts
from tests.support.running import WAIT, is_one_file, receive_line, sessions, started, until, writer_of

MiB = 1 << 20
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
NOTE = event(said(method="notifications/x"))


def echo(request: Message, wire: Wire) -> None:
    wire.send(answer(result(request.document["id"])))


# Large amounts ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_hundred_clients_at_once(tmp_path: Path) -> None:
    tape, many = tmp_path / "tape.db", 200
    together = threading.Barrier(many)

    def script(request: Message, wire: Wire) -> None:
        together.wait(WAIT)  # no answer before all have asked
        echo(request, wire)

    with Upstream(script) as upstream, recording(tape, upstream.url) as recorder, contextlib.ExitStack() as open_:
        clients = [open_.enter_context(Client(recorder.url)) for _ in range(many)]
        for number, client in enumerate(clients):
            client.ask(call(number))
        assert [client.answer().body for client in clients] == [result(n) for n in range(many)]
    assert len(upstream.requests) == many
    assert sorted(texts(all_frames(tape), "server")) == sorted(result(n) for n in range(many))


@pytest.mark.slow
@linux_only
def test_a_hundred_megabytes_pass_without_being_collected(tmp_path: Path) -> None:
    tape, body = tmp_path / "tape.db", call(1, text="x" * (100 * MiB))
    with (
        Upstream(lambda request, wire: wire.send(answer(result(1)))) as upstream,
        recording(tape, upstream.url, program=SCRIPT) as recorder,
    ):
        ask(recorder.url, call(1))
        before = recorder.memory()
        assert ask(recorder.url, body).body == result(1)
        assert recorder.memory() - before < 32 * MiB
    assert upstream.requests[-1].body == body
    assert texts(all_frames(tape), "client")[-1] == body
    assert sessions(tape)[0].incomplete is None


@pytest.mark.slow
@linux_only
def test_an_event_of_fifty_megabytes_passes_without_being_collected(tmp_path: Path) -> None:
    tape, big = tmp_path / "tape.db", result(1, text="x" * (50 * MiB))

    def script(request: Message, wire: Wire) -> None:
        wire.send(begin() + chunk(NOTE) + chunk(event(big)) + LAST)

    with Upstream(script) as upstream, recording(tape, upstream.url, program=SCRIPT) as recorder:
        before = recorder.memory()
        assert ask(recorder.url, call(1)).body == NOTE + event(big)
        assert recorder.memory() - before < 32 * MiB
    assert texts(all_frames(tape), "server")[-1] == big


@pytest.mark.slow
@linux_only
def test_a_fast_stream_waits_for_a_slow_reader(tmp_path: Path) -> None:
    piece = chunk(event(said(method="notifications/x", params={"text": "x" * MiB})))
    stalled = threading.Event()

    def script(request: Message, wire: Wire) -> None:
        wire.send(begin())
        writable = select.poll()
        writable.register(wire.sock, select.POLLOUT)
        for _ in range(96):
            if not writable.poll(500):
                stalled.set()
            wire.send(piece)
        wire.send(LAST)
        stalled.set()

    with Upstream(script) as upstream, recording(tmp_path / "tape.db", upstream.url, program=SCRIPT) as recorder:
        with Client(recorder.url) as client:
            client.ask(call(1))
            assert stalled.wait(WAIT)  # none of it has been read yet
            assert recorder.memory() < 80 * MiB
            assert len(client.answer().body) == 96 * (len(piece) - len(b"100044\r\n\r\n"))
        assert recorder.memory() < 80 * MiB


# The end of the recorder -------------------------------------------------------------------------------


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_end_it_cleanly(number: int, tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    with Upstream(echo) as upstream, recording(tape, upstream.url) as recorder:
        assert ask(recorder.url, call(1)).status == 200
        assert recorder.stop(number) == 0
        assert re.search(r"\b1 exchanges?, 0 still open", recorder.said)
    assert is_one_file(tape)
    assert [session.incomplete for session in sessions(tape)] == [None]


@pytest.mark.slow
def test_a_background_job_of_a_script_outlives_an_interrupt_and_ends_when_terminated(
    tmp_path: Path,
) -> None:
    # SIGINT is ignored there: https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#tag_19_11
    tape = tmp_path / "tape.db"
    with Upstream(echo) as upstream:
        job = [*SCRIPT, "record", "--url", upstream.url, "-o", str(tape)]
        with started(["sh", "-c", '"$@" & echo $! && wait $!', "sh", *job]) as shell:
            assert shell.stdout
            number, url = int(receive_line(shell.stdout)), receive_line(shell.stdout).decode().strip()
            os.kill(number, signal.SIGINT)
            assert ask(url, call(1)).status == 200
            os.kill(number, signal.SIGTERM)
            assert shell.wait(WAIT) == 0
    assert [session.incomplete for session in sessions(tape)] == [None]


def kill(recorder: Running) -> None:
    recorder.process.send_signal(signal.SIGKILL)
    recorder.process.wait(WAIT)


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("events", [True, False])
def test_messages_that_the_client_got_are_on_the_tape_of_a_killed_recorder(events: bool, tmp_path: Path) -> None:
    tape, got = tmp_path / "tape.db", []
    more = threading.Event()

    def script(request: Message, wire: Wire) -> None:
        number = request.document["id"]
        with contextlib.suppress(OSError):
            if not events:
                echo(request, wire)
                return
            wire.send(begin())
            while not more.is_set():
                wire.send(chunk(event(said(method="notifications/x", params={"n": number}))))

    with Upstream(script) as upstream, recording(tape, upstream.url) as recorder, Client(recorder.url) as client:
        if events:
            client.ask(call(1))
            client.answer_head()
            size = len(event(said(method="notifications/x", params={"n": 1})))
            got = [client.read(size) for _ in range(500)]
            kill(recorder)
            with contextlib.suppress(CutOffError, ConnectionResetError):
                while True:
                    got.append(client.read(size))
            more.set()
        else:
            for number in range(200):
                client.ask(call(number))
                got.append(client.answer().body)
            kill(recorder)
    until(lambda: sessions(tape) and sessions(tape)[0].ended_at, "the writer to finish")
    kept = texts(all_frames(tape), "server")
    assert len(kept) >= len(got)
    assert "killed" in (sessions(tape)[0].incomplete or "")
    if not events:
        assert kept == got


@linux_only
@pytest.mark.slow
def test_traffic_goes_on_without_the_writer(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    with Upstream(echo) as upstream, recording(tape, upstream.url) as recorder:
        assert ask(recorder.url, call(1)).body == result(1)
        until(lambda: facts(all_frames(tape)), "what was asked to be on the cassette")
        os.kill(writer_of(recorder.process.pid, tape), signal.SIGKILL)
        until(lambda: "no longer recorded" in recorder.said, "the loss to be told")
        assert ask(recorder.url, call(2)).body == result(2)
        assert recorder.stop() == 0
        assert "INCOMPLETE" in recorder.said
    assert "died" in (sessions(tape)[0].incomplete or "")
    assert facts(all_frames(tape))
