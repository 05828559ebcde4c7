"""Bytes to frames: any input, split anywhere, is kept exactly."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.wire.frames import Frame, LedgerEntry, Side
from mcp_tape.wire.framing import Line, Lines
from tests.support.decks import OneSession
from tests.support.fuzzing import examples
from tests.support.running import frames as frames_on
from tests.support.streams import Fed, byte_by_byte, pieces, recorded


def lines_of(data: list[bytes], limit: int = 1 << 20) -> list[Line]:
    lines = Lines(limit)
    return [line for piece in data for line in lines.feed(piece)] + lines.close()


def joined(lines: list[Line]) -> bytes:
    return b"".join(text + eol for text, eol in lines)


@given(pieces())
def test_lines_put_together_again_are_the_stream(data: list[bytes]) -> None:
    assert joined(lines_of(data)) == b"".join(data)


@given(pieces())
def test_where_a_stream_was_split_does_not_show(data: list[bytes]) -> None:
    whole = lines_of([b"".join(data)] if data else [])
    assert lines_of(data) == whole
    assert lines_of(byte_by_byte(data)) == whole


@given(pieces())
def test_a_line_holds_no_newline_and_only_the_last_one_lacks_its_own(data: list[bytes]) -> None:
    lines = lines_of(data)
    assert not any(b"\n" in text for text, _ in lines)
    assert all(eol in (b"\n", b"\r\n") for _, eol in lines[:-1])
    assert b"".join(data).count(b"\n") == sum(bool(eol) for _, eol in lines)


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a", [(b"a", b"")]),
        (b"\n", [(b"", b"\n")]),
        (b"\n\n", [(b"", b"\n"), (b"", b"\n")]),
        (b"a\r\nb\rc\n", [(b"a", b"\r\n"), (b"b\rc", b"\n")]),
        (b"a\r", [(b"a\r", b"")]),
        (b"\r\r\n", [(b"\r", b"\r\n")]),
        (b"a\0b\n\xff", [(b"a\0b", b"\n"), (b"\xff", b"")]),
        ("a\x0b\x0c\x1c\x85\u2028b\n".encode(), [("a\x0b\x0c\x1c\x85\u2028b".encode(), b"\n")]),
    ],
)
def test_only_a_newline_ends_a_line(data: bytes, lines: list[Line]) -> None:
    assert lines_of([data] if data else []) == lines
    assert lines_of(byte_by_byte([data])) == lines


@given(pieces(), st.integers(1, 30))
def test_a_line_over_the_limit_comes_out_in_pieces_and_loses_nothing(data: list[bytes], limit: int) -> None:
    assert joined(lines_of(data, limit)) == b"".join(data)
    assert joined(lines_of(byte_by_byte(data), limit)) == b"".join(data)


@given(pieces(), st.integers(1, 30))
def test_the_memory_for_a_line_is_bounded_and_a_split_is_marked(data: list[bytes], limit: int) -> None:
    lines = Lines(limit)
    got = [line for byte in byte_by_byte(data) for line in lines.feed(byte)] + lines.close()
    assert all(len(text) <= limit for text, _ in got)
    assert lines.split == any(len(line) >= limit for line in b"".join(data).split(b"\n"))


# The tape ----------------------------------------------------------------------------------------------

STREAMS: list[tuple[Side, str]] = [("client", "stdio"), ("server", "stdio"), ("server", "stderr")]


@st.composite
def conversations(draw: st.DrawFn) -> list[Fed]:
    """The pieces of three streams, mixed in any order."""
    left = {stream: draw(pieces()) for stream in STREAMS}
    mixed: list[Fed] = []
    while any(left.values()):
        side, channel = draw(st.sampled_from([stream for stream in STREAMS if left[stream]]))
        mixed.append((side, channel, left[side, channel].pop(0)))
    return mixed


def exported(frames: list[Frame], side: Side) -> bytes:
    kept = [frame for frame in frames if frame.sender == side and frame.kind in ("message", "batch", "noise")]
    return b"".join(frame.text + frame.eol for frame in kept)


def sent(conversation: list[Fed], side: Side, channel: str) -> bytes:
    return b"".join(data for s, c, data in conversation if (s, c) == (side, channel))


@given(conversations())
def test_a_tape_keeps_every_stream_exactly(conversation: list[Fed]) -> None:
    frames = [frame for frame, _ in recorded(conversation)[1]]
    assert exported(frames, "client") == sent(conversation, "client", "stdio")
    assert exported(frames, "server") == sent(conversation, "server", "stdio")
    stderr = [frame.text + frame.eol for frame in frames if frame.kind == "stderr"]
    assert b"".join(stderr) == sent(conversation, "server", "stderr")


@given(conversations())
def test_frames_are_numbered_without_a_gap_and_in_the_order_of_time(conversation: list[Fed]) -> None:
    tape, kept = recorded(conversation)
    assert len(kept) == tape.frames
    # A frame takes one number, and a batch one for each message.
    taken = [max(len(entries), 1) for _, entries in kept]
    assert [frame.seq for frame, _ in kept] == [1 + sum(taken[:before]) for before in range(len(taken))]
    assert sorted(frame.at for frame, _ in kept) == [frame.at for frame, _ in kept]


@given(pieces())
def test_frames_do_not_depend_on_how_their_bytes_arrive(data: list[bytes]) -> None:
    def kinds(split: list[bytes]) -> list[tuple[str, bytes, int]]:
        kept = recorded([("client", "stdio", piece) for piece in split])[1]
        return [(frame.kind, frame.text, len(entries)) for frame, entries in kept]

    assert kinds(data) == kinds(byte_by_byte(data))


def test_a_tape_says_that_a_line_was_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_tape.record.tape.Lines", partial(Lines, limit=10))
    tape, kept = recorded([("client", "stdio", b"123456789\n"), ("server", "stdio", b"12345")])
    assert tape.incomplete is None
    tape, kept = recorded([("client", "stdio", b"1234567890"), ("client", "stdio", b"1\n")])
    assert tape.incomplete == "a line was too long to be kept in one piece"
    assert exported([frame for frame, _ in kept], "client") == b"12345678901\n"


@examples(40)
@given(conversation=conversations())
def test_a_cassette_keeps_every_stream_exactly(
    tmp_path_factory: pytest.TempPathFactory, conversation: list[Fed]
) -> None:
    path = tmp_path_factory.mktemp("any") / "tape.db"
    frames = kept_on(path, recorded(conversation)[1])
    assert exported(frames, "client") == sent(conversation, "client", "stdio")
    assert exported(frames, "server") == sent(conversation, "server", "stdio")


def kept_on(path: Path, batch: list[tuple[Frame, list[LedgerEntry]]]) -> list[Frame]:
    writer = OneSession(path, {"started_at": "", "transport": "stdio", "target": {}, "recorder": "test"})
    writer.append(batch, {})
    writer.finish({"ended_at": ""})
    writer.close()
    return frames_on(path)
