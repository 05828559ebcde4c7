"""Requests read as h11, another HTTP/1.1 parser, reads them, for any input in any pieces."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from itertools import pairwise
from typing import NamedTuple

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.transports.http.listen import HttpRequest, Serving, _Connection
from mcp_tape.transports.http.parse import Head
from tests.support.running import WAIT

QUIET = 3  # turns of the loop without input, after which none will come
USUAL = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n"
NEXT = b"GET /next HTTP/1.1\r\nHost: next\r\n\r\n"

Heard = tuple[str, bytes, list[tuple[bytes, bytes]], bytes]


class Outcome(NamedTuple):
    """The requests read from a connection, and whether the rest was refused."""

    heard: list[Heard]
    is_refused: bool


# Two parsers ---------------------------------------------------------------------------------------------


class Everything:
    """An application that accepts all requests, with a guard that admits them all."""

    max_body: int | None = 1 << 30

    def __init__(self) -> None:
        self.heard: list[Heard] = []
        self.is_refused = False
        self.failed: list[Exception] = []

    def __call__(self, request: HttpRequest) -> None:
        codings = [(name, value.lower() if name == b"transfer-encoding" else value) for name, value in request.headers]
        self.heard.append((request.verb, request.target, codings, request.body or b""))  # in h11's form
        request.respond(200, [])

    def expects(self, target: str) -> bool:
        return False

    def refuse(self, head: Head | str, expects: object = None) -> None:
        self.is_refused = self.is_refused or isinstance(head, str)


async def _read_by_us(pieces: list[bytes]) -> Outcome:
    loop, everything = asyncio.get_running_loop(), Everything()
    serving = Serving(everything, everything, everything.failed.append)  # type: ignore[arg-type]
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    transport, _ = await loop.connect_accepted_socket(lambda: _Connection(serving), theirs)
    with contextlib.closing(ours):
        for piece in pieces:
            with contextlib.suppress(OSError):  # the connection was closed
                await loop.sock_sendall(ours, piece)
            await _settle(ours)
    transport.abort()
    assert everything.failed == []
    return Outcome(everything.heard, everything.is_refused)


async def _settle(client: socket.socket) -> None:
    """Read until nothing more comes: the whole server runs in this loop, and waits for nothing else."""
    quiet = 0
    while quiet < QUIET:
        await asyncio.sleep(0)
        quiet += 1
        with contextlib.suppress(BlockingIOError, ConnectionResetError):
            if client.recv(1 << 18):
                quiet = 0


def read_by_us(pieces: list[bytes]) -> Outcome:
    return asyncio.run(asyncio.wait_for(_read_by_us(pieces), WAIT))


def read_by_h11(data: bytes) -> Outcome:
    connection, heard = h11.Connection(h11.SERVER), list[Heard]()
    connection.receive_data(data)
    request, body = None, b""
    try:
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA or event is h11.PAUSED:
                return Outcome(heard, False)
            if isinstance(event, h11.Request):
                request, body = event, b""
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                assert request is not None
                heard.append((request.method.decode(), request.target, list(request.headers), body))
                connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                connection.send(h11.EndOfMessage())
                if connection.our_state is h11.MUST_CLOSE:
                    return Outcome(heard, False)
                connection.start_next_cycle()
    except h11.RemoteProtocolError:
        return Outcome(heard, True)


# Differences ----------------------------------------------------------------------------------------------


class Difference(NamedTuple):
    """Input that only one of them accepts; `sign`: a property of such input."""

    data: bytes
    by_us: bool
    by_h11: bool
    sign: bytes
    why: str


LENGTH, CODING, WITHIN = b"content-length", b"transfer-encoding", rb"(?:(?!\r\n\r\n)[\s\S])*"
BODY = b"Content-Length: 2\r\n\r\n{}"
CHUNKED = USUAL + b"Transfer-Encoding: chunked\r\n"
DIFFERENCES = {
    "a line that ends without CR": Difference(
        USUAL.replace(b"\r", b"") + b"\n", False, True, rb"(?<!\r)\n",
        "RFC 9112, section 2.2, allows both; those who read it differently can be played off against each other",
    ),
    "a header in several lines": Difference(
        USUAL + b"A: b\r\n c\r\n\r\n", False, True, rb"\r\n[ \t]", "obsolete: RFC 9112, section 5.2, wants a 400"
    ),
    "two lengths that are equal": Difference(
        USUAL + b"Content-Length: 2\r\n" + BODY, False, True, rb"(?i)%b%b%b" % (LENGTH, WITHIN, LENGTH),
        "RFC 9110, section 8.6, allows both",
    ),
    "a list of equal lengths": Difference(
        USUAL + b"Content-Length: 2, 2\r\n\r\n{}", False, True, rb"(?i)content-length:[^\r]*,", "the same"
    ),
    "a length beside chunks": Difference(
        CHUNKED + b"Content-Length: 2\r\n\r\n0\r\n\r\n", False, True,
        rb"(?i)%b%b%b|%b%b%b" % (LENGTH, WITHIN, CODING, CODING, WITHIN, LENGTH),
        "RFC 9112, section 6.1, allows both; it is how requests are smuggled",
    ),
    "a version to come": Difference(
        USUAL.replace(b"1.1", b"1.2") + BODY, False, True, rb"HTTP/(?!1\.[01]\r)", "RFC 9110, section 15.6.6: a 505"
    ),
    "a method that nobody knows": Difference(
        USUAL.replace(b"POST", b"WAKE") + BODY, False, True,
        rb"(?:\A|[^!-~])(?!(?:POST|GET|DELETE|HEAD|OPTIONS|PUT|CONNECT|TRACE|PATCH) )[!-~]+ +[^ ]* +HTTP/",
        "nothing that is served here has one of its own",
    ),
    "a control character in a header": Difference(
        USUAL + b"A: b\x01c\r\n\r\n", False, True, rb"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]", "RFC 9110, section 5.5"
    ),
    "a space behind the size of a chunk": Difference(
        CHUNKED + b"\r\n2 \r\n{}\r\n0\r\n\r\n", False, True, rb"[0-9a-fA-F][ \t]+\r\n", "RFC 9112, section 7.1"
    ),
    "a chunk that is larger than anything": Difference(
        CHUNKED + b"\r\n" + b"F" * 17 + b"\r\n", False, True, rb"[0-9a-fA-F]{16}", "h11 waits for it"
    ),
    "empty lines before a request": Difference(
        b"\r\n\r\n" + USUAL + BODY, True, False, rb"\A\r\n|\r\n\r\n\r\n", "RFC 9112, section 2.2, wants them ignored"
    ),
    "a target that is neither a path nor a URL": Difference(
        USUAL.replace(b"/mcp", b":mcp") + BODY, False, True, rb"[A-Z]+ +[^/*][^ ]* +HTTP/", "RFC 9112, section 3.2"
    ),
    "spaces in the first line": Difference(
        USUAL.replace(b" /", b"  /") + BODY, True, False, rb"[A-Z]  +", "the target is the same for all who read it"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_difference_is_there_and_is_named(name: str) -> None:
    one = DIFFERENCES[name]
    assert re.search(one.sign, one.data)
    assert read_by_us([one.data]).is_refused is not one.by_us, one.why
    assert read_by_h11(one.data).is_refused is not one.by_h11, one.why


def assert_same(data: bytes, pieces: list[bytes]) -> None:
    ours, theirs = read_by_us(pieces), read_by_h11(data)
    if (
        ours.is_refused and not theirs.is_refused
    ):  # we refuse at once a request that can never be valid, h11 once it is complete
        theirs = read_by_h11(data + b"\r\n\r\n")
    if not any(re.search(one.sign, data) for one in DIFFERENCES.values()):
        assert ours == theirs
    else:
        assert ours == read_by_us([data])


# Input ----------------------------------------------------------------------------------------------------

ODD = [
    USUAL + b"\r\n",
    USUAL + BODY + NEXT,
    USUAL + b"Content-Length: 0\r\n\r\n" + NEXT,
    USUAL + b"Content-Length: 00002\r\n\r\n{}",
    USUAL + b"X-Empty:\r\nX-Spaces: \t \r\nMcp-Name:\xc3\xa9 \t\r\n" + BODY,
    USUAL.replace(b"Host: 127.0.0.1\r\n", b"") + BODY,
    USUAL + b"Host: other\r\n" + BODY,
    USUAL.replace(b"1.1", b"1.0") + BODY + NEXT,
    USUAL.replace(b"1.1", b"1.0").replace(b"Host: 127.0.0.1\r\n", b"") + BODY,
    USUAL + b"Connection: close\r\n" + BODY + NEXT,
    NEXT.replace(b"Host", b"Connection: close\r\nHost") + NEXT,
    USUAL + b"Connection: x, CLOSE\r\n" + BODY + NEXT,
    USUAL + b"Connection: keep-alive\r\n" + BODY + NEXT,
    USUAL + b"Expect: 100-continue\r\n" + BODY + NEXT,
    USUAL + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n" + BODY + NEXT,
    USUAL.replace(b"POST", b"GET") + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + NEXT,
    CHUNKED + b"\r\n1\r\n{\r\n1;x=y\r\n}\r\n0\r\n\r\n" + NEXT,
    CHUNKED + b"\r\n4\r\n\r\n\r\n\r\n0\r\nA: b\r\n\r\n" + NEXT,
    CHUNKED + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + NEXT,
    CHUNKED.replace(b"chunked", b"CHUNKED") + b"\r\n0\r\n\r\n" + NEXT,
    CHUNKED + b"\r\nzz\r\n",
    CHUNKED + b"\r\n0x2\r\n{}\r\n0\r\n\r\n",
    CHUNKED + b"\r\n-2\r\n{}\r\n0\r\n\r\n",
    CHUNKED + b"\r\n2\r\n{}0\r\n\r\n",
    CHUNKED + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    *(
        CHUNKED.replace(b"chunked", coding) + b"\r\n0\r\n\r\n"
        for coding in (b"gzip, chunked", b"identity", b"xchunked")
    ),
    *(USUAL + b"Content-Length: %b\r\n\r\n{}" % size for size in (b"+2", b"-1", b"2 3", b"", b"0x2", b"9" * 30)),
    *(USUAL + line + b"\r\n" + BODY for line in (b"A : b", b" A: b", b"A", b": b", b"A\0: b", b"A: \0", b"\xe9: b")),
    *(USUAL.replace(b"/mcp", target) + BODY for target in (b"/a?b#c", b"*", b"/%6d", b"/\xe9", b"/\x7f", b"", b"/ x")),
    USUAL.replace(b" /mcp", b"\t/mcp") + BODY,
    USUAL.replace(b"HTTP", b"http") + BODY,
    b"GET /\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
]


@pytest.mark.parametrize("data", ODD)
def test_unusual_requests_are_read_the_same_in_one_piece_and_byte_by_byte(data: bytes) -> None:
    assert_same(data, [data])
    assert_same(data, [data[place : place + 1] for place in range(len(data))])


NAMES = b"Host Content-Length Content-Type Transfer-Encoding Connection Expect Upgrade Mcp-Session-Id X-Odd".split()
VALUES = [
    *b"0 2 00002 +1 -1 1e3 \xe9 close keep-alive Upgrade chunked identity gzip 100-continue h2c S 127.0.0.1:1".split(),
    *(b"", b" ", b"a\tb", b"a\0b", b"2, 2", b"close, Upgrade", b"\xff" * 300),
]
headers = st.tuples(
    st.sampled_from(NAMES).flatmap(lambda name: st.sampled_from([name] * 6 + [name.upper(), name + b" ", b" " + name])),
    st.sampled_from(VALUES),
)
bodies = st.sampled_from([b"", b"{}", b"\r\n\r\n", b"0\r\n\r\n", b"x" * 300, NEXT])


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """A common request, except for a header or two, and perhaps its first line."""
    body = draw(bodies)
    verb, target, version = b"POST", b"/mcp", b"HTTP/1.1"
    if draw(st.integers(0, 3)) == 0:
        verb = draw(st.sampled_from(b"POST GET DELETE HEAD OPTIONS PUT TRACE post".split()))
        target = draw(st.sampled_from(b"/ /mcp?x=%20 * /a#b // /\xe9".split()))
        version = draw(st.sampled_from(b"HTTP/1.1 HTTP/1.0 HTTP/1.2 http/1.1".split()))
    lines = [b"Host: 127.0.0.1"]
    if draw(st.booleans()):
        lines.append(b"Content-Length: %d" % len(body))
    else:
        lines.append(b"Transfer-Encoding: chunked")
        cut = draw(st.integers(0, len(body)))
        body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (body[:cut], body[cut:]) if piece)
        body += draw(st.sampled_from([b"0\r\n\r\n"] * 4 + [b"0\r\nX: y\r\n\r\n", b"", b"zz\r\n"]))
    for name, value in draw(st.lists(headers, max_size=2)):
        lines.insert(draw(st.integers(0, len(lines))), name + draw(st.sampled_from([b": ", b":", b":\t"])) + value)
    return b"\r\n".join([b" ".join((verb, target, version)), *lines, b"", body])


@given(st.lists(requests(), min_size=1, max_size=3), st.data())
def test_connections_are_read_alike_however_they_are_cut(several: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(several)
    if data.draw(st.integers(0, 4), "damaged") == 0:
        place = data.draw(st.integers(0, min(len(whole), 300) - 1))
        whole = (
            whole[:place]
            + data.draw(st.sampled_from([b"\r", b"\n", b"\0", b":", b" ", b"9", b"z"]))
            + whole[place + 1 :]
        )
    cuts = data.draw(st.lists(st.integers(1, len(whole)), max_size=8), "cuts")
    places = sorted({0, *cuts, len(whole)})
    assert_same(whole, [whole[start:end] for start, end in pairwise(places)])
