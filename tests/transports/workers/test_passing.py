"""Connections passed to another worker with the data already read, here within one process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

from mcp_tape.transports.workers import passing
from tests.support.running import WAIT

Arrived = asyncio.Queue[tuple[socket.socket, bytes]]


@contextlib.asynccontextmanager
async def two() -> AsyncIterator[tuple[passing.ConnectionPasser, Callable[[], Any]]]:
    """A worker that passes connections to worker 1, and a function that waits for the next arrival there."""
    boxes = passing.LetterBoxes(2)
    sender, receiver = (
        passing.ConnectionPasser(inside, [slot for _, slot in boxes._pairs]) for inside, _ in boxes._pairs
    )
    arrived: Arrived = asyncio.Queue()
    receiver.open(lambda connection, data: arrived.put((connection, data)))
    yield sender, lambda: asyncio.wait_for(arrived.get(), WAIT)
    receiver.close()
    boxes.close()


def test_a_connection_arrives_with_all_that_was_read_of_it() -> None:
    async def talk() -> None:
        async with two() as (sender, arrival):
            for size in (0, 1, 10**3, 3 * 10**6):
                client, server = socket.socketpair()
                sender.pass_on(1, server, b"x" * size)
                connection, data = await arrival()
                assert (len(data), server.fileno()) == (size, -1)
                with client, connection:
                    client.sendall(b"ping")
                    assert connection.recv(4) == b"ping"

    asyncio.run(talk())


def test_more_than_a_letter_box_holds_waits_for_its_turn() -> None:
    async def talk() -> set[bytes]:
        async with two() as (sender, arrival):
            clients = []
            for number in range(300):
                client, server = socket.socketpair()
                clients.append(client)
                sender.pass_on(1, server, b"%d" % number)
            arrived = [await arrival() for _ in clients]
            for one in (*clients, *(connection for connection, _ in arrived)):
                one.close()
            return {data for _, data in arrived}

    assert asyncio.run(talk()) == {b"%d" % number for number in range(300)}


def test_a_connection_that_arrives_incomplete_is_closed() -> None:
    async def talk() -> None:
        async with two() as (sender, _):
            client, server = socket.socketpair()
            ours, theirs = socket.socketpair()
            client.setblocking(False)
            with client, server, ours, theirs:
                socket.send_fds(sender._slots[1], [passing._LETTER.pack(10)], [server.fileno(), theirs.fileno()])
                ours.sendall(b"not all")
                theirs.close()
                server.close()
                ours.close()  # like the system when a worker dies
                assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 1), WAIT) == b""

    asyncio.run(talk())


def test_a_letter_without_a_connection_is_dropped() -> None:
    async def talk() -> bytes:
        async with two() as (sender, arrival):
            sender._slots[1].send(passing._LETTER.pack(10))
            client, server = socket.socketpair()
            sender.pass_on(1, server, b"the next")
            connection, data = await arrival()
            client.close()
            connection.close()
            return bytes(data)

    assert asyncio.run(talk()) == b"the next"
