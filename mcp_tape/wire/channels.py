"""Names of transports and channels, and their meaning. Imports nothing: a recorder's relay loads it too.

A channel is the pipe or the HTTP request that bytes travelled on. `stdio` carries all messages of both sides; over
HTTP each request has its own channel, named after its verb: `post-3` has a client's message and what is answered to
it, `get-1` is a stream that the server speaks on unasked.
"""

from __future__ import annotations

STDIO, HTTP, SSE = "stdio", "http", "sse"  # transports; SSE is HTTP+SSE, the older one
STDERR = "stderr"
PIPES = (STDIO, STDERR)
POST, GET = "post-", "get-"  # and a number


def http_channel(verb: str, number: int) -> str:
    """The name of the channel of an HTTP request."""
    return f"{verb.lower()}-{number}"


def is_http(channel: str) -> bool:
    """True if a channel is an HTTP request, and no pipe."""
    return channel not in PIPES


def is_post(channel: str) -> bool:
    """True if a channel carries a client's message."""
    return channel.startswith(POST)


def is_listen_stream(channel: str) -> bool:
    """True if a channel is a GET stream of Streamable HTTP."""
    return channel.startswith(GET)
