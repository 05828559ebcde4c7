"""A session as Markdown for people: a heading for each exchange, and what was said in fences.

What was recorded cannot get out of its fence, whatever it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from .. import jsontext
from ..cassette import Cassette, Session
from ..frames import Frame
from . import labels
from .labels import Label, labelled
from .pretty import harmless, laid_out_members

_ARROWS = {"client": "→", "server": "←"}
_FAILED = ("error", "tool-error", "refused", "noise")
_LONGEST = 200  # of a heading's words
_OURS = re.compile("[a-z][a-z-]{0,30}")


def dump(cassette: Cassette, session: Session, frames: Iterable[Frame]) -> Iterator[str]:
    """The lines of a session; an exchange is told whole if one of its frames is among these."""
    yield from _title(session)
    told: set[int] = set()
    for frame, found in labelled(cassette, session.id, frames):
        if not found or frame.kind == "control":
            yield from _aside(frame)
            continue
        for label in found:
            if label.exchange is None:
                yield from _alone(frame, label)
            elif label.exchange not in told:
                told.add(label.exchange)
                yield from _exchange(cassette, session.id, label.exchange)


def _title(session: Session) -> Iterator[str]:
    server = " ".join(filter(None, (session.server_name, session.server_version)))
    yield f"# Session {session.id}" + (f": {_code(server)}" if server else "") + "\n\n"
    client = " ".join(filter(None, (session.client_name, session.client_version)))
    facts = (
        ("Recorded", session.started_at), ("Protocol", session.protocol_version), ("Transport", session.transport),
        ("Client", client), ("Target", session.target), ("Note", session.note),
    )  # fmt: skip
    yield from (f"- {name}: {_code(value)}\n" for name, value in facts if value)
    if session.exit_code:
        yield f"- **Exit code: {session.exit_code}**\n"
    if session.incomplete:
        yield f"- **Incomplete**: {_code(session.incomplete)}\n"
    yield "\n"


def _exchange(cassette: Cassette, session: int, number: int) -> Iterator[str]:
    members = labels.of_exchange(cassette, session, number)
    asked = [label for label in members if label.seq == number and label.kind == "request"]
    answers = [label for label in members if label.microseconds is not None and label.sender == "server"]
    yield f"## {number}. {', '.join(map(_call, asked or members[:1]))}: {_ending(asked, answers)}\n\n"
    for seq, group in groupby(members, key=lambda label: label.seq):
        frame = cassette.frame(session, seq)
        for label in group:
            if frame is not None:
                yield from _message(frame, label, _role(label, asked, answers))


def _ending(asked: list[Label], answers: list[Label]) -> str:
    if len(answers) < len(asked):
        return "**not answered**" if not answers else f"**{len(answers)} of {len(asked)} answered**"
    took = max((label.microseconds or 0 for label in answers), default=0)
    statuses = dict.fromkeys(_strong(label.status or "answered") for label in answers)
    return f"{', '.join(statuses)}, {took / 1000:.1f} ms"


def _role(label: Label, asked: list[Label], answers: list[Label]) -> str:
    what = "request" if label in asked else "answer" if label in answers else ""
    if what:
        return what if len(asked) == 1 else f"{what} {_call(label)}"
    return _strong(label.kind) + (f" {_call(label)}" if label.method else "")


def _strong(word: str) -> str:
    """What needs a look stands out."""
    return f"**{word}**" if word in _FAILED else _word(word)


def _word(word: str) -> str:
    """Our own words as they are; a stranger may have put others in their place."""
    return word if _OURS.fullmatch(word) else _code(word)


def _alone(frame: Frame, label: Label) -> Iterator[str]:
    """A message that belongs to no exchange."""
    what = f"{_strong(label.kind)} from the {_word(label.sender)} {_call(label)}".rstrip()
    yield f"## {label.seq}. {_marked(what, label)}\n\n"
    yield from _message(frame, label, "")


def _aside(frame: Frame) -> Iterator[str]:
    """What is no message: noise, stderr, and what happened."""
    if frame.kind == "control":
        event, told = labels.happened(frame)
        yield f"*{frame.seq}. {_word(frame.sender)}: {_word(event)}* {_code(told) if told else ''}".rstrip() + "\n\n"
        return
    yield f"**{frame.seq}. {'stderr' if frame.kind == 'stderr' else f'noise from the {_word(frame.sender)}'}**\n\n"
    yield _fenced(frame.text.decode("utf-8", "backslashreplace"), "text")


def _message(frame: Frame, label: Label, what: str) -> Iterator[str]:
    if what:
        yield f"{_ARROWS.get(label.sender, '?')} {_word(label.sender)}: {_marked(what, label)}\n\n"
    text = frame.text.decode("utf-8", "backslashreplace")
    body = _body(text, label, frame.kind == "batch")
    if body is None:
        yield _fenced(text, "text")
    elif body:
        yield _fenced(body, "json")


def _marked(what: str, label: Label) -> str:
    return f"{what}, {_strong(label.status)}" if label.status in _FAILED else what


def _call(label: Label) -> str:
    return " ".join(_code(part) for part in (label.method, label.name) if part)


def _body(text: str, label: Label, batch: bool) -> str | None:
    """Of a message, what it carries; empty where it carries nothing, None where it is no JSON."""
    if label.kind == "noise" or not _is_json(text):
        return None
    within = (label.part,) if batch else ()
    names = ("params",) if label.kind != "response" else ("error", "result")
    return "\n".join(laid_out_members(text, within, names))


def _is_json(text: str) -> bool:
    try:
        jsontext.loads(text)
    except RecursionError:
        return jsontext.is_well_formed(text)
    except ValueError:
        return False
    return True


def _code(text: str) -> str:
    """A code span that its text cannot end, on one line."""
    plain = harmless(" ".join(text.split()))
    short = plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1] + "…"
    ticks = "`" * (_longest_run(short) + 1)
    space = " " if short[:1] in ("`", "") or short[-1:] == "`" else ""
    return f"{ticks}{space}{short}{space}{ticks}"


def _fenced(text: str, language: str) -> str:
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{harmless(text)}\n{fence}\n\n"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
