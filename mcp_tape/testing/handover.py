"""Data for recorders that must not be on a command line: secrets to hide, and the server's variables and headers.

SDK clients start servers, and so recorders, with a few variables only. The rest goes through a Unix socket in a
directory that only this user can enter: not on a command line, which everybody can read, and not in a file. The server
inherits only what it was given.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

from ..redaction import environment
from ..redaction.environment import Pairs
from ..transports.handover import Handed
from ..transports.local import listening

_PATIENCE = 10.0  # seconds for a recorder to read its data


def of_moment(known: Pairs, env: Pairs, env_from: Sequence[str], headers: Pairs, environ: Mapping[str, str]) -> Handed:
    """Return the data for a recorder that starts now: a test may have changed its environment."""
    found = tuple((name, environ[name]) for name in env_from if name in environ)
    missing = tuple(name for name in env_from if name not in environ)
    return Handed((*environment.secrets(environ), *known), (*found, *env), headers, missing)


class Handover:
    """Sends the current data to each recorder that connects."""

    def __init__(self, handed: Callable[[], Handed]) -> None:
        self._handed = handed
        self._listener, self._directory = listening()
        self.path: str = self._listener.getsockname()
        self._closing = False
        self._recorders: list[int] = []  # a descriptor for each recorder that has connected
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing = True
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as last:
            last.connect(self.path)  # wakes the waiting thread on every system
        self._thread.join(_PATIENCE)
        self._listener.close()
        shutil.rmtree(self._directory, ignore_errors=True)
        while self._recorders:
            os.close(self._recorders.pop())

    def end_recorders(self) -> None:
        """End the recorders that still run, so that their clients stop waiting. Linux only."""
        for recorder in self._recorders:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(recorder, signal.SIGTERM)

    def _serve(self) -> None:
        while not self._closing:
            recorder, _ = self._listener.accept()
            with recorder, contextlib.suppress(OSError):  # the recorder has exited
                recorder.settimeout(_PATIENCE)
                if not self._closing:
                    self._remember(recorder)
                    recorder.sendall(json.dumps(self._handed()).encode() + b"\n")

    def _remember(self, recorder: socket.socket) -> None:
        """Keep a descriptor of the recorder's process: its number may be reused."""
        if sys.platform == "linux":
            credentials = recorder.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            self._recorders.append(os.pidfd_open(struct.unpack("3i", credentials)[0]))
