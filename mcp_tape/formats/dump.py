"""A cassette as text that changes only when the meaning does, for git diff.

Omits times, frame numbers, the name of the recorder, and how and when streams end. Frames that race with the
conversation come after it: HTTP events of each channel, unsolicited server messages on a GET stream, and lines of
stderr.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..cassette.query import filters
from ..cassette.query.timeline import Label, describe_event, label_frames
from ..cassette.reader import Cassette, Session
from ..cassette.text.safe_lines import escape_control_characters
from ..wire.channels import is_http, is_listen_stream
from ..wire.frames import Frame
from .pretty import ARROWS, canonical_pieces

_FACTS = (
    "label", "transport", "target", "protocol_version", "client_name", "client_version", "server_name",
    "server_version", "exit_code", "note", "extends", "incomplete",
)  # fmt: skip
_ENDS = ("close", "exit", "open", "comment")  # whose time depends on chance or on a timeout
_STDERR = "kind:stderr"


class DumpBlock(NamedTuple):
    """A message, an event or a line of stderr."""

    session: int
    at: int
    sender: str
    what: str
    text: Iterable[str]  # in pieces, because it may be large


def dump(cassette: Cassette, sessions: Iterable[Session], times: bool = False) -> Iterator[str]:
    """Yield the text of sessions, in pieces."""
    for session in sessions:
        yield f"session {session.id}\n"
        yield from _row(session)
        for block in blocks(cassette, session.id):
            time = f"  {block.at / 1000:.3f} ms" if times else ""
            yield f"\n{ARROWS.get(block.sender, '?')} {block.what}{time}\n"
            yield from block.text
            yield "\n"
        yield "\n"


def blocks(cassette: Cassette, session: int) -> Iterator[DumpBlock]:
    """Yield the messages of a session, then the events of each channel, then stderr."""
    racing: list[tuple[int, str, int]] = []
    for frame, labels in label_frames(cassette, session, cassette.frames(session)):
        if frame.kind == "stderr" or _is_end(frame):
            continue
        if _races(frame, labels):
            racing.append((len(frame.channel), frame.channel, frame.seq))  # get-2 before get-10
        else:
            yield _block(session, frame, _what(frame, labels), _body(frame))
    for _, _, seq in sorted(racing):
        found = cassette.frame(session, seq)
        for frame, labels in label_frames(cassette, session, [found] if found else []):
            yield _block(session, frame, _what(frame, labels), _body(frame))
    for frame in filters.frames(cassette, session, filters.parse(_STDERR)):
        if frame.kind == "stderr":
            yield _block(session, frame, "stderr", _margin(frame.text))


def _races(frame: Frame, labels: list[Label]) -> bool:
    """True if a frame's place among the messages depends on chance, because it has a connection of its own."""
    unasked = is_listen_stream(frame.channel) and all(label.exchange is None for label in labels)
    return frame.kind == "control" or unasked


def _is_end(frame: Frame) -> bool:
    """True for the end of a stream. Clients leave once they are done, sometimes before the server closes."""
    event = describe_event(frame)[0] if frame.kind == "control" else ""
    return event in _ENDS or (event == "abort" and frame.sender == "client")


def _row(session: Session) -> Iterator[str]:
    row = session._asdict()
    for name in _FACTS:
        if row[name] is not None:
            yield f"  {name}: {escape_control_characters(_one_line(str(row[name])))}\n"


def _block(session: int, frame: Frame, what: str, text: Iterable[str]) -> DumpBlock:
    return DumpBlock(
        session,
        frame.at,
        frame.sender,
        escape_control_characters(_one_line(what)),
        map(escape_control_characters, text),
    )


def _what(frame: Frame, labels: list[Label]) -> str:
    refused = any(label.status == "refused" for label in labels)
    if frame.kind == "control":
        what = " ".join(describe_event(frame)).rstrip()
    elif not labels or frame.kind == "batch" or (frame.kind == "noise" and not refused):
        what = frame.kind
    else:
        what = labels[0].words() or labels[0].kind
    return what + (f" on {frame.channel}" if is_http(frame.channel) else "")


def _body(frame: Frame) -> Iterable[str]:
    text = canonical_pieces(frame.text) if frame.kind in ("message", "batch", "control") else None
    return text or _margin(frame.text)


def _margin(text: bytes) -> Iterator[str]:
    """Free text with a margin, so that none of its lines looks like ours."""
    for number, line in enumerate(text.decode("utf-8", "backslashreplace").split("\n")):
        yield ("\n" if number else "") + f"| {line}".rstrip()


def _one_line(text: str) -> str:
    return " ".join(text.split("\n"))
