"""Names of transports and channels, and their meaning. Imports nothing, as the relay of a recorder loads it.

A channel is the pipe or the HTTP request that bytes travelled on. `stdio` carries the messages of both sides; over HTTP
each request is a channel, named after its verb: `post-3` carries a client's message and the response to it, `get-1` is
a stream for what the server sends unasked.
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from __future__ import annotations

STDIO, HTTP, SSE = "stdio", "http", "sse"  # transports; SSE is HTTP+SSE of 2024-11-05
STDERR = "stderr"
PIPES = (STDIO, STDERR)
# What the recorder notes about the recording itself: that a session goes on in another cassette, and the signal that
# told the recorder to stop.
TAPE, CONTINUES, CONTINUED, SIGNALLED = "tape", "continues", "continued", "signal"
POST, GET = "post-", "get-"  # followed by a number


def http_channel(verb: str, number: int) -> str:
    return f"{verb.lower()}-{number}"


def is_http(channel: str) -> bool:
    """True if a channel is an HTTP request, neither a pipe nor a note of the recorder."""
    return channel not in (STDIO, STDERR, TAPE)


def is_post(channel: str) -> bool:
    """True if a channel carries a message of the client."""
    return channel.startswith(POST)


def is_listen_stream(channel: str) -> bool:
    """True if a channel is a GET stream of Streamable HTTP."""
    return channel.startswith(GET)
