"""The miss report: which call nothing answers, what comes nearest, how it differs, and what to do."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any, NamedTuple

from . import jsontext, match, protocol
from .frames import Message
from .jsonpath import path_text
from .jsontext import Path
from .match import Rule
from .selection import Recorded, Selection

_NEAREST = 3
_LOOKED_AT = 300  # recordings compared at the most: a report may not take seconds
_READ = 8 << 20  # bytes of them at the most, for the same reason
_SHOWN_PATHS = 8
_SHOWN_TEXT = 120


class Report(NamedTuple):
    headline: str
    text: str
    data: dict[str, Any]


class _Near(NamedTuple):
    distance: tuple[bool, int]
    recorded: Recorded
    played: bool
    differing: list[tuple[Path, Any, Any]]


def report(
    selection: Selection, message: Message, known: bool, counts: Rule | None, hide: Callable[[str], str]
) -> Report:
    """Everything a person needs to see why a live request has no answer on the tape; `hide` redacts."""
    call = " ".join(filter(None, (message.method, message.name)))
    if not known:
        headline = _unknown_method(selection, message.method or "")
        return Report(headline, f"miss: {call}\n  {headline}", {"cassette": selection.path, "method": message.method})
    near = _nearest(selection, message, counts)
    headline = f"{call} is not on the tape with these params" if not _all_played(near) else f"{call} is played out"
    lines = [f"miss: {call}", f"  {headline}", f"  {selection.path}, played so far: {len(selection.taken)}"]
    lines += [line for one in near for line in _described(selection, one)]
    elsewhere = selection.elsewhere(match.request_key(message.method or "", message.body.get("params")))
    lines += ["  what to do:", *(f"    {line}" for line in _advice(selection, near, elsewhere))]
    data = {"cassette": selection.path, "call": call, "nearest": [_as_data(one, hide) for one in near]}
    return Report(hide(headline), hide("\n".join(lines)), data)


def _unknown_method(selection: Selection, method: str) -> str:
    if method == protocol.INITIALIZE and selection.knows(protocol.DISCOVER):
        return (
            "Method not found: this tape is of the modern era (2026-07-28, no handshake), and the client sent "
            "initialize; use a client that speaks it, or record again with this one"
        )
    return f"Method not found: no session on {selection.path} has {method}"


def _nearest(selection: Selection, message: Message, counts: Rule | None) -> list[_Near]:
    live = match.asked(message.method or "", message.body.get("params"))
    near: list[_Near] = []
    for row, asked in _looked_at(selection, message):
        differing = [
            found for found in match.differences(asked, live, ("params",)) if counts is None or counts(found[0])
        ]
        near.append(_Near((row.name != message.name, len(differing)), row, row.place in selection.taken, differing))
    # Of equal distance, one that is still to be played says more than one that was.
    return sorted(near, key=lambda one: (*one.distance, one.played))[:_NEAREST]


def _looked_at(selection: Selection, message: Message) -> list[tuple[Recorded, Any]]:
    """The recordings that are compared, and what each asked for; kept, as one miss seldom comes alone."""
    key = _looked_at, message.method, message.name
    found: list[tuple[Recorded, Any]] | None = selection.kept.get(key)
    if found is None:
        found, read = [], 0
        for row in selection.requests_like(message.method or "", message.name, _LOOKED_AT):
            whole = selection.frame_text(row)
            read += len(whole.text)
            if read > _READ and found:
                break
            found.append((row, match.asked(row.method or "", whole.messages[row.part].body.get("params"))))
        selection.kept.put(key, found)
    return found


def _all_played(near: list[_Near]) -> bool:
    return bool(near) and not near[0].differing and near[0].played


def _described(selection: Selection, one: _Near) -> list[str]:
    row = one.recorded
    played = ", already played" if one.played else ""
    lines = [f"  nearest: #{row.seq} {' '.join(filter(None, (row.method, row.name)))}{played}"]
    for path, recorded, live in one.differing[:_SHOWN_PATHS]:
        lines.append(f"    {path_text(path)}  recorded {_shown(recorded)}, live {_shown(live)}")
    if len(one.differing) > _SHOWN_PATHS:
        lines.append(f"    and {len(one.differing) - _SHOWN_PATHS} more differences")
    answer = selection.answer(row)
    if answer is not None:
        lines.append(f"    would have answered: {_answer_line(selection, answer)}")
    return lines


def _answer_line(selection: Selection, answer: Recorded) -> str:
    body = selection.frame_text(answer).messages[answer.part].body
    return _shown(body.get("error", body.get("result")))


def _advice(selection: Selection, near: list[_Near], elsewhere: int | None) -> list[str]:
    tape = shlex.quote(selection.path)
    lines = []
    if elsewhere is not None:
        lines += [f"# session {elsewhere} has it: to play every session", f"mcp-tape replay {tape} --session all"]
    elif near and near[0].differing:
        path = path_text(near[0].differing[0][0])
        lines += ["# if that may differ", f"mcp-tape replay {tape} --ignore {shlex.quote(path)}"]
    elif near:
        lines += ["# to repeat the last answer", f"mcp-tape replay {tape} --repeats last"]
    server = "--url URL" if selection.is_of_url else "-- SERVER"
    lines += ["# to record what is missing", f"mcp-tape use {tape} --mode new_episodes {server}"]
    return [*lines, "# to see what there is", f"mcp-tape show {tape}"]


def _as_data(one: _Near, hide: Callable[[str], str]) -> dict[str, Any]:
    differing = [
        {"path": path_text(path), "recorded": hide(_shown(recorded)), "live": hide(_shown(live))}
        for path, recorded, live in one.differing[:_SHOWN_PATHS]
    ]
    return {"seq": one.recorded.seq, "already_played": one.played, "differing": differing}


def _shown(value: Any) -> str:
    if match.is_absent(value):
        return "nothing"
    text = jsontext.compact(value)
    return text if len(text) <= _SHOWN_TEXT else text[:_SHOWN_TEXT] + "…"
