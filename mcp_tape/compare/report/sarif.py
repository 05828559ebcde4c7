"""The report as SARIF, for code scanning: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from ..changes import Change
from ..judging import Comparison, UnknownPart
from ..rule_table import RULES
from . import wording
from .before_after import PLENTY
from .groups import ChangeGroup, describe_others, group_changes, shared_rows
from .wording import View, clip

_LEVELS = {"error": "error", "warn": "warning", "info": "note"}
_UNKNOWN = {"id": "unknown", "shortDescription": {"text": "Something could not be compared."}}
_PRINT = "mcpTape/v1"


def report(comparisons: Sequence[Comparison], view: View) -> Iterator[str]:
    """One run for all comparisons. Accepted changes are included, as suppressed."""
    results = [result for one in comparisons for result in _results(one, view)]
    used = {result["ruleId"] for result in results}
    rules = [_rule(name) for name in RULES if name in used] + [_UNKNOWN] * ("unknown" in used)
    run = {
        "tool": {"driver": {"name": "mcp-tape", "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    yield from json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=1).split("\n")


def _rule(name: str) -> dict[str, Any]:
    rule = RULES[name]
    level = {"level": _LEVELS[rule.level]}
    return {"id": name, "shortDescription": {"text": rule.says}, "defaultConfiguration": level}


def _results(comparison: Comparison, view: View) -> Iterator[dict[str, Any]]:
    file = wording.file_of(comparison, view)
    yield from (_unknown(entry, file) for entry in comparison.unknown)
    yield from (_result(group, file, comparison) for group in group_changes(comparison.changes))
    for group in group_changes(comparison.ignored):
        yield _result(group, file, comparison) | {"suppressions": [{"kind": "external"}]}


def _unknown(entry: UnknownPart, file: str) -> dict[str, Any]:
    said = clip(f"{entry.what}: {entry.why}", PLENTY.width)
    level = "error" if entry.grave else "warning"
    return {"ruleId": "unknown", "level": level, "message": {"text": said}, "locations": _locations(file, entry.what)}


def _result(group: ChangeGroup, file: str, comparison: Comparison) -> dict[str, Any]:
    change = group[0]
    place = wording.place(change, PLENTY.width)
    head = " ".join(filter(None, (wording.subject(change), place, clip(change.note, PLENTY.width))))
    said = "\n".join(
        [head, *map(str, shared_rows(group, PLENTY)), *(f"The same in {other}" for other in describe_others(group))]
    )
    several = {"occurrenceCount": len(group)} if group[1:] else {}
    return {
        "ruleId": change.rule,
        "level": _LEVELS[change.level],
        "message": {"text": said},
        "locations": [
            location
            for one in group
            for location in _locations(file, _where(one), comparison.lines.get(one.fingerprint))
        ],
        "partialFingerprints": {_PRINT: change.fingerprint},
    } | several


def _where(change: Change) -> str:
    return f"{wording.subject(change)} {wording.place(change, PLENTY.width)}".rstrip()


def _locations(file: str, name: str, line: int | None = None) -> list[dict[str, Any]]:
    logical = {"logicalLocations": [{"fullyQualifiedName": clip(name, PLENTY.width)}]}
    if not file:
        return [logical]
    region = {} if line is None else {"region": {"startLine": line}}
    return [{"physicalLocation": {"artifactLocation": {"uri": quote(wording.visible(file))}} | region} | logical]
