"""Evidence: the recorded calls decide how grave a difference is, if they show that the client relied on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from ...cassette.query.recorded_requests import RecordedRequest, place_of
from ...wire import jsontext, protocol
from ...wire.jsonpath import path_text
from ...wire.jsontext import Path
from ..changes import ABSENT, Difference, SubjectDifference
from ..minted.binding import generalize
from ..minted.spots import Spot, read_spot
from ..minted.uses import Key, TapeMessage, uses
from ..rule_table import Level
from ..transcript import Transcript
from .json_values import SHAPE, compare_shapes

_ARGUMENT_LOST = "input-property-removed"
_TEXTS = ("call-text-changed", "resource-text-changed")
_MEMBER_LOST = "output-optional-property-removed"
_OF_TYPE = {"output-became-nullable", "output-type-changed", "output-type-widened"}  # reported at the keyword
_RESULT_CHANGED = {
    _MEMBER_LOST,
    "output-required-property-removed",
    "output-property-became-optional",
    *_OF_TYPE,
}
_AROUND = ("anyOf", "oneOf", "allOf")  # followed by a number: the value stays the same
_STRUCTURED = ("result", "structuredContent")
_GIVEN, _USED = "a recorded call used it", "a later call used it"


class Evidence:
    """What the client of a recording relied on: the arguments it passed, and the parts of results that it used."""

    def __init__(self, old: Transcript | None) -> None:
        self._old = old

    def raise_surface_levels(self, found: Iterable[SubjectDifference]) -> Iterator[SubjectDifference]:
        """Raise the level of a removed argument or a removed member of results if the recorded client used it."""
        for subject, one in found:
            lost = one.rule == _ARGUMENT_LOST and one.level == "warn"
            known = self._passed_arguments if lost else self._used_results if one.rule in _RESULT_CHANGED else {}
            place = one.path[1:-1] if one.rule in _OF_TYPE else one.path[1:]
            used = any(reaches(value, place) for value in known.get(subject.name, ()))
            if used:
                level: Level | None = "error" if lost or one.rule == _MEMBER_LOST else one.level
                one = _raise_level(one, _GIVEN if lost else _USED, level)
            yield subject, one

    def raise_answer_levels(
        self, found: Iterable[SubjectDifference], asked: RecordedRequest, old: Any, new: Any
    ) -> Iterator[SubjectDifference]:
        """Raise the level of a loss in an answer if a later call used the lost part."""
        for subject, one in found:
            if one.rule == SHAPE and one.before is not ABSENT and one.level != "info":
                spots = [spot for spot in self._used_spots_of(asked) if _is_below(spot.paths[0], one.path)]
                # A value that became nullable may still be present.
                if spots and (one.level is None or any(read_spot(spot, old, new) is None for spot in spots)):
                    one = _raise_level(one, _USED)
            elif one.rule in _TEXTS:
                inner = [
                    spot.paths[1] for spot in self._used_spots_of(asked) if spot.paths[:1] == (one.path,) != spot.paths
                ]
                if lost := next(_json_losses(one, inner), None):
                    one = _raise_level(one, f"{path_text(lost.path)}: {lost.note}; {_USED}")
            yield subject, one

    @cached_property
    def _passed_arguments(self) -> dict[str, list[Any]]:
        """The arguments of all recorded calls, by tool."""
        found: dict[str, list[Any]] = {}
        for asked in self._requests():
            if asked.method == protocol.CALL and asked.name and self._old:
                found.setdefault(asked.name, []).append(protocol.member(self._old.params(asked), "arguments"))
        return found

    @cached_property
    def _used_results(self) -> dict[str, list[Any]]:
        """The parts of structured results that later calls used, by tool."""
        found: dict[str, list[Any]] = {}
        for asked in self._requests() if self._used_spots else ():
            paths = {spot.paths[0] for spot in self._used_spots_of(asked)}
            taken = [_minimal_value(path[2:]) for path in paths if path[:2] == _STRUCTURED]
            found.setdefault(asked.name or "", []).extend(taken)
        return found

    def _used_spots_of(self, asked: RecordedRequest) -> list[Spot]:
        return self._used_spots.get(_answer_of(asked), [])

    @cached_property
    def _used_spots(self) -> dict[Key, list[Spot]]:
        """The spots of values that later requests use, by answer. Words of running text may be anywhere in it."""
        found: dict[Key, list[Spot]] = {}
        for own in uses(self._messages).values():
            for key, spot in (source for use in own for source in use.spots):
                if spot.words is None:
                    found.setdefault(key, []).append(spot)
        return found

    def _requests(self) -> Iterable[RecordedRequest]:
        return self._old.requests() if self._old else ()

    def _messages(self) -> Iterator[TapeMessage]:
        """Requests and answers in wire order."""
        rows = [
            (key, one, key == place_of(one)) for one in self._requests() for key in (place_of(one), _answer_of(one))
        ]
        for key, one, is_request in sorted(rows, key=lambda row: row[0]):
            if self._old and is_request:
                yield TapeMessage(key, "client", "request", one.method, {"params": self._old.params(one)})
            elif self._old and isinstance(body := self._old.answer(one), dict):
                yield TapeMessage(key, "server", "response", None, body)


def _answer_of(asked: RecordedRequest) -> Key:
    return asked.session, -1 if asked.answer_seq is None else asked.answer_seq, asked.answer_part or 0


def _raise_level(one: Difference, why: str, level: Level | None = "error") -> Difference:
    return one._replace(level=level, note="; ".join(filter(None, (one.note, why))))


def _json_losses(changed: Difference, used: list[Path]) -> Iterator[Difference]:
    """The losses at used places in a text of JSON."""
    try:
        old, new = (jsontext.loads(text) for text in (changed.before, changed.after)) if used else (None, None)
    except (ValueError, RecursionError):
        return  # not JSON: no program relied on its structure
    for one in compare_shapes(old, new, ()):
        if one.before is not ABSENT and one.level is None and any(_is_below(path, one.path) for path in used):
            yield one


def _is_below(path: Path, place: Path) -> bool:
    return generalize(path)[: len(place)] == place


def _minimal_value(path: Path) -> Any:
    """A value with something at a path, and nothing else."""
    value: Any = 0
    for step in reversed(path):
        value = [value] if isinstance(step, int) else {step: value}
    return value


def reaches(value: Any, path: Path) -> bool:
    """Return whether a value has something at a path of its schema."""
    if not path:
        return True
    step, rest = path[0], path[1:]
    if step == "properties" and isinstance(value, dict) and rest:
        return rest[0] in value and reaches(value[rest[0]], rest[1:])
    if step == "items" and isinstance(value, list):
        return any(reaches(item, rest) for item in value)
    if step == "prefixItems" and isinstance(value, list) and rest and isinstance(rest[0], int):
        return rest[0] < len(value) and reaches(value[rest[0]], rest[1:])
    if step == "additionalProperties" and isinstance(value, dict):
        return any(reaches(item, rest) for item in value.values())
    return step in _AROUND and reaches(value, rest[1:])
