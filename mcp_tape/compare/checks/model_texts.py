"""Checks of the texts for a model: new text that tries to steer it, texts that no other rule covers, and definitions
that grew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from ...model import steering
from ...model.characters import find_lookalikes
from ...model.cost import Cost, cost, definition, definitions
from ...model.steering import Suspicion
from ...model.texts import is_prose, strings, texts
from ...wire.jsontext import Path
from ..changes import ABSENT, SERVER, Difference, Subject, SubjectDifference, attach_subject, comparable_bytes
from ..rule_table import IN_SECURITY
from ..surface import Surface

_Key = tuple[str, bytes]
Items = dict[str, dict[str, Any]]
# Definitions grow a little with every version. Growth is reported from this many bytes and this share on.
ALL_TOOLS, ONE_TOOL = (1000, 0.1), (400, 0.25)


def compare_wording(kind: str, old: Items, new: Items) -> Iterator[SubjectDifference]:
    """Compare the texts of listed items. Only new text can be suspicious."""
    for key, item in new.items():
        before = old.get(key)
        if item != before:
            yield from attach_subject(
                Subject(kind, key), _new_suspicions(steering.item_suspicions(before), steering.item_suspicions(item))
            )
    known = _names(old)
    for first, name in sorted(set(find_lookalikes([*known, *_names(new)])) - set(find_lookalikes(known))):
        key = next((key for key, item in new.items() if item.get("name") == name), name)
        why = f"{name!a} looks like {first!a}"
        yield Subject(kind, key), Difference(steering.DISGUISED, ("name",), ABSENT, why)


def compare_texts(old: Any, new: Any, told: Sequence[Difference]) -> Iterator[Difference]:
    """Compare the texts of two schemas, except those that other differences report. A text that was moved, for example
    into a definition, is the same text.

    Finally every key and every string of the new schema is checked, wherever it is."""
    before, after = dict(texts(old)), dict(texts(new))
    told_before, told_after = set(_reported_texts(told, "before")), set(_reported_texts(told, "after"))
    had, has = (set(map(_key, side.items())) for side in (before, after))
    found = list[Difference]()
    for path in dict.fromkeys([*before, *after]):
        one, other = before.get(path, ABSENT), after.get(path, ABSENT)
        in_place = ABSENT not in (one, other) and not any(isinstance(step, int) for step in path)
        lost = one is not ABSENT and _key((path, one)) not in (told_before if in_place else told_before | has)
        come = other is not ABSENT and _key((path, other)) not in (told_after if in_place else told_after | had)
        if (lost or come) and comparable_bytes(one) != comparable_bytes(other):
            found.append(Difference("schema-text-changed", path, one, other))
    yield from found
    yield from _report_new_prose(old, new, [*told, *found])


def _report_new_prose(old: Any, new: Any, told: Iterable[Difference]) -> Iterator[Difference]:
    """Report prose that is new in a schema and that no difference of category `security` covers."""
    known = {text for _, text in strings(old)}
    prose = {text: path for path, text in reversed([*strings(new)]) if is_prose(text) and text not in known}
    if prose:
        known = {text for one in told if one.rule in IN_SECURITY for _, text in strings([one.after, *one.path])}
        for text, path in prose.items():
            if text not in known:
                yield Difference("schema-text-changed", path, ABSENT, text)


def _reported_texts(told: Iterable[Difference], side: Literal["before", "after"]) -> Iterator[_Key]:
    """The texts among the values of differences, and within schemas that are such values."""
    for one in told:
        value = getattr(one, side)
        if value is not ABSENT:
            yield _key((one.path, value))
            for schema in value if isinstance(value, list) else [value]:
                yield from map(_key, texts(schema))


def _key(found: tuple[Path, Any]) -> _Key:
    """A text by its keyword and value, wherever it is."""
    return str(found[0][-1]) if found[0] else "", comparable_bytes(found[1])


def compare_greetings(old: Surface, new: Surface) -> Iterator[Difference]:
    """Compare the texts of two servers about themselves."""
    return _new_suspicions(steering.item_suspicions(old.greeting), steering.item_suspicions(new.greeting))


def compare_message_texts(old: Iterable[Any], new: Iterable[Any], path: Path = ()) -> Iterator[Difference]:
    """Compare answers to a call, or the requests of two servers to their clients."""
    return _new_suspicions(
        *((found for one in side for found in steering.result_suspicions(one, path)) for side in (old, new))
    )


def _names(items: Items) -> list[str]:
    return [item["name"] for item in items.values() if isinstance(item.get("name"), str)]


def _new_suspicions(old: Iterable[Suspicion], new: Iterable[Suspicion]) -> Iterator[Difference]:
    known = {(one.rule, one.why) for one in old}
    for one in new:
        if (one.rule, one.why) not in known:
            yield Difference(one.rule, one.path, ABSENT, one.why)


def compare_sizes(old: Items, new: Items) -> Iterator[SubjectDifference]:
    """Report definitions of tools that cost a model notably more than before."""
    if old:
        yield from attach_subject(
            SERVER, _report_growth(definitions(old.values()), definitions(new.values()), *ALL_TOOLS)
        )
    for name, tool in new.items():
        if name in old and old[name] != tool:
            before, after = (cost(definition(one)) for one in (old[name], tool))
            yield from attach_subject(Subject("tool", name), _report_growth(before, after, *ONE_TOOL))


def _report_growth(old: Cost, new: Cost, least: int, share: float) -> Iterator[Difference]:
    if new.bytes - old.bytes >= max(least, share * old.bytes):
        note = f"{old.bytes} → {new.bytes} bytes, about {old.tokens} → {new.tokens} tokens"
        yield Difference("definitions-grew", (), old.bytes, new.bytes, note)
