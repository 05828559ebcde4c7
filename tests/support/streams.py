"""Streams of bytes, split anywhere, and their recordings."""

from __future__ import annotations

from hypothesis import strategies as st

from mcp_tape.record.tape import Tape
from mcp_tape.wire.frames import Frame, LedgerEntry, Side

MESSAGES = [
    b'{"jsonrpc":"2.0","id":1,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"result":{}}',
    b'{"jsonrpc":"2.0","method":"\xc3\xa4"}',
    b'[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":2,"method":"b"}]',
    b'{"jsonrpc":"2.0","id":1e2,"method":"\\ud800"}',
]
ODD = [b"\n", b"\r\n", b"\r", b"\0", b"\xff", b"\xc3", b" ", b"{", b"[", b'"', b"\xef\xbb\xbf", b"\xe2\x80\xa8"]
streams = st.lists(st.sampled_from([*MESSAGES, *ODD, b"\n", b"\n"]) | st.binary(max_size=20), max_size=25).map(b"".join)


@st.composite
def pieces(draw: st.DrawFn, source: st.SearchStrategy[bytes] = streams) -> list[bytes]:
    """Any bytes, split anywhere."""
    data = draw(source)
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True) if data[start:end]]


def byte_by_byte(data: list[bytes]) -> list[bytes]:
    return [bytes([byte]) for byte in b"".join(data)]


Fed = tuple[Side, str, bytes]


def recorded(conversation: list[Fed]) -> tuple[Tape, list[tuple[Frame, list[LedgerEntry]]]]:
    kept: list[tuple[Frame, list[LedgerEntry]]] = []
    tape = Tape(lambda frame, entries: kept.append((frame, entries)), None)
    for at, (side, channel, data) in enumerate(conversation):
        tape.feed(side, channel, data, at)
    tape.end_all(len(conversation))
    return tape, kept
