"""The names of channels."""

from __future__ import annotations

from mcp_tape.wire import channels
from mcp_tape.wire.channels import PIPES, STDERR, STDIO


def test_a_channel_of_http_is_named_after_its_verb() -> None:
    assert [channels.http_channel(verb, 3) for verb in ("POST", "GET", "DELETE")] == ["post-3", "get-3", "delete-3"]


def test_a_channel_is_a_pipe_or_an_http_request() -> None:
    names = [STDIO, STDERR, *(channels.http_channel(verb, 1) for verb in ("POST", "GET", "DELETE"))]
    assert [name for name in names if not channels.is_http(name)] == list(PIPES)
    assert [name for name in names if channels.is_post(name)] == ["post-1"]
    assert [name for name in names if channels.is_listen_stream(name)] == ["get-1"]
