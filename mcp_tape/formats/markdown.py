"""A session as Markdown for people: a heading for each exchange, and its messages in fences.

Recorded text cannot break out of its fence: https://spec.commonmark.org/0.31.2/#fenced-code-blocks
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from typing import NamedTuple

from ..cassette.query.exchanges import FAILED
from ..cassette.query.timeline import Label, describe_event, exchange_labels, frame_rows, label_frames
from ..cassette.reader import Cassette, Session
from ..cassette.text.safe_lines import escape_control_characters
from ..wire import jsontext
from ..wire.frames import Frame
from .pretty import ARROWS, LARGE, is_json, pieces_of_members

_FAILED = (*FAILED, "noise")
_ENDS = {"cancelled": "cancelled", "retry": "made again"}
_LONGEST = 200  # of a heading's words
_OURS = re.compile("[a-z][a-z-]{0,30}")


class _MessageText(NamedTuple):
    """The text of a frame, and the spans of its messages if it is a batch."""

    text: str
    spans: list[tuple[int, int]]

    def by(self, label: Label) -> str:
        return self.text[slice(*self.spans[label.part])] if 0 <= label.part < len(self.spans) else self.text


_NOTHING = _MessageText("", [])


def dump(cassette: Cassette, session: Session, frames: Iterable[Frame]) -> Iterator[str]:
    """Yield the text of a session, in pieces. An exchange is shown in full if these frames contain part of it."""
    yield from _title(session)
    shown: set[int] = set()
    for frame, found in label_frames(cassette, session.id, frames):
        if not found or frame.kind == "control":
            yield from _aside(frame)
            continue
        said = _message_text(frame) if any(label.exchange is None for label in found) else _NOTHING
        for label in found:
            if label.exchange is None:
                yield from _lone_message(said, label)
            elif label.exchange not in shown:
                shown.add(label.exchange)
                yield from _exchange(cassette, session.id, label.exchange)


def _title(session: Session) -> Iterator[str]:
    server = " ".join(filter(None, (session.server_name, session.server_version)))
    yield f"# Session {session.id}" + (f": {_code(server)}" if server else "") + "\n\n"
    client = " ".join(filter(None, (session.client_name, session.client_version)))
    facts = (
        ("Recorded", session.started_at), ("Protocol", session.protocol_version), ("Transport", session.transport),
        ("Name", session.label), ("Client", client), ("Target", session.target), ("Note", session.note),
    )  # fmt: skip
    yield from (f"- {name}: {_code(value)}\n" for name, value in facts if value)
    if session.exit_code:
        yield f"- **Exit code: {session.exit_code}**\n"
    if session.incomplete:
        yield f"- **Incomplete**: {_code(session.incomplete)}\n"
    yield "\n"


def _exchange(cassette: Cassette, session: int, number: int) -> Iterator[str]:
    members = exchange_labels(cassette, session, number)
    asked = [label for label in members if _asks(label, number)]
    answers = [label for label in members if _answers(label)]
    ending = _ending(asked, answers) if answers or not asked else _open_end(cassette, session, number)
    yield f"## {number}. {', '.join(map(_call, asked or members[:1]))}: {ending}\n\n"
    for seq, group in groupby(members, key=lambda label: label.seq):
        frame = cassette.frame(session, seq)
        if frame is not None:
            said = _message_text(frame)
            del frame  # it may be large
            for label in group:
                yield from _message(said.by(label), label, _role(label, number, len(asked) == 1))


def _ending(asked: list[Label], answers: list[Label]) -> str:
    if len(answers) < len(asked):
        return f"**{len(answers)} of {len(asked)} answered**"
    took = max((label.microseconds or 0 for label in answers), default=0)
    statuses = dict.fromkeys(_strong(label.status or "answered") for label in answers)
    return f"{', '.join(statuses)}, {took / 1000:.1f} ms"


def _open_end(cassette: Cassette, session: int, number: int) -> str:
    """Why there is no answer, if known, in the words of show."""
    statuses = [row.status for row in frame_rows(cassette, session, number) if row.kind == "request"]
    return ", ".join(dict.fromkeys(_ENDS.get(status or "", "**not answered**") for status in statuses))


def _asks(label: Label, number: int) -> bool:
    """True for a request that opened an exchange."""
    return label.seq == number and label.kind == "request"


def _answers(label: Label) -> bool:
    return label.microseconds is not None and label.sender == "server"


def _role(label: Label, number: int, only_one: bool) -> str:
    what = "request" if _asks(label, number) else "answer" if _answers(label) else ""
    if what:
        return what if only_one else f"{what} {_call(label)}"
    return _strong(label.kind) + (f" {_call(label)}" if label.method else "")


def _strong(word: str) -> str:
    return f"**{word}**" if word in _FAILED else _word(word)


def _word(word: str) -> str:
    """One of our words unchanged; any other is untrusted, and quoted."""
    return word if _OURS.fullmatch(word) else _code(word)


def _lone_message(said: _MessageText, label: Label) -> Iterator[str]:
    what = f"{_strong(label.kind)} from the {_word(label.sender)} {_call(label)}".rstrip()
    yield f"## {label.seq}. {_mark_status(what, label)}\n\n"
    yield from _message(said.by(label), label, "")


def _aside(frame: Frame) -> Iterator[str]:
    """Frames without a message: noise, stderr and events."""
    if frame.kind == "control":
        event, details = describe_event(frame)
        said = f" {_code(details)}" if details else ""
        yield f"*{frame.seq}. {_word(frame.sender)}: {_word(event)}*{said}\n\n"
        return
    yield f"**{frame.seq}. {'stderr' if frame.kind == 'stderr' else f'noise from the {_word(frame.sender)}'}**\n\n"
    yield from _fence(_text(frame), "text")


def _message(text: str, label: Label, what: str) -> Iterator[str]:
    if what:
        yield f"{ARROWS.get(label.sender, '?')} {_word(label.sender)}: {_mark_status(what, label)}\n\n"
    body = _body(text, label)
    if body is None:
        yield from _fence(text, "text")
    elif first := next(body, ""):
        yield from _fence(text, "json", chain((first,), body))


def _message_text(frame: Frame) -> _MessageText:
    text = _text(frame)
    return _MessageText(text, jsontext.element_spans(text) if frame.kind == "batch" else [])


def _text(frame: Frame) -> str:
    return frame.text.decode("utf-8", "backslashreplace")


def _mark_status(what: str, label: Label) -> str:
    return f"{what}, {_strong(label.status)}" if label.status in _FAILED else what


def _call(label: Label) -> str:
    return " ".join(_code(part) for part in (label.method, label.name) if part)


def _body(text: str, label: Label) -> Iterator[str] | None:
    """Yield the params, result or error of a message, if it has one; None if it is not JSON."""
    if label.kind == "noise" or not (len(text) > LARGE or is_json(text)):  # a large one was JSON when recorded
        return None
    names = ("params",) if label.kind != "response" else ("error", "result")
    return pieces_of_members(text, names)


def _code(text: str) -> str:
    """A code span on one line, which its text cannot end."""
    plain = escape_control_characters(" ".join(text.split()))
    short = plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1] + "…"
    ticks = "`" * (_longest_run(short) + 1)
    space = " " if short[:1] in ("`", "") or short[-1:] == "`" else ""
    return f"{ticks}{space}{short}{space}{ticks}"


def _fence(text: str, language: str, body: Iterable[str] | None = None) -> Iterator[str]:
    """Yield text, or its body laid out, in a fence longer than any in the text."""
    fence = "`" * max(3, _longest_run(text) + 1)
    yield f"{fence}{language}\n"
    yield from map(escape_control_characters, (text,) if body is None else body)
    yield f"\n{fence}\n\n"


def _longest_run(text: str) -> int:
    """Length of the longest run of backticks, ignoring white space between them, which layout may remove."""
    return max((found[0].count("`") for found in re.finditer(r"`[`\s]*", text)), default=0)
