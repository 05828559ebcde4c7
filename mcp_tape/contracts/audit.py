"""Finds texts in a run with which a server tries to steer the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..cassette.reader import Cassette
from ..compare.rule_table import RULES
from ..compare.surface import SURFACE
from ..compare.transcript import Transcript
from ..model import pages, steering
from ..model.steering import Suspicion
from ..wire import apps, jsonpath, protocol

_DEFINES = SURFACE | {protocol.SKILL}


class Suspect(NamedTuple):
    """A suspicion, with the frame and place of its text."""

    rule: str
    why: str
    session: int
    seq: int
    path: str


def meaning_of(rule: str) -> str:
    """Return the meaning of a rule of the audit, in a sentence. Rules about texts are rules of diff too."""
    return pages.SAYS[rule] if rule in pages.SAYS else RULES[rule].says


def audit(cassette: Cassette, sessions: Sequence[int]) -> Iterator[Suspect]:
    """Report each suspicious text once, however often it was sent."""
    seen: set[tuple[str, Suspicion]] = set()
    for session, seq, title, found in _suspicions(Transcript(cassette, sessions)):
        if (title, found) not in seen:
            seen.add((title, found))
            yield Suspect(found.rule, found.why, session, seq, jsonpath.path_text(found.path))


def _suspicions(recording: Transcript) -> Iterator[tuple[int, int, str, Suspicion]]:
    listed: dict[str, dict[str, Any]] = {}
    for asked in recording.requests():
        body = recording.answer(asked)
        if asked.method == protocol.RESOURCES:
            listed |= apps.listed_ui(protocol.member(body, "result"))
        for found in _suspicions_in_answer(asked.method, body, listed):
            yield asked.session, asked.answer_seq or asked.seq, asked.title, found
    for message in recording.own_messages():
        for found in steering.result_suspicions(recording.own_params(message), ("params",)):
            yield message.session, message.seq, message.method, found


def _suspicions_in_answer(method: str, body: Any, listed: Mapping[str, dict[str, Any]]) -> Iterator[Suspicion]:
    result, error = (protocol.member(body, name) for name in ("result", "error"))
    yield from steering.definition_suspicions(result) if method in _DEFINES else steering.result_suspicions(result)
    yield from steering.result_suspicions(error, ("error",))
    if method == protocol.READ:
        yield from pages.in_contents(result, listed)
