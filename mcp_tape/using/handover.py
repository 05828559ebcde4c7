"""The secrets of a test's environment, handed to its recorders so that they can hide them.

SDK clients start servers, and so recorders, with a handful of variables. The rest goes through a Unix socket in a
directory that only this user can enter: on no command line, in no file, and not in what the server inherits.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterable

from ..transports.local import short_directory

_SOCKET = "secrets"
_PATIENCE = 10.0  # seconds for a recorder to take them


class Handover:
    """Tells whoever comes what is secret at that moment."""

    def __init__(self, secrets: Callable[[], Iterable[tuple[str, str]]]) -> None:
        self._secrets = secrets
        self._directory = short_directory()
        self.path = os.path.join(self._directory, _SOCKET)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen(64)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes who waits there
        self._listener.close()
        self._thread.join()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _serve(self) -> None:
        while True:
            try:
                recorder, _ = self._listener.accept()
            except OSError:
                return  # closed
            with recorder, contextlib.suppress(OSError):  # a recorder that has gone meanwhile
                recorder.settimeout(_PATIENCE)
                recorder.sendall(json.dumps(list(self._secrets())).encode() + b"\n")
