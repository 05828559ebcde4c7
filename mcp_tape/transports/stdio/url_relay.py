"""A recorded stdio server that forwards to a server at a URL, for clients that only know stdio.

Records the data on stdin and stdout, before passing it on. HTTP is between us and the server (http/connect.py).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from time import monotonic

from ...wire import frames, rewrite
from ...wire.channels import STDIO
from ...wire.framing import Lines
from ..http.connect import HttpConnection
from .relay import CHUNK, write_all

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from ...record.recorder import Taker

_LAST_ANSWERS = 10.0  # seconds for pending answers after the client has closed its output
_A_MOMENT, _LONG = 0.05, 3600.0  # seconds to wait for a message: towards the end, and before


def relay_url(server: HttpConnection, recorder: Taker, warn: Callable[[str], None]) -> None:
    """Pass messages on until the client or the server has left."""
    to_client = recorder.stream("server", STDIO)
    left = threading.Event()
    threading.Thread(target=_pass_to_server, args=(server, recorder, left), daemon=True).start()
    end = None
    while server.ended is None:
        text = server.receive(_LONG if end is None else _A_MOMENT)
        if text is not None and not frames.parse(text)[1]:
            warn(f"the server has sent an invalid message: {text[:80]!r}")  # stdout may carry only messages
        elif text is not None:
            line = rewrite.single_line(text) + b"\n"
            to_client(line)
            try:
                write_all(1, line)
            except BrokenPipeError:
                return  # the client has gone
        elif left.is_set():
            end = end or monotonic() + _LAST_ANSWERS
            if not server.is_waiting or monotonic() > end:
                return
    warn(str(server.ended))


def _pass_to_server(server: HttpConnection, recorder: Taker, left: threading.Event) -> None:
    """Pass the client's messages on, in order."""
    from_client, lines = recorder.stream("client", STDIO), Lines()
    while data := os.read(0, CHUNK):
        from_client(data)
        for text, _ in lines.feed(data):
            if text.strip():
                server.send(text)
    from_client(b"")
    for text, _ in lines.close():
        server.send(text)
    left.set()
    server.wake()
