"""Event streams and whole bodies: the result does not depend on how they are split."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_tape.wire.framing import Event, Events, Line, WholeBody, encode, field
from tests.support.streams import byte_by_byte, pieces

BOM = b"\xef\xbb\xbf"
# Frequent blank lines, and every kind of line end.
TOKENS = [
    b"\n", b"\r\n", b"\r", b"\n\n", b"\r\r", b"\r\n\r\n", b"data", b"data:", b"data: ", b"data:  x", b'data: {"id":1}',
    b"id: 7", b"id", b"retry: 10", b"event: message", b": ping", b":", b"database: x", b" data: x", b"x", b"\0",
    b"\xff",
]  # fmt: skip
streams = st.lists(st.sampled_from(TOKENS) | st.binary(max_size=6), max_size=25).map(b"".join)
_LINE = re.compile(rb"([^\r\n]*)(\r\n|\r|\n)")


def events_of(data: list[bytes], limit: int = 1 << 20) -> list[Event]:
    events = Events(limit)
    return [event for piece in data for event in events.feed(piece)] + events.close()


def dispatched(data: bytes) -> list[Event]:
    """The events of a complete stream by the standard, without an unfinished last one."""
    found: list[Event] = []
    head, values, eol = b"", None, b"\n"
    for number, (line, end) in enumerate(_LINE.findall(data)):
        bare = line.removeprefix(BOM) if number == 0 else line
        name, _, value = bare.partition(b":")
        if bare and name == b"data":
            values, eol = [*(values or []), value.removeprefix(b" ")], end
        elif bare:
            head += line + end
        elif head or values is not None:
            says_something = re.search(rb"(?:^|[\r\n])[^:\r\n]", head) is not None
            text = b"" if values is None and says_something else None if values is None else b"\n".join(values)
            found.append(Event(head, text, eol))
            head, values, eol = b"", None, b"\n"
    return found


# Event streams -----------------------------------------------------------------------------------------


@given(pieces(streams))
def test_where_an_event_stream_was_split_does_not_show(data: list[bytes]) -> None:
    whole = events_of([b"".join(data)])
    assert events_of(data) == whole
    assert events_of(byte_by_byte(data)) == whole


@given(streams)
def test_an_event_is_there_with_its_last_byte_and_not_before(data: bytes) -> None:
    """A CR may be the first half of a line end, but a reader must not wait for the second half."""
    events = Events()
    got: list[Event] = []
    for at in range(len(data)):
        got += events.feed(data[at : at + 1])
        assert got == dispatched(data[: at + 1])


@given(pieces(streams))
def test_the_rest_at_the_end_is_one_event_marked_as_cut_off(data: list[bytes]) -> None:
    whole, got = dispatched(b"".join(data)), events_of(data)
    assert got[: len(whole)] == whole
    assert [event.eol for event in got[len(whole) :]] in ([], [b""])


@example([BOM])
@example([BOM, b"\r"])
@given(pieces(streams))
def test_pending_means_that_an_event_has_begun(data: list[bytes]) -> None:
    events = Events()
    for piece in data:
        events.feed(piece)
    assert events.pending == bool(events.close())
    assert not events.pending


@example([BOM])  # only a mark: an empty line
@example([b"x\n", BOM + b"data"])
@given(pieces(streams))
def test_no_line_but_the_data_is_lost_or_changed(data: list[bytes]) -> None:
    kept = b"".join(event.head for event in events_of([*data, b"\n\n"]))
    lines = _LINE.findall(b"".join(data) + b"\n\n")
    bare = [lines[0][0].removeprefix(BOM), *(line for line, _ in lines[1:])]
    others = [
        b"".join(line) for line, text in zip(lines, bare, strict=True) if text and text.partition(b":")[0] != b"data"
    ]
    assert kept == b"".join(others)


@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b"data: a\n\n", [Event(b"", b"a", b"\n")]),
        (b"data:a\r\n\r\n", [Event(b"", b"a", b"\r\n")]),
        (b"data:  a \r\r", [Event(b"", b" a ", b"\r")]),
        (b"data: a\ndata: b\rdata:\r\ndata\n\n", [Event(b"", b"a\nb\n\n", b"\n")]),
        (b"event: message\nid: 7\ndata: a\nretry: 5\n\n", [Event(b"event: message\nid: 7\nretry: 5\n", b"a", b"\n")]),
        (b"id: 7\ndata:\n\n", [Event(b"id: 7\n", b"", b"\n")]),  # priming
        (b"id: 7\n\nretry: 5\n\n", [Event(b"id: 7\n", b"", b"\n"), Event(b"retry: 5\n", b"", b"\n")]),
        (b": ping\r\n\r\n:\n\n", [Event(b": ping\r\n", None, b"\n"), Event(b":\n", None, b"\n")]),
        (b": ping\ndata: a\n\n", [Event(b": ping\n", b"a", b"\n")]),
        (BOM + b"data: a\n\n", [Event(b"", b"a", b"\n")]),
        (BOM + b"id: 7\ndata: a\n\n", [Event(BOM + b"id: 7\n", b"a", b"\n")]),
        (b"\n\r\n\r\r\n", []),
        (b"data: a", [Event(b"", b"a", b"")]),
        (b"data: a\r", [Event(b"", b"a", b"")]),
        (b"data: a\r\n", [Event(b"", b"a", b"")]),
        (b"id: 7\nda", [Event(b"id: 7\nda", b"", b"")]),
        (b": pin", [Event(b": pin", None, b"")]),
    ],
)
def test_events_as_servers_write_them(data: bytes, events: list[Event]) -> None:
    assert events_of([data]) == events
    assert events_of(byte_by_byte([data])) == events


@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b"id: 7\n" + BOM + b"data: a\n\n", [Event(b"id: 7\n" + BOM + b"data: a\n", b"", b"\n")]),
        (BOM + b"\ndata: a\n\n", [Event(b"", b"a", b"\n")]),
    ],
)
def test_a_byte_order_mark_counts_at_the_start_only(data: bytes, events: list[Event]) -> None:
    assert events_of([data]) == events


@pytest.mark.parametrize(
    ("head", "name", "value"),
    [
        (b"id: 7\n", b"id", "7"),
        (b"id:7\r\nid:  8\r", b"id", " 8"),
        (b"id\n", b"id", ""),
        (b"event: endpoint\r\nid: 1\r\n", b"event", "endpoint"),
        (b"identity: 7\n: id: 8\n id: 9\n", b"id", None),
        (b"id: a:b\n", b"id", "a:b"),
        (BOM + b"id: 7\n", b"id", "7"),
        (b"id: \xff\n", b"id", "\ufffd"),
        (b"", b"id", None),
    ],
)
def test_the_last_value_of_a_field_counts(head: bytes, name: bytes, value: str | None) -> None:
    assert field(head, name) == value
    assert Event(head, b"", b"\n").field(name) == value


@given(
    st.lists(st.sampled_from([b"id: 7", b"event: message", b"retry: 5", b": ping", b"x"]), max_size=3),
    st.lists(st.binary(max_size=10).map(lambda line: re.sub(rb"[\r\n]", b"", line)), min_size=1, max_size=4),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
)
def test_an_encoded_event_is_read_back(fields: list[bytes], lines: list[bytes], eol: bytes) -> None:
    head = b"".join(line + eol for line in fields)
    data = encode(head, b"\n".join(lines), eol)
    assert events_of(byte_by_byte([data])) == [Event(head, b"\n".join(lines), eol)]


@pytest.mark.parametrize("text", [b'{"a":\r\n1}', b'{"a":\r1}', b'{"a":\n1}'])
def test_a_line_break_of_any_kind_takes_another_data_line(text: bytes) -> None:
    assert encode(b"", text, b"\r\n") == b'data: {"a":\r\ndata: 1}\r\n\r\n'


@given(st.integers(0, 100), st.integers(1, 20))
def test_an_event_within_the_limit_is_never_cut(size: int, step: int) -> None:
    data = b"data: " + b"x" * size + b"\n\n"
    cut = [data[at : at + step] for at in range(0, len(data), step)]
    events = Events(limit=110)
    assert [event for piece in cut for event in events.feed(piece)] == [Event(b"", b"x" * size, b"\n")]
    assert not events.split


@given(pieces(streams), st.integers(1, 12))
def test_an_event_over_the_limit_is_cut_and_the_next_one_is_whole(data: list[bytes], limit: int) -> None:
    events, big = Events(limit), b"data: " + b"x" * 20 + b"\n\n"
    for byte in byte_by_byte([*data, b"\n\n", big]):
        events.feed(byte)
    assert events.split
    assert not events.pending
    assert events.feed(b"data: y\n\n")[-1].text == b"y"


# Whole bodies ------------------------------------------------------------------------------------------


def bodies_of(data: list[bytes], limit: int = 1 << 20) -> list[Line]:
    body = WholeBody(limit)
    return [line for piece in data for line in body.feed(piece)] + body.close()


@given(pieces())
def test_a_body_is_one_frame_however_it_came(data: list[bytes]) -> None:
    frames = bodies_of(data)
    assert b"".join(text + eol for text, eol in frames) == b"".join(data)
    assert len(frames) == bool(data)


@given(pieces(), st.integers(1, 30))
def test_a_body_over_the_limit_loses_nothing(data: list[bytes], limit: int) -> None:
    body = WholeBody(limit)
    frames = [line for byte in byte_by_byte(data) for line in body.feed(byte)] + body.close()
    assert b"".join(text + eol for text, eol in frames) == b"".join(data)
    assert body.split == (len(b"".join(data)) >= limit)


@pytest.mark.parametrize(
    ("body", "frames"),
    [
        (b"", []),
        (b'{"a":\n1}', [(b'{"a":\n1}', b"")]),
        (b"{}\n", [(b"{}", b"\n")]),
        (b"{}\r\n", [(b"{}", b"\r\n")]),
        (b"{}\n\n", [(b"{}\n", b"\n")]),
        (b"\n", [(b"", b"\n")]),
    ],
)
def test_the_line_end_behind_a_body_is_none_of_it(body: bytes, frames: list[Line]) -> None:
    assert bodies_of([body] if body else []) == frames
