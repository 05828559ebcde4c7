"""Facts for readers: moved texts are dropped, repeats merged, and references written out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from ...errors import count
from ...model.texts import texts
from ...wire.jsontext import Path
from ..changes import ABSENT, comparable_bytes
from .facts import SchemaFact
from .nodes import Schema
from .references import Document

_ALTERNATIVES = ("anyOf", "oneOf", "allOf")
_DESCRIBED = "description-changed"
# Kinds of facts whose values are schemas, or lists of them.
_OF_SCHEMAS = (
    "property-added",
    "property-removed",
    "of-lost",
    "of-gained",
    "of-replaced",
    "condition-added",
    "condition-removed",
)
_MOST_WRITTEN_OUT = 50  # references in one value
_DEEPEST = 8  # references within each other

_Text = tuple[Path, bytes]


def prepare_facts(facts: Iterable[SchemaFact], old: Schema, new: Schema) -> list[SchemaFact]:
    """The facts of two schemas, with references written out, each reported as often as it was written."""
    facts = list(facts)
    if any(fact.way == "words" for fact in facts):
        facts = list(_once(_drop_moved(_drop_covered(facts, old, new), old, new), old, new))
    before, after = Document(old), Document(new)
    return [
        fact._replace(before=_write_out(fact.before, before), after=_write_out(fact.after, after))
        if fact.kind.endswith(_OF_SCHEMAS)
        else fact
        for fact in facts
    ]


def _drop_covered(facts: Iterable[SchemaFact], old: Schema, new: Schema) -> Iterator[SchemaFact]:
    """Drop an alternative that another one covers, unless its texts are new or lost."""
    had, has = ({_text_place(path[-1:], text) for path, text in texts(schema)} for schema in (old, new))
    for fact in facts:
        made_up_for = fact.way == "words" and fact.kind.endswith(("of-lost", "of-gained"))
        value, others = (fact.before, has) if fact.after is ABSENT else (fact.after, had)
        if not made_up_for or any(_text_place(path[-1:], text) not in others for path, text in texts(value)):
            yield fact


def _drop_moved(facts: Iterable[SchemaFact], old: Schema, new: Schema) -> Iterator[SchemaFact]:
    """Drop descriptions that moved between a schema and its alternatives: a model reads the same text."""
    had, has = ({_text_place(*found) for found in texts(schema)} for schema in (old, new))
    for fact in facts:
        gone = fact.after is ABSENT and _text_place(fact.path, fact.before) in has
        come = fact.before is ABSENT and _text_place(fact.path, fact.after) in had
        if fact.kind != _DESCRIBED or not (gone or come):
            yield fact


def _text_place(path: Path, text: Any) -> _Text:
    """A text by its place, regardless of the alternative it belongs to."""
    place: list[str | int] = []
    for step in path:
        if isinstance(step, int) and place and place[-1] in _ALTERNATIVES:
            place.pop()
        else:
            place.append(step)
    return tuple(place), comparable_bytes(text)


def _once(facts: Iterable[SchemaFact], old: Schema, new: Schema) -> Iterator[SchemaFact]:
    """Report a description in a shared definition once, however many places refer to it."""
    written = [
        Counter(comparable_bytes(text) for path, text in texts(schema) if path[-1:] == ("description",))
        for schema in (old, new)
    ]
    uses: dict[tuple[str, bytes, bytes], list[SchemaFact]] = {}
    for number, fact in enumerate(facts):
        ends = comparable_bytes(fact.before), comparable_bytes(fact.after)
        alone = all(texts_of[end] <= 1 for texts_of, end in zip(written, ends, strict=True))
        is_text = fact.kind == _DESCRIBED and fact.path[-1] == "description"
        uses.setdefault(("" if is_text and alone else str(number), *ends), []).append(fact)
    for first, *more in uses.values():
        yield first._replace(note=f"{first.note}, in {count(1 + len(more), 'place')}") if more else first


def _write_out(value: Any, document: Document) -> Any:
    """A schema, or a list of them, with each reference replaced once by its target."""
    seen: set[str] = set()

    def expand(part: Any, depth: int) -> Any:
        if isinstance(part, list):
            return [expand(one, depth) for one in part]
        if not isinstance(part, dict):
            return part
        reference = part.get("$ref")
        target = document.find(reference) if isinstance(reference, str) and reference not in seen else ABSENT
        if (
            isinstance(target, dict)
            and target is not document.root
            and len(seen) < _MOST_WRITTEN_OUT
            and depth < _DEEPEST
        ):
            seen.add(str(reference))
            beside = {keyword: one for keyword, one in part.items() if keyword != "$ref"}
            return expand(target | beside, depth + 1)
        return {keyword: expand(one, depth) for keyword, one in part.items()}

    return value if value is ABSENT else expand(value, 0)
