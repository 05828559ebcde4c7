"""JSON lines read back into a cassette.

`write` made them, and they may have been edited since, or written by hand: only `sender` and `text` are required. By
default a frame comes right after the previous one, on stdio, with a newline at its end.
"""

from __future__ import annotations

from ...errors import CassetteError
from ...light import NamedTuple
from ...wire import jsontext
from ...wire.channels import PIPES, STDERR, STDIO
from ...wire.frames import Frame, facts, parse
from ..batch import SESSION
from ..file import storable_text
from ..schema import MOST_SESSIONS

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from ...wire.frames import FrameKind, Message
    from ..build import Builder

FORMAT = 1  # of the lines; a reader refuses a newer one
_LARGEST = 1 << 63
_CONFLICT = (b"<<<<<<<", b"=======", b">>>>>>>", b"|||||||")  # https://git-scm.com/docs/git-merge
_BOM = b"\xef\xbb\xbf"
_NUMBERS = ("exit_code", "extends")
_NEEDED = ("started_at", "transport", "target", "recorder")
_TEXT_KINDS = ("message", "batch", "noise")


def is_ours(head: bytes) -> bool:
    """True if a file begins like our JSON lines: its first line is a session, or has a sender.

    The line may be malformed or cut off: the reader then reports that.
    """
    line = head.removeprefix(_BOM).lstrip().split(b"\n", 1)[0]
    if not line.startswith(b"{") or b'"sender"' not in line:
        return False
    row = facts(line)  # another tool's recording may have senders further inside
    return "sender" in row if row else True


class LoadedCounts(NamedTuple):
    """The number of loaded frames, and each session with the one that it extends."""

    frames: int
    sessions: dict[int, int | None]


def load(lines: Iterable[bytes], name: str, builder: Builder, defaults: Mapping[str, Any]) -> LoadedCounts:
    """Read every line. `defaults`: of a session's row. CassetteError names a malformed line."""
    last: Frame | None = None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = _object(line.removeprefix(_BOM) if number == 1 else line)
            if row.get("kind") == "session":
                builder.begin({**defaults, **_read_session(row, builder.sessions)})
                last = None
                continue
            if not builder.sessions:
                builder.begin(defaults)
            last, messages = _read_frame(row, line, last)
            builder.add(last, messages, _read_keys(row, last.text))
        except _BadLineError as wrong:
            raise CassetteError(f"{name}, line {number}: {wrong}") from None
    if not builder.sessions:
        raise CassetteError(f"{name} holds no frame; write it with: mcp-tape convert tape.db {name}")
    builder.end()
    return LoadedCounts(builder.frames, dict(builder.sessions))


class _BadLineError(ValueError):
    """A line that cannot be loaded."""


def kind_of(kind: str | None, channel: str, text: bytes, whole: bool) -> tuple[FrameKind, list[Message]]:
    """The kind of a frame, and the messages in its text. A frame that was cut off in transit has none."""
    if channel == STDERR and kind != "control":
        return "stderr", []
    if kind in ("control", "stderr"):
        return kind, []  # type: ignore[return-value]
    return parse(text) if whole else ("noise", [])


def _object(line: bytes) -> dict[str, Any]:
    if line.startswith(b"SQLite format 3\0"):
        raise _BadLineError("this is a database, not JSON lines; write them first: mcp-tape convert tape.db tape.jsonl")
    try:
        row = jsontext.loads(line.decode())
    except UnicodeDecodeError as error:
        raise _BadLineError(f"byte {error.start + 1} is not UTF-8; save the file as UTF-8") from None
    except RecursionError:
        raise _BadLineError("it is nested too deep; a line has its text in a string") from None
    except ValueError as error:
        if line.startswith(_CONFLICT):
            raise _BadLineError(
                "git has left a conflict here; keep one side, and remove the lines with marks"
            ) from None
        if not line.endswith(b"\n") and line.startswith(b"{"):
            raise _BadLineError("it was cut off here; copy the whole file again, or remove this line") from None
        column = getattr(error, "colno", None)
        where = f" (column {column}: {getattr(error, 'msg', error)})" if column else ""
        raise _BadLineError(
            f"this is not JSON{where}; each line is one JSON object, as mcp-tape convert writes it"
        ) from None
    if not isinstance(row, dict):
        raise _BadLineError("this is not a JSON object; each line must be one, as mcp-tape convert writes it")
    return row


def _read_session(row: dict[str, Any], known: Mapping[int, object]) -> dict[str, Any]:
    if _number(row, "format", FORMAT) > FORMAT:
        raise _BadLineError("a newer mcp-tape wrote this; upgrade with: pip install -U mcp-tape")
    given = [name for name in SESSION if name in row]
    found = {name: row[name] for name in given if not (name in _NEEDED and row[name] is None)}
    for name, value in found.items():
        if value is None:
            continue
        if name in _NUMBERS:
            _number(row, name)
        elif name not in ("target", "key_version") and not _is_text(value):
            raise _BadLineError(f"{name} is not a string")
    found = {name: value for name, value in found.items() if name != "id"}
    target = found.get("target")
    if not (target is None or isinstance(target, (dict, list)) or _is_text(target)):
        raise _BadLineError('target is neither text nor an object such as {"command": ["server"]}')
    if row.get("session") is not None:
        found["id"] = _number(row, "session")
        if not 0 < found["id"] <= MOST_SESSIONS:
            raise _BadLineError(f"session is not a number from 1 to {MOST_SESSIONS}; leave it out to have it numbered")
        if found["id"] in known:
            raise _BadLineError(f"session {found['id']} is here twice; leave out its number to have it numbered")
    return found


def _read_frame(row: dict[str, Any], line: bytes, last: Frame | None) -> tuple[Frame, list[Message]]:
    """Read a frame from its line. The order of lines counts: a number that does not increase is replaced."""
    sender = row.get("sender")
    if sender not in ("client", "server"):
        raise _BadLineError('it needs a sender: "sender": "client" or "server"')
    channel, kind = row.get("channel", STDIO), row.get("kind")
    lines = channel in PIPES and kind != "control"  # otherwise a body, which has no line end
    eol = row.get("eol", "\n" if lines or "head" in row else "")
    if not _is_text(channel) or not _is_text(eol) or not eol.isascii():
        raise _BadLineError("channel and eol are texts")
    if kind not in (None, "stderr", "control", *_TEXT_KINDS):
        raise _BadLineError(f"{kind!r} is not a kind; leave it out, and the text decides")
    text = _read_text(row, line)
    head = _read_data(row, "head", "head_base64")
    found, messages = kind_of(kind, channel, text, whole=head is None or bool(eol))
    before, at = (last.seq, last.at) if last else (0, 0)
    seq = _number(row, "seq", before + 1)
    seq = seq if seq > before or last is None else before + 1
    return Frame(
        seq, _number(row, "at", at), sender, channel, found, text, eol.encode(), head, _number(row, "redactions", 0)
    ), messages


def _read_text(row: dict[str, Any], line: bytes) -> bytes:
    text = _read_data(row, "text", "base64")
    if text is not None:
        return text
    if isinstance(row.get("message"), (dict, list)):  # easier by hand; its numbers stay as written
        source = line.decode("utf-8", "replace")
        start, end = jsontext.find(source, ("message",)) or (0, 0)
        return source[start:end].encode()
    raise _BadLineError('it needs a text: "text": "…", or "base64", or "message": {…}')


def _read_data(row: dict[str, Any], as_text: str, as_base64: str) -> bytes | None:
    value = row.get(as_text)
    if _is_text(value):
        return str(value).encode()
    if value is not None:
        raise _BadLineError(f"{as_text} is a string that UTF-8 can hold" + _hint(value))
    coded = row.get(as_base64)
    if coded is None:
        return None
    from base64 import b64decode  # imported late: most texts are not base64

    try:
        return b64decode(coded, validate=True)
    except (ValueError, TypeError):
        raise _BadLineError(f"{as_base64} is not base64") from None


def _hint(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return '; for JSON, write "message": {…}'
    return "; write half a character as an escape within the text: \\\\ud800" if isinstance(value, str) else ""


def _read_keys(row: dict[str, Any], text: bytes) -> dict[int, bytes] | None:
    """The line's keys, if they belong to its text."""
    keys = row.get("keys")
    if not isinstance(keys, dict) or keys.get("of") != fingerprint(text):
        return None
    try:
        return {int(part): bytes.fromhex(key) for part, key in keys.items() if part != "of"}
    except (ValueError, TypeError):
        raise _BadLineError("keys are not as mcp-tape convert writes them; leave them out") from None


def _number(row: dict[str, Any], name: str, default: int = 0) -> int:
    value = row.get(name)
    if value is None:
        return default
    if type(value) is not int or not -_LARGEST <= value < _LARGEST:
        raise _BadLineError(f"{name} is not a whole number")
    return value


def _is_text(value: Any) -> bool:
    """True for a string that SQLite can hold: one without lone surrogates."""
    return isinstance(value, str) and storable_text(value) == value


def fingerprint(text: bytes) -> str:
    """A digest that shows whether keys belong to a text."""
    from hashlib import sha256

    return sha256(text).hexdigest()[:16]
