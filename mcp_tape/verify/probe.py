"""Starts or reaches a server and greets it: whether it answers, how soon, and its other output on stdout."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import __version__
from ..errors import ServerError
from ..transports.process import AS_WE_ARE, Around
from ..transports.stdio.connect import StdioConnection
from ..wire import frames, jsontext, protocol

if TYPE_CHECKING:
    from ..transports.stdio.connect import Connection

_CLIENT = {"name": "mcp-tape doctor", "version": __version__}
_NOISE = 3  # lines to keep


class Probe(NamedTuple):
    """The result of a probe. `why`: the reason if the server did not start or answer."""

    seconds: float
    server: str = ""
    version: str = ""
    noise: tuple[str, ...] = ()
    stderr: tuple[str, ...] = ()
    why: str = ""


def probe(command: Sequence[str], timeout: float, around: Around = AS_WE_ARE) -> Probe:
    """Start a server, greet it in both eras, and end it."""
    begun = monotonic()
    try:
        with StdioConnection(command, around=around) as server:
            return _greet(server, begun, begun + timeout)
    except ServerError as error:
        return Probe(monotonic() - begun, why=str(error))


def probe_url(url: str, headers: Sequence[tuple[str, str]], timeout: float, *, sse: bool) -> Probe:
    """Greet a server at a URL. `sse`: over HTTP+SSE, even if the URL does not look like it."""
    from ..transports.http.addresses import is_sse_url
    from ..transports.http.connect import HttpConnection  # slow to load

    begun = monotonic()
    try:
        with HttpConnection(url, headers, sse=sse or is_sse_url(url), listen=False) as server:
            return _greet(server, begun, begun + timeout)
    except ServerError as error:
        return Probe(monotonic() - begun, why=str(error))


def _greet(server: Connection, begun: float, end: float) -> Probe:
    noise: list[str] = []
    params = {"protocolVersion": protocol.LAST_LEGACY_VERSION, "capabilities": {}, "clientInfo": _CLIENT}
    modern = protocol.client_meta(protocol.MODERN_VERSION, _CLIENT, {})
    why = ""
    for number, (method, asked) in enumerate(((protocol.INITIALIZE, params), (protocol.DISCOVER, modern)), 1):
        text = jsontext.dumps({"jsonrpc": "2.0", "method": method, "params": asked, "id": number})
        server.send(text.encode())
        body = _answer(server, str(number), noise, end)
        if body is None:
            why = str(server.ended or f"it did not answer {method} within {end - begun:g} s")
            break
        result = body.get("result")
        if isinstance(result, dict):
            info = protocol.member(result, "serverInfo")
            name = " ".join(str(protocol.member(info, key) or "") for key in ("name", "version")).strip()
            version = str(protocol.member(result, "protocolVersion") or protocol.MODERN_VERSION)
            return Probe(monotonic() - begun, name, version, tuple(noise), server.stderr())
        why = f"it answers {method} with an error: {jsontext.compact_text(body.get('error'))}"
    return Probe(monotonic() - begun, "", "", tuple(noise), server.stderr(), why)


def _answer(server: Connection, rpc_id: str, noise: list[str], end: float) -> dict[str, Any] | None:
    while (left := end - monotonic()) > 0:
        line = server.receive(left)
        if line is None:
            return None
        messages = frames.parse(line)[1]
        if not messages and line.strip() and len(noise) < _NOISE:
            noise.append(line.decode("utf-8", "replace")[:200])
        for message in messages:
            if message.kind == "response" and message.rpc_id == rpc_id:
                return message.body
    return None
