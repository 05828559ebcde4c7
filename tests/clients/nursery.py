"""Loaded modules, and a fork for each program that needs them: python nursery.py SOCKET MODULE...

A request on the socket comes from `warm.py` or `tests/support/forked.py`. The program gets the requester's arguments,
environment, directory and standard streams, and ends when the requester does. WARM_PYTHON is the Python that the
program starts others with, if not the current one. All programs end when the nursery's stdin does, and the socket's
directory is removed. The answer is the program's process number, followed by its exit code when it ends.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import marshal
import os
import runpy
import select
import signal
import socket
import sys
import threading
import types

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

    def serve(self) -> bool:
        """Return true in each process that should run its program, and false in this one at the end."""
        while True:
            ready, _, _ = select.select([0, self._woken, self._listener, *self._asking.values()], [], [])
            if self._woken in ready:
                self._woken.recv(1 << 12)
                self._reap()
            for process, connection in self._asking.items():
                if connection in ready:  # a requester sends nothing more, so it is gone
                    os.kill(process, signal.SIGTERM)
            if self._listener in ready and self._begin(self._listener.accept()[0]):
                return True
            if 0 in ready:
                for process in self._asking:
                    os.kill(process, signal.SIGKILL)
                return False

    def _reap(self) -> None:
        """Report each ended program to its requester."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                with self._asking.pop(ended[0]) as connection:
                    _tell(connection, os.waitstatus_to_exitcode(ended[1]))

    def _begin(self, connection: socket.socket) -> bool:
        """Fork; return true in the process that should run the program."""
        size, streams, _, _ = socket.recv_fds(connection, 4, STREAMS)
        if not streams:
            connection.close()
            return False
        with connection.makefile("rb") as text:
            wanted = marshal.loads(text.read(int.from_bytes(size, "big")))
        process = os.fork()
        if process:
            self._asking[process] = connection
            _tell(connection, process)
        else:
            self._leave()
            connection.close()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
        for stream in streams:
            os.close(stream)
        if process == 0:
            dress(**wanted)
        return process == 0

    def _leave(self) -> None:
        """Release the nursery's own resources."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for one in (self._listener, self._woken, self._wakes, *self._asking.values()):
            one.close()


def _tell(connection: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(number.to_bytes(4, "big", signed=True))


def dress(arguments: list[str], environment: dict[str, str], directory: str) -> None:
    """Give this process the requested arguments, environment and directory."""
    os.environ.clear()
    os.environ.update(environment)
    if places := environment.get("PYTHONPATH"):
        sys.path[1:1] = places.split(os.pathsep)
    sys.executable = environment.get("WARM_PYTHON", sys.executable)
    os.chdir(directory)
    sys.argv[:] = arguments


def run() -> None:
    """Run the program as Python would: a file, a module after `-m`, or code after `-c`."""
    if sys.argv[0] == "-u":  # no effect on a process that flushes at its end
        del sys.argv[0]
    if sys.argv[0] == "-c":
        sys.path[0] = ""
        module = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(sys.argv.pop(1), module.__dict__)
    elif sys.argv[0] == "-m":
        sys.path[0] = os.getcwd()
        del sys.argv[0]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(sys.argv[0])
        runpy.run_path(sys.argv[0], run_name="__main__")


def leave(code: int) -> None:
    """End as Python does, but let the system free the shared memory: freeing objects one by one takes too long."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream and not stream.closed:
                stream.flush()
    except OSError:
        sys.exit(code)  # Python's own exit code for this case
    os._exit(code)


if __name__ == "__main__":
    nursery = Nursery(sys.argv[1])
    print("ready", flush=True)  # accepts requests now, answers once everything is loaded
    for module in sys.argv[2:]:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # keeps shared memory from being copied
    if nursery.serve():
        try:
            run()
        except SystemExit as end:
            if isinstance(end.code, int | None):
                leave(end.code or 0)
            raise
        leave(0)
    else:
        os.unlink(sys.argv[1])
        os.rmdir(os.path.dirname(sys.argv[1]))
