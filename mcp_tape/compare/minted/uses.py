"""Uses of minted values: values of a request that came from earlier answers, found on a tape and put in place.

A cursor, a task, a request's state, the id of a created object. A value is traced to its source if a request contains
it (whole or as a word), an earlier answer contains it, and the client had not sent it before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from ...wire import jsontext, protocol, rewrite, secret_names
from ...wire.frames import MessageKind, Side
from ...wire.jsontext import Path
from .spots import Spot, all_leaves, holds, ids_in, is_id_key, look_alike, read_spot, rename_texts, spots

Key = tuple[int, int, int]  # the place of a message: session, seq, part
Lookup = Callable[[Key], Any]  # the body of an answer; None if there is none

_LONG = 8  # characters of a word that counts anywhere
_MOST_SPOTS = 3  # places to look for a value, in order
# Values that are opaque to clients by the protocol: their place in a request, and their name in an answer.
_OPAQUE: dict[Path, str] = {
    ("params", "cursor"): "nextCursor",
    ("params", "requestState"): "requestState",
    ("params", "taskId"): "taskId",
    ("params", "_meta", protocol.META_TASK, "taskId"): "taskId",
}
_INPUTS = ("params", "inputResponses")


class TapeMessage(NamedTuple):
    """A message of the tape, in order."""

    key: Key
    sender: Side
    kind: MessageKind
    method: str | None
    body: dict[str, Any]


class ValueUse(NamedTuple):
    """A value in a request that came from an answer. `opaque`: the protocol says so."""

    path: Path
    value: Any
    opaque: bool
    spots: tuple[tuple[Key, Spot], ...]  # its sources, the best first
    within: str | None = None  # the text that contains it as a word


def uses(said: Callable[[], Iterable[TapeMessage]]) -> dict[Key, list[ValueUse]]:
    """Find the values of each request that the server made up. Reads the tape three times; keeps little in memory."""
    wanted = {candidate.text for one in said() for candidate in _candidates(one)}
    first_said: dict[str, Key] = {}  # by the client
    found: dict[str, list[tuple[Key, Spot]]] = {}
    inputs: list[tuple[Key, frozenset[str]]] = []  # names of requests for input
    for one in said():
        _collect(one, wanted, first_said, found)
        asked = protocol.member(one.body.get("result"), "inputRequests")
        if one.sender == "server" and isinstance(asked, dict):
            inputs.append((one.key, frozenset(asked)))
    out = {}
    for one in said():
        own = [_trace_value(one.key, candidate, first_said, found) for candidate in _candidates(one)]
        kept = [use for use in own if use.spots] + _inputs(one, inputs)
        if kept:
            out[one.key] = kept
    return out


def put_live_values(
    text: bytes, found: Iterable[ValueUse], recorded: Lookup, live: Lookup, *, careful: bool = False
) -> bytes:
    """Put values of the live answers into a recorded request, where there are any.

    `careful`: only values that look made up in the same way as the recorded ones. A call that writes must not hit the
    wrong object.
    """
    values: dict[Path, str] = {}
    words: dict[tuple[Path, str], dict[str, str]] = {}
    for use in found:
        if use.path == _INPUTS:
            text = _rename_inputs(text, use, recorded, live)
            continue
        value = live_value(use, recorded, live)
        if value in (None, use.value) or not _may_stand_for(use, value, careful):
            continue
        if use.within is None:
            values[use.path] = jsontext.dumps(value)
        else:
            words.setdefault((use.path, use.within), {})[use.value] = value
    values = {path: jsontext.dumps(rename_texts(whole, names)) for (path, whole), names in words.items()} | values
    return rewrite.with_values(text, values) if values else text


def _may_stand_for(use: ValueUse, value: Any, careful: bool) -> bool:
    careful = (careful and not use.opaque) or use.within is not None
    return not careful or look_alike(str(use.value), str(value))


def live_value(use: ValueUse, recorded: Lookup, live: Lookup) -> Any:
    """The value in the live answer at the spot of the recorded one; None if uncertain."""
    for key, spot in use.spots:
        now = live(key)
        if now is None:
            continue
        value = _convert_like(read_spot(spot, recorded(key), now), use.value)
        if value != use.value and not use.opaque and holds(now, str(use.value)):
            return use.value  # still there: it was not made up
        if value is not None:
            return value
    return None


def is_lost(use: ValueUse, recorded: Lookup, live: Lookup) -> bool:
    """Return whether the live answers lack an opaque value: no client could go on with the recorded one."""
    answers = [now for now in (live(key) for key, _ in use.spots) if now is not None]
    if use.path == _INPUTS:
        return any(protocol.member(now.get("result"), "inputRequests") is None for now in answers)
    return use.opaque and bool(answers) and live_value(use, recorded, live) is None


def _trace_value(
    key: Key, asked: _Candidate, said: dict[str, Key], found: dict[str, list[tuple[Key, Spot]]]
) -> ValueUse:
    path, value, text, within = asked
    earlier = [(source, spot) for source, spot in found.get(text, ()) if source < key]
    member = _OPAQUE.get(path) if within is None else None
    if member is not None:
        own = [(source, spot) for source, spot in earlier if spot.name == member]
        return ValueUse(path, value, True, tuple(reversed(own))[:_MOST_SPOTS])  # clients go on with the newest
    if text.isdigit():
        earlier = [(source, spot) for source, spot in earlier if is_id_key(spot.name) or (spot.words and len(text) > 1)]
    if not earlier or said.get(text, key) < earlier[0][0]:
        return ValueUse(path, value, False, ())  # the client sent it first
    if within is not None and len(text) < _LONG:  # a short word counts only if the server sent it as a whole value
        earlier = [(source, spot) for source, spot in earlier if spot.words is None]
    own = sorted(earlier, key=lambda one: one[0][0] != key[0])  # the same session first
    return ValueUse(path, value, False, tuple(own[:_MOST_SPOTS]), within)


class _Candidate(NamedTuple):
    """A value of a request that the server may have made up. `text`: the value as text."""

    path: Path
    value: Any
    text: str
    within: str | None = None


def _candidates(one: TapeMessage) -> Iterator[_Candidate]:
    if one.sender != "client" or one.kind != "request" or one.method == protocol.INITIALIZE:
        return
    for (path, *inner), value in all_leaves(one.body.get("params"), ("params",)):
        if not inner and not _is_fixed(path):
            if _may_be_minted(path, value):
                yield _Candidate(path, value, str(value))
            if isinstance(value, str) and path not in _OPAQUE:
                yield from (_Candidate(path, word, word, value) for word in ids_in(value))


def _is_fixed(path: Path) -> bool:
    return path not in _OPAQUE and (path[1:2] == ("_meta",) or path == ("params", "name"))


def _may_be_minted(path: Path, value: Any) -> bool:
    if path in _OPAQUE:
        return isinstance(value, str) and bool(value)
    name = next((step for step in reversed(path) if isinstance(step, str)), "")
    if isinstance(value, str):
        return is_id_key(name) if value.isdigit() else _looks_made_up(value)
    return isinstance(value, int) and not isinstance(value, bool) and is_id_key(name)


def _looks_made_up(value: str) -> bool:
    """True for a value that is neither a plain word nor a sentence."""
    if not 4 <= len(value) <= 4096 or any(c.isspace() for c in value):
        return False
    return any(c.isdigit() for c in value) or secret_names.is_distinctive(value)


def _collect(
    one: TapeMessage, wanted: set[str], said: dict[str, Key], found: dict[str, list[tuple[Key, Spot]]]
) -> None:
    if one.sender == "client":
        for spot_text in spots(one.body, wanted):
            said.setdefault(spot_text, one.key)
    elif one.kind == "response" and "result" in one.body:
        for text, places in spots(one.body, wanted).items():
            found.setdefault(text, []).extend((one.key, place) for place in places)


def _inputs(one: TapeMessage, asked: list[tuple[Key, frozenset[str]]]) -> list[ValueUse]:
    """Trace the inputs in a request, by name, to the answer that asked for them."""
    given = protocol.member(one.body.get("params"), "inputResponses")
    if one.sender != "client" or not isinstance(given, dict) or not given:
        return []
    before = [key for key, names in asked if key < one.key and names.issuperset(given)]
    spot = Spot((("result", "inputRequests"),))
    return [ValueUse(_INPUTS, sorted(given), False, ((before[-1], spot),))] if before else []


def _rename_inputs(text: bytes, use: ValueUse, recorded: Lookup, live: Lookup) -> bytes:
    """Rename the inputs to the live server's names, each value verbatim."""
    key = use.spots[0][0]
    then, now = (protocol.member((look(key) or {}).get("result"), "inputRequests") for look in (recorded, live))
    source = text.decode("utf-8", "surrogateescape")
    span = jsontext.find(source, _INPUTS)
    if not isinstance(then, dict) or not isinstance(now, dict) or span is None or set(use.value) <= set(now):
        return text
    names = match_inputs(then, now)
    inner = source[slice(*span)]
    parts = [(path[0], inner[start:end]) for path, start, end in jsontext.values(inner, 1) if path]
    members = ",".join(f"{jsontext.quote(names.get(str(name), str(name)))}:{part}" for name, part in parts)
    return jsontext.splice(source, [(*span, f"{{{members}}}")]).encode("utf-8", "surrogateescape")


def match_inputs(then: dict[str, Any], now: dict[str, Any]) -> dict[str, str]:
    """Live names of requests for input by recorded ones: each is matched with the next of the same method."""
    free = {name: request for name, request in now.items() if name not in then}
    names = {}
    for name, request in then.items():
        if name in now:
            continue
        method = protocol.member(request, "method")
        same = next((other for other, it in free.items() if protocol.member(it, "method") == method), None)
        if same is not None:
            names[name] = same
            del free[same]
    return names


def _convert_like(value: Any, like: Any) -> Any:
    """Convert a value to the type that the client sends: a client may send a server's number as text."""
    text = "" if value is None else str(value)
    if isinstance(like, str):
        return text or None
    return int(text) if text.isascii() and text.isdigit() and len(text) < 1000 else None
