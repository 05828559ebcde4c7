"""Responses of a server, read in one place, of every kind and in any pieces."""

from __future__ import annotations

import gzip
import ssl

import pytest

from mcp_tape.transports.http.upstream import (
    IncomingResponse,
    ReceivedMessage,
    ResumeMark,
    path_and_query,
    resolve_within,
    trusted_certificates,
)
from tests.support.messages import result

BODY = result(1, "é").encode()
EVENTS = b": hello\n\nid: 7\nretry: 250\n\nevent: endpoint\ndata: /x\n\nid: 8\ndata: " + BODY + b"\n\ndata: cut o"
STREAM = [(b"Content-Type", b"Text/Event-Stream; charset=utf-8")]
JSON = [(b"content-type", b"application/json")]
GZIP = (b"Content-Encoding", b"gzip")


def read(incoming: IncomingResponse, body: bytes, size: int) -> list[ReceivedMessage]:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return [*(heard for piece in pieces for heard in incoming.feed(piece)), *incoming.close()]


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("coded", [False, True])
def test_a_body_is_one_message_and_a_stream_several(size: int, coded: bool) -> None:
    more = [GZIP] if coded else []
    whole, stream = (gzip.compress(body) if coded else body for body in (BODY + b"\n", EVENTS))
    assert read(IncomingResponse(200, [*JSON, *more]), whole, size) == [ReceivedMessage(BODY)]
    incoming = IncomingResponse(200, [*STREAM, *more])
    assert read(incoming, stream, size) == [
        ReceivedMessage(b"/x", "endpoint"),
        ReceivedMessage(BODY),
    ]  # an incomplete event is discarded
    assert (incoming.mark.last, incoming.mark.retry) == ("8", 0.25)


@pytest.mark.parametrize("status", [400, 404, 599])
def test_an_error_keeps_its_body_and_is_no_message(status: int) -> None:
    incoming = IncomingResponse(status, [*JSON, GZIP, (b"mcp-session-id", b"S")])
    assert read(incoming, gzip.compress(BODY), 5) == []
    assert (incoming.is_error, incoming.error, incoming.session) == (True, BODY, "S")
    assert incoming.content_type == "application/json"


@pytest.mark.parametrize(("status", "location"), [(307, "/b"), (308, "/b"), (303, None), (200, None)])
def test_only_a_redirect_that_keeps_the_message_is_one(status: int, location: str | None) -> None:
    incoming = IncomingResponse(status, [*JSON, (b"Location", b"/b")])
    assert incoming.location == location
    assert bool(read(incoming, BODY, 5)) is (location is None)


def test_an_unreadable_coding_is_passed_on_unchanged() -> None:
    for coding in (b"gzip", b"br", b"gzip, br"):
        assert read(IncomingResponse(200, [*JSON, (b"content-encoding", coding)]), BODY, 10_000) == [
            ReceivedMessage(BODY)
        ]


def test_a_body_that_decompresses_to_too_much_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    incoming = IncomingResponse(200, [*JSON, GZIP])
    monkeypatch.setattr(incoming._decoder, "_left", 10)
    assert read(incoming, gzip.compress(BODY * 100), 10_000) == []


def test_a_stream_that_is_resumed_goes_on_where_it_was() -> None:
    mark = ResumeMark()
    read(IncomingResponse(200, STREAM, mark), b"id: 3\ndata: x\n\n", 100)
    read(IncomingResponse(200, STREAM, mark), b"data: y\n\n", 100)
    assert mark.last == "3"


@pytest.mark.parametrize(
    ("url", "base", "path"),
    [
        ("/b?x=1", "", "/b?x=1"),
        ("b", "/a/c", "/a/b"),
        ("http://h:80/b#f", "/a", "/b"),
        ("https://h/b", "/a", None),
        ("//other/b", "/a", None),
        ("http://[::1", "/a", None),
        ("http://h:99999/", "/a", None),
    ],
)
def test_a_url_within_a_server(url: str, base: str, path: str | None) -> None:
    found = resolve_within("http://h/mcp", url, base)
    assert (found and path_and_query(found)) == path


def test_certificates_are_loaded_only_for_tls_and_from_the_system() -> None:
    nobody = trusted_certificates("HTTP://h/mcp", None)
    assert isinstance(nobody, ssl.SSLContext) and nobody.verify_mode == ssl.CERT_REQUIRED and not nobody.get_ca_certs()
    assert trusted_certificates("https://h/mcp", None) is trusted_certificates("HTTPS://h/mcp", None) is True
