"""Whether a result fits the output schema of its tool. The only place that knows jsonschema."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from jsonschema import exceptions, validators
from referencing import Registry
from referencing.exceptions import Unresolvable

from .. import jsontext, protocol
from .changes import ABSENT, Difference

_MOST = 3  # of one result
_WHERE = ("result", "structuredContent")


def violations(schema: Any, body: Any) -> Iterator[Difference]:
    """Where a result does not fit. What cannot be judged, fits."""
    result = protocol.member(body, "result")
    if protocol.member(result, "resultType") not in (None, "complete") or protocol.member(result, "task") is not None:
        return  # the result itself comes later
    content = protocol.member(result, "structuredContent")
    if content is None:
        yield Difference("call-violates-output-schema", _WHERE, ABSENT, ABSENT, "there is no structured content")
        return
    try:
        errors = sorted(
            _validator(jsontext.canonical(schema)).iter_errors(content), key=lambda e: list(map(str, e.path))
        )
    except (exceptions.SchemaError, Unresolvable, RecursionError, TypeError, ValueError):
        return
    for error in errors[:_MOST]:
        place, words = (*_WHERE, *error.absolute_path), error.message[:200]
        yield Difference("call-violates-output-schema", place, ABSENT, error.instance, words)


@lru_cache(256)
def _validator(schema: bytes) -> Any:
    value = jsontext.loads(schema)
    kind = validators.validator_for(value, default=validators.Draft202012Validator)
    kind.check_schema(value)
    return kind(value, registry=Registry())  # one that fetches nothing
