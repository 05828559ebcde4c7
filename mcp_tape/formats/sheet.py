"""A session as text to edit, and back into its cassette, in one transaction or not at all.

An unedited frame keeps every byte. Other sessions are not touched, so they may still be recording. The edited session
may be recording too: frames that arrived after it was written out stay, and frames before them keep their numbers,
because the recorder goes on counting.

`@5 server` begins frame 5. Its text follows: JSON laid out; or free text after `| `; or, if that could not be typed, a
JSON string or `base64:`. Lines that begin with `#` are for the reader.
"""

from __future__ import annotations

import binascii
import json
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple, TextIO

from ..cassette import file, replace
from ..cassette.build import Builder, build_cassette
from ..cassette.change import derive, replace_sessions
from ..cassette.query.timeline import Label, label_frames, last_seq
from ..cassette.reader import Cassette, Session
from ..cassette.text.read import kind_of
from ..wire import jsontext
from ..wire.channels import PIPES, STDIO
from ..wire.frames import Frame, Message
from ..wire.ledger import Ledger
from .pretty import is_json, lay_out

_HEAD = re.compile(r"@(\d{1,18}|new)\s+(client|server)(?:\s+(?!control\b)([\w.-]+))?(\s+control)?\s*(?:#.*)?")
_PLAIN_CHANNEL = re.compile(r"[\w.-]+")
_CODED = "base64:"
_NOT_WHILE_OPEN = "the session may still be recorded: frames can be changed and deleted, but not added or moved"

HELP = """\
# {title}
#
# Edit, save, and leave the editor; to change nothing, close it without saving.
# "@5 server" begins frame 5, up to the next @. Frames that you do not touch stay the same, byte for byte.
# Delete a frame with its @ line. Add one with "@new client" or "@new server" and its text below.
# A text is JSON; or lines that each begin with "| "; or a "JSON string"; or base64: and the bytes.
# Lines that begin with # are ignored.
"""


class SheetError(ValueError):
    """A text that is not a session, and the line with the error."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")


class Edit(NamedTuple):
    """Counts of edited frames."""

    changed: int
    added: int
    removed: int


class WrittenSession(NamedTuple):
    """A session that was written out, and the digest that later shows whether it changed."""

    session: Session
    last: int  # number of its last frame; more may follow while it is open
    is_open: bool
    digest: str


class EditedFrame(NamedTuple):
    """A frame that was read back, and its old number; None if it is new."""

    frame: Frame
    messages: list[Message]
    seq: int | None
    edited: bool  # its text changed
    changed: bool  # its text, number, sender or channel changed
    line: int


class _Block(NamedTuple):
    line: int
    seq: int | None
    sender: str
    channel: str | None
    control: bool
    body: list[str]


def write(path: str, number: int | None, out: TextIO) -> WrittenSession:
    """Write a session as text: the newest one, without a number."""
    with Cassette(path) as cassette:
        session = cassette.session(number)
        is_open = session.ended_at is None and file.may_be_recorded(cassette.connection)
        last = last_seq(cassette, session.id)
        server = " ".join(filter(None, (session.server_name, session.server_version)))
        title = f"Session {session.id} of {os.path.basename(path)}, {server or session.transport}"
        out.write(HELP.format(title=title.encode("ascii", "backslashreplace").decode().replace("\n", " ")))
        out.writelines(_texts(label_frames(cassette, session.id, _until(last, cassette.frames(session.id)))))
        return WrittenSession(
            session, last, is_open, replace_sessions.digest(_until(last, cassette.frames(session.id)))
        )


def put_back(path: str, written: WrittenSession, lines: Iterable[str]) -> Edit:
    """Replace the session by the edited one. A SheetError or CassetteError means that nothing has changed."""
    session, last = written.session.id, written.last if written.is_open else None
    with replace.beside(path) as part:
        with build_cassette(part.file, path) as builder:
            done, unfounded = _build(path, written, lines, builder)
        if any(done):
            replace_sessions.put_back(path, session, part.file, written.digest, last, unfounded)
    return done


def _build(path: str, written: WrittenSession, lines: Iterable[str], builder: Builder) -> tuple[Edit, set[str]]:
    """Rebuild the session; return how it was edited, and the facts that its frames no longer state."""
    session, last = written.session, written.last
    with Cassette(path) as cassette:
        keys = derive.hidden_keys(cassette, session.id)
        builder.begin(session._asdict())
        seen: set[int] = set()
        changed = added = 0
        for row in read_frames(lines, lambda seq: cassette.frame(session.id, seq) if seq <= last else None):
            if written.is_open and row.frame.seq != row.seq:
                raise SheetError(row.line, _NOT_WHILE_OPEN)
            builder.add(row.frame, row.messages, None if row.edited or row.seq is None else keys.get(row.seq))
            if row.seq is None or row.seq in seen:
                added += 1
                continue
            seen.add(row.seq)
            changed += row.changed
        removed = replace_sessions.count_until(cassette, session.id, last) - len(seen)
        unfounded = builder.unfounded_facts()
        if unfounded:
            unfounded &= _facts(_until(last, cassette.frames(session.id)))
            builder.forget(unfounded)
    if removed and not builder.frames:  # more likely a truncated file than intended
        raise SheetError(1, f"no frame is left; to remove the session: mcp-tape rm --session {session.id} FILE")
    return Edit(changed, added, removed), unfounded


def _facts(frames: Iterable[Frame]) -> set[str]:
    """The session facts that frames state, such as the names of both sides."""
    ledger = Ledger()
    for frame in frames:
        ledger.derive(frame)
    return set(ledger.facts)


def _until(last: int, frames: Iterable[Frame]) -> Iterator[Frame]:
    return takewhile(lambda frame: frame.seq <= last, frames)


def _texts(frames: Iterable[tuple[Frame, list[Label]]]) -> Iterator[str]:
    for frame, labels in frames:
        channel = f" {frame.channel}" if frame.channel != STDIO and _is_plain(frame.channel) else ""
        words = ", ".join(filter(None, (label.words() for label in labels))) or frame.kind
        what = "" if frame.kind == "control" else f"  # {' '.join(json.dumps(words)[1:-1].split())}"
        yield f"\n@{frame.seq} {frame.sender}{channel}{' control' if frame.kind == 'control' else ''}{what}\n"
        yield body(frame) + "\n"


def body(frame: Frame) -> str:
    try:
        text = frame.text.decode()
    except UnicodeDecodeError:
        return f"{_CODED} {b64encode(frame.text).decode()}"
    if text.lstrip()[:1] in ("{", "[") and is_json(text):
        return lay_out(text)
    if text.isprintable() and text == text.rstrip():
        return f"| {text}".rstrip()
    return json.dumps(text, ensure_ascii=not text.isprintable())


def read_frames(lines: Iterable[str], original: Callable[[int], Frame | None]) -> Iterator[EditedFrame]:
    """Parse the frames of a text. `original` returns the frame that had a number."""
    last: Frame | None = None
    for block in _blocks(lines):
        row = _row(block, original, last)
        last = row.frame
        yield row


def _blocks(lines: Iterable[str]) -> Iterator[_Block]:
    block: _Block | None = None
    for number, line in enumerate(lines, 1):
        line = line.rstrip()
        if line.startswith("@"):
            if block is not None:
                yield block
            block = _head(number, line)
        elif block is not None and not line.startswith("#"):
            block.body.append(line)
        elif line.lstrip("\ufeff") and not line.lstrip("\ufeff").startswith("#"):
            raise SheetError(number, "a frame begins with a line such as: @5 server")
    if block is not None:
        yield block


def _head(number: int, line: str) -> _Block:
    found = _HEAD.fullmatch(line)
    if found is None:
        raise SheetError(number, f"{line[:60]!r} begins no frame; write e.g. @5 server, or @new client")
    seq = None if found[1] == "new" else int(found[1])
    return _Block(number, seq, found[2], found[3], bool(found[4]), [])


def _row(block: _Block, original: Callable[[int], Frame | None], last: Frame | None) -> EditedFrame:
    before = None if block.seq is None else original(block.seq)
    if block.seq is not None and before is None:
        raise SheetError(block.line, f"there was no frame {block.seq}; a new one begins with @new {block.sender}")
    line_end = b"\n" if block.channel in (None, *PIPES) and not block.control else b""
    frame = before or Frame(0, last.at if last else 0, "client", STDIO, "noise", b"", line_end)
    channel = block.channel or (frame.channel if before and not _is_plain(frame.channel) else STDIO)
    lines = _trim(block.body)
    touched = before is None or lines != [line.rstrip() for line in body(before).split("\n")]
    text = _text(block, lines) if touched else frame.text
    kind = "control" if block.control else None if frame.kind == "control" else frame.kind
    found, messages = kind_of(kind, channel, text, whole=frame.head is None or bool(frame.eol))
    after = last.seq if last else 0
    seq = frame.seq if before and frame.seq > after else after + 1
    new = frame._replace(seq=seq, sender=block.sender, channel=channel, kind=found, text=text)  # type: ignore[arg-type]
    return EditedFrame(new, messages, block.seq, touched, new != before, block.line)


def _is_plain(channel: str) -> bool:
    """True if a channel's name can be written in a head. All of ours can."""
    return channel != "control" and bool(_PLAIN_CHANNEL.fullmatch(channel))


def _trim(lines: list[str]) -> list[str]:
    full = [n for n, line in enumerate(lines) if line]
    return lines[full[0] : full[-1] + 1] if full else []


def _text(block: _Block, lines: list[str]) -> bytes:
    if not lines:
        raise SheetError(block.line, "this frame has no text; delete its @ line too, or write | for an empty line")
    first = block.line + 1 + block.body.index(lines[0])
    if all(line.startswith("|") for line in lines):
        return "\n".join(line[1:].removeprefix(" ") for line in lines).encode("utf-8", "surrogateescape")
    source = "\n".join(lines)
    if source.startswith(_CODED):
        try:
            return b64decode("".join(source[len(_CODED) :].split()), validate=True)
        except (binascii.Error, ValueError):
            raise SheetError(first, "this is not base64") from None
    _check(source, first)
    try:
        text = str(json.loads(source)) if source.startswith('"') else "".join(jsontext.TOKEN.findall(source))
        return text.encode()
    except UnicodeEncodeError:
        raise SheetError(first, "half a character cannot be kept; write it as an escape within JSON") from None


def _check(source: str, first: int) -> None:
    try:
        jsontext.loads(source)
        if source[0] in '{["':
            return
    except RecursionError:
        if jsontext.is_well_formed(source):
            return
    except ValueError as error:
        _point_at(source, first, error)
    raise SheetError(first, "this is not a JSON object, array or string; put | before each line of free text")


def _point_at(source: str, first: int, error: ValueError) -> None:
    if source[0] not in '{["':
        raise SheetError(first, "this is not JSON; put | before each line of free text") from None
    try:
        json.loads(source)
    except json.JSONDecodeError as found:
        line, message = first + found.lineno - 1, f"{found.msg} (column {found.colno})"
        raise SheetError(line, f"this is not JSON: {message}") from None
    raise SheetError(first, f"this is not JSON: {error}") from None
