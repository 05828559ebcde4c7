"""Sockets at one address, shared only by processes of one group."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterator

import pytest

from mcp_tape.errors import ServerError
from mcp_tape.system import calls
from mcp_tape.transports.workers.listeners import Address, listeners


@contextlib.contextmanager
def bound(address: Address, number: int) -> Iterator[list[socket.socket]]:
    found = listeners(address, number)
    try:
        yield found
    finally:
        for one in found:
            one.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_all_of_them_get_connections_of_one_port(host: str) -> None:
    with bound(Address(host, 0), 3) as found, contextlib.ExitStack() as clients:
        (port,) = {one.getsockname()[1] for one in found}
        for _ in range(60):
            clients.enter_context(socket.create_connection((host, port)))
        taken = [len(list(accepted(one))) for one in found]
    assert sum(taken) == 60 and (min(taken) > 0 or sys.platform != "linux")


def accepted(listener: socket.socket) -> Iterator[None]:
    listener.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            listener.accept()[0].close()
            yield


@pytest.mark.parametrize(("first", "second"), [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_no_other_process_can_join_them(first: int, second: int) -> None:
    with bound(Address("127.0.0.1", 0), first) as found:
        address = Address(*found[0].getsockname()[:2])
        with pytest.raises(ServerError, match=f"cannot listen on 127.0.0.1:{address.port}: Address already in use"):
            listeners(address, second)
    with bound(address, second):  # free again
        pass


def test_another_system_shares_one_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "SHARES_PORTS", False)
    with bound(Address("127.0.0.1", 0), 3) as found:
        assert (len(found), len(set(found))) == (3, 1)
