"""Evidence: what the recorded calls say about a difference of the surface. Where the tape knows, it decides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...wire import protocol
from ...wire.jsontext import Path
from ..changes import Difference, Found, Subject
from ..recording import Recording

_LOST = "input-property-removed"
_AROUND = ("anyOf", "oneOf", "allOf")  # and a number: the value is the same


def with_evidence(found: Iterable[Found], old: Recording | None) -> Iterator[Found]:
    """Raise the level of an argument that is gone, and that the recorded client has used."""
    given: dict[str, list[Any]] | None = None
    for subject, one in found:
        if one.rule == _LOST and one.level == "warn" and old is not None:
            given = _arguments(old) if given is None else given
            if _is_used(subject, one, given):
                one = one._replace(level="error", note=f"{one.note}; a recorded call used it")
        yield subject, one


def _is_used(subject: Subject, lost: Difference, given: dict[str, list[Any]]) -> bool:
    return any(reaches(arguments, lost.path[1:]) for arguments in given.get(subject.name, ()))


def _arguments(recording: Recording) -> dict[str, list[Any]]:
    """The arguments of all recorded calls, by tool."""
    found: dict[str, list[Any]] = {}
    for asked in recording.asked():
        if asked.method == protocol.CALL and asked.name:
            found.setdefault(asked.name, []).append(protocol.member(recording.params(asked), "arguments"))
    return found


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
