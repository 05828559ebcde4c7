"""Listening sockets of one process, or of several at one address."""

from __future__ import annotations

import socket
from typing import NamedTuple

from ...errors import ServerError
from ...system import calls

BACKLOG = 1024


class Address(NamedTuple):
    host: str
    port: int


def listeners(address: Address, number: int = 1) -> list[socket.socket]:
    """Return listening sockets at one address, which share its connections. Port 0 picks a free one.

    Linux distributes connections evenly (SO_REUSEPORT in socket(7)). Elsewhere it is one socket, and the first process
    to accept gets the connection.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    ends = number if calls.SHARES_PORTS else 1
    # Without an explicit protocol, asyncio leaves Nagle's algorithm on, which costs 40 ms a response.
    found = [socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) for _ in range(ends)]
    try:
        _bind(found, address)
    except (OSError, OverflowError) as error:
        for one in found:
            one.close()
        why = getattr(error, "strerror", None) or error
        raise ServerError(
            f"cannot listen on {address.host}:{address.port}: {why}; choose another address with --listen"
        ) from None
    return found * (number // ends)


def _bind(found: list[socket.socket], address: Address) -> None:
    first, *others = found
    for one in found:
        one.setsockopt(socket.SOL_SOCKET, *calls.REBIND)
    first.bind(address)  # without SO_REUSEPORT, so that it fails if the address is in use
    for one in found if others else ():
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    for one in others:
        one.bind((address.host, first.getsockname()[1]))
    for one in found:
        one.listen(BACKLOG)
