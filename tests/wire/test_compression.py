"""Compressed bodies are read however they were split, and never beyond a limit."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given

from mcp_tape.wire.compression import Decoder, readable_codings
from tests.support.streams import byte_by_byte, pieces
from tests.wire.test_framing_events import streams


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "X-GZip": gzip.compress,
    " deflate ": zlib.compress,
    "deflate": raw_deflate,
}


def plain(coding: str, data: list[bytes]) -> bytes:
    decoder = Decoder(coding)
    return b"".join(piece for part in data for piece in decoder.feed(part))


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize("coding", CODINGS)
@given(data=pieces())
def test_a_compressed_body_is_read_however_it_was_split(coding: str, data: list[bytes]) -> None:
    packed, body = CODINGS[coding](b"".join(data)), b"".join(data)
    assert plain(coding, [packed]) == body
    assert plain(coding, byte_by_byte([packed])) == body


@given(pieces())
def test_a_body_may_be_compressed_piece_by_piece(data: list[bytes]) -> None:
    assert plain("gzip", [gzip.compress(piece) for piece in data]) == b"".join(data)
    assert plain("gzip", [b"".join(gzip.compress(piece) for piece in data)]) == b"".join(data)


@given(pieces(streams))
def test_each_event_of_a_compressed_stream_is_there_when_it_was_sent(data: list[bytes]) -> None:
    packer, decoder = zlib.compressobj(wbits=31), Decoder("gzip")
    for piece in data:
        packed = packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH)
        assert b"".join(decoder.feed(packed)) == piece


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("more", [0, 1, 100, 257, 1 << 20])
def test_a_decompression_bomb_comes_in_pieces_and_complete(coding: str, more: int) -> None:
    size = (1 << 20) + more
    got = list(Decoder(coding).feed(CODINGS[coding](bytes(size))))
    assert max(map(len, got)) <= 1 << 20
    assert sum(map(len, got)) == size


@pytest.mark.parametrize(
    ("coding", "data"),
    [("gzip", b"{}"), ("br", b"{}"), ("gzip, gzip", b"{}"), ("", b"{}"), ("deflate", b"\xff{}")],
)
def test_an_unreadable_body_is_reported(coding: str, data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        list(Decoder(coding).feed(data))


@pytest.mark.parametrize(
    ("asked", "passed_on"),
    [
        ("", "identity"),
        ("br", "identity"),
        ("*", "identity"),
        ("gzip", "gzip"),
        ("gzip, deflate, br, zstd", "gzip, deflate"),
        ("br;q=1.0,GZip;q=0.8 , x-gzip", "GZip;q=0.8, x-gzip"),
        ("gzip ; q=0.5", "gzip ; q=0.5"),
    ],
)
def test_only_readable_codings_are_requested(asked: str, passed_on: str) -> None:
    assert readable_codings(asked) == passed_on
