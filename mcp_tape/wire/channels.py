"""Names of transports and channels, and their meaning. Imports nothing, because the recorder's relay loads it.

A channel is the pipe or the HTTP request that carried the bytes. `stdio` carries the messages of both sides. Over HTTP
each request is a channel, named after its verb: `post-3` carries a client message and its response, `get-1` is a stream
of messages that the server sends on its own.
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from __future__ import annotations

STDIO, HTTP, SSE = "stdio", "http", "sse"  # transports; SSE is HTTP+SSE of 2024-11-05
STDERR = "stderr"
PIPES = (STDIO, STDERR)
# The recorder's notes about the recording itself: the cassette that continues a session or that it continues, and the
# signal that stopped the recorder.
TAPE, CONTINUES, CONTINUED, SIGNALLED = "tape", "continues", "continued", "signal"
POST, GET, DELETE = "post-", "get-", "delete-"  # followed by a number
SIDE = "side-"  # an HTTP request for another path than that of messages, such as metadata or an icon


def http_channel(verb: str, number: int) -> str:
    return f"{verb.lower()}-{number}"


def is_http(channel: str) -> bool:
    """True if a channel is an HTTP request, not a pipe or a recorder's note."""
    return channel not in (STDIO, STDERR, TAPE)


def is_post(channel: str) -> bool:
    """True if a channel carries a client message."""
    return channel.startswith(POST)


def is_listen_stream(channel: str) -> bool:
    """True if a channel is a GET stream of Streamable HTTP."""
    return channel.startswith(GET)
