"""A stdio server: answers come in request order, however the requests arrive and the answers are read."""

from __future__ import annotations

import os
import select
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from io import RawIOBase
from pathlib import Path

import pytest

from mcp_tape.transports.stdio.serve import serve
from tests.support.decks import Player, Said, make_cassette
from tests.support.messages import call, lines, request, result, values
from tests.support.running import MCP_TAPE, WAIT, receive_line, send, started

_LONG = "x" * 8_000  # in an answer: a pipe holds only a few
_AT_ONCE = 4_000  # bytes written atomically: https://man7.org/linux/man-pages/man7/pipe.7.html


@pytest.mark.slow
def test_half_a_request_stays_before_those_that_come_while_the_client_does_not_read(tmp_path: Path) -> None:
    talk: list[Said] = []
    for n in range(1_500):
        talk += [("client", call(n, n=n)), ("server", result(n, [n, _LONG]))]
    path = make_cassette(tmp_path / "tape.db", talk)
    known, asked = 20, lines(*(text for side, text in talk if side == "client"))
    first = lines(*(call(n, n=n) for n in range(known)))
    half = asked[len(first) :].index(b"\n", _AT_ONCE // 2) + len(first) + 30  # within a line
    (source, to), (back, target) = os.pipe(), os.pipe()
    with ThreadPoolExecutor(2) as pool, open(to, "wb", buffering=0) as client, open(back, "rb") as answers:
        served = pool.submit(_serve, path, source, target)
        read = b""
        for line in first.splitlines(keepends=True):
            client.write(line)
            read += answers.readline()
        client.write(asked[len(first) : half])
        assert select.select([answers], [], [], WAIT)[0]  # it was read, and its answers are more than a pipe holds
        pool.submit(_write_all, client, asked[half:]).result(WAIT)  # more than a pipe holds, so it was read too
        read += pool.submit(answers.read).result(WAIT)
        assert served.result(WAIT) is None
    assert [n for n, _ in values(read.decode().splitlines())] == list(range(1_500))


def test_an_input_that_is_closed_has_ended(tmp_path: Path) -> None:
    player = Player(make_cassette(tmp_path / "tape.db", [("client", call(1)), ("server", result(1))]))
    (source, to), (back, target) = os.pipe(), os.pipe()
    os.close(source)
    assert serve(player.deck, source=source, target=target) is None
    for one in (to, back, target):
        os.close(one)


def _write_all(client: RawIOBase, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[client.write(rest) or 0 :]
    client.close()


def _serve(path: Path, source: int, target: int) -> int | None:
    player = Player(path)
    try:
        return serve(player.deck, source=source, target=target)
    finally:
        os.close(source)
        os.close(target)


@pytest.mark.parametrize("goes_on", [False, True], ids=["silent", "busy"])
def test_a_writer_gets_its_turn_while_a_client_is_there(tmp_path: Path, goes_on: bool) -> None:
    ping = request(1, "ping")
    path = make_cassette(tmp_path / "tape.db", [("client", ping), ("server", result(1))])
    asked, is_written = threading.Event(), threading.Event()

    def ask() -> None:
        with started([*MCP_TAPE, "replay", str(path)]) as replay:
            assert replay.stdin and replay.stdout
            while not (asked.is_set() and is_written.is_set()):
                send(replay.stdin, lines(ping))
                assert receive_line(replay.stdout) == lines(result(1))
                asked.set()
                if not goes_on:
                    is_written.wait(2 * WAIT)

    with ThreadPoolExecutor(1) as pool, closing(sqlite3.connect(path, timeout=WAIT)) as writer:
        client = pool.submit(ask)
        try:
            assert asked.wait(WAIT)
            writer.execute("BEGIN EXCLUSIVE")  # waits until no reader has the file
            writer.execute("UPDATE sessions SET note = 'written'")
            writer.commit()
        finally:
            is_written.set()
        client.result(WAIT)
