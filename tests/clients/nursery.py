"""Loaded modules, and a fork for each program that is to run with them: python nursery.py SOCKET MODULE...

A program gets the arguments, the environment, the directory and the standard streams of `warm.py`, which asks for it
on the socket; when that is ended, so is the program. All of them end when stdin does; the socket's directory goes too.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys

STREAMS = 3


class Nursery:
    def __init__(self, path: str) -> None:
        self._asking: dict[int, socket.socket] = {}  # by process
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(64)
        self._woken, self._wakes = socket.socketpair()
        self._wakes.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakes.fileno())

    def serve(self) -> str | None:
        """Return the program in each process that is to run it, and None in this one, at the end."""
        while True:
            ready, _, _ = select.select([0, self._woken, self._listener, *self._asking.values()], [], [])
            if self._woken in ready:
                self._woken.recv(1 << 12)
                self._reap()
            for process, connection in self._asking.items():
                if connection in ready:  # it says nothing more, so that it is gone
                    os.kill(process, signal.SIGTERM)
            if self._listener in ready and (program := self._begin(self._listener.accept()[0])):
                return program
            if 0 in ready:
                for process in self._asking:
                    os.kill(process, signal.SIGKILL)
                return None

    def _reap(self) -> None:
        """Report to everyone whose program has ended."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                with self._asking.pop(ended[0]) as connection, contextlib.suppress(OSError):
                    connection.sendall(os.waitstatus_to_exitcode(ended[1]).to_bytes(4, "big", signed=True))

    def _begin(self, connection: socket.socket) -> str | None:
        """Fork; the program in the process that is to run it."""
        size, streams, _, _ = socket.recv_fds(connection, 4, STREAMS)
        if not streams:
            return connection.close()
        with connection.makefile("rb") as text:
            wanted = json.loads(text.read(int.from_bytes(size, "big")))
        process = os.fork()
        if process:
            self._asking[process] = connection
        else:
            self._leave()
            connection.close()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
        for stream in streams:
            os.close(stream)
        return None if process else dressed(**wanted)

    def _leave(self) -> None:
        """What belongs to the nursery alone."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for one in (self._listener, self._woken, self._wakes, *self._asking.values()):
            one.close()


def dressed(arguments: list[str], environment: dict[str, str], directory: str) -> str:
    """The program, once this process is as it was asked for."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.argv[:] = arguments
    sys.path[0] = os.path.dirname(arguments[0])
    return arguments[0]


if __name__ == "__main__":
    for module in sys.argv[2:]:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # what all of them share is not to be copied
    nursery = Nursery(sys.argv[1])
    print("ready", flush=True)
    if program := nursery.serve():
        runpy.run_path(program, run_name="__main__")
    else:
        os.unlink(sys.argv[1])
        os.rmdir(os.path.dirname(sys.argv[1]))
