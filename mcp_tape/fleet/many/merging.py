"""Merges the reports of several runs into one: rows in JSON, or JUnit XML.

An entry is one cassette under one command. An entry that occurs twice, such as after a share was run again, counts
once; if the two differ, the worse one counts. Each entry has the total number of cassettes in all shares, so a missing
share is noticed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple
from xml.etree import ElementTree

from ...cassette.text.safe_lines import json_line
from ...errors import TapeError
from ..shards import parse_shard
from .results import CODES, PREFIX, PROPERTIES, ROW, Status

ReportKind = Literal["rows", "junit"]
_OF_RUN = ("shard", "of")  # facts that are not about the cassette
_COUNTS = ("tests", "failures", "errors", "skipped")
_RUN = "run the command with --jobs or --shard, and --json or --format junit"


class ReportError(TapeError):
    """A file that cannot be merged."""

    exit_code = 2


class ReportEntry(NamedTuple):
    """A cassette under a command: its outcome, and the row or the test suite that reports it."""

    command: str
    cassette: str
    status: Status
    code: int
    findings: int
    message: str  # of the first finding
    shard: str | None
    of: int | None
    content: str  # without the parts that differ from run to run
    payload: Any

    @property
    def key(self) -> tuple[str, str]:
        return self.command, self.cassette


class MissingCassettes(NamedTuple):
    """The number of cassettes missing from a command's entries, and the shares without any."""

    command: str
    cassettes: int
    shards: tuple[str, ...]


class MergedReport(NamedTuple):
    """The entries of all reports, sorted by name."""

    kind: ReportKind
    entries: tuple[ReportEntry, ...]
    repeats: int  # dropped exact repeats
    differing: tuple[ReportEntry, ...]  # entries with another, better outcome
    missing: tuple[MissingCassettes, ...]

    @property
    def code(self) -> int:
        """The exit code, as if all had been run at once; at least 1 if a cassette is missing."""
        return max((entry.code for entry in self.entries), default=0) or int(bool(self.missing))


def merge(paths: Sequence[str]) -> MergedReport:
    """Merge files. Raises ReportError if one can't be read, or if they are of different kinds."""
    found = [(path, *_read(path)) for path in paths]
    kinds: dict[ReportKind, str] = {kind: path for path, kind, _ in reversed(found) if kind is not None}
    if len(kinds) > 1:
        raise ReportError(f"{kinds['rows']} is JSON and {kinds['junit']} is JUnit XML; merge files of one kind")
    if not any(entries for *_, entries in found):
        raise ReportError(f"there is no result in {', '.join(paths)}; {_RUN}")
    entries, repeats, differing = _once(entry for *_, several in found for entry in several)
    return MergedReport(next(iter(kinds)), tuple(entries), repeats, tuple(differing), tuple(_find_missing(entries)))


def _once(entries: Iterable[ReportEntry]) -> tuple[list[ReportEntry], int, list[ReportEntry]]:
    """Each cassette once, by name; the number of exact repeats, and the entries that had a better outcome too."""
    kept: dict[tuple[str, str], ReportEntry] = {}
    repeats, differing = 0, dict[tuple[str, str], ReportEntry]()
    for entry in entries:
        before = kept.setdefault(entry.key, entry)
        if before is entry:
            continue
        if before.content == entry.content:
            repeats += 1
            continue
        kept[entry.key] = differing[entry.key] = max(before, entry, key=lambda one: one.code)
    return [kept[key] for key in sorted(kept)], repeats, [differing[key] for key in sorted(differing)]


def _find_missing(entries: Sequence[ReportEntry]) -> Iterator[MissingCassettes]:
    for command in sorted({entry.command for entry in entries}):
        those = [entry for entry in entries if entry.command == command]
        lacking = max((entry.of or 0 for entry in those), default=0) - len(those)
        if lacking > 0:
            there = {parse_shard(entry.shard) for entry in those if entry.shard}
            every = {shard._replace(number=number) for shard in there for number in range(1, shard.of + 1)}
            yield MissingCassettes(command, lacking, tuple(map(str, sorted(every - there, key=lambda one: one[::-1]))))


# -- reading


def _read(path: str) -> tuple[ReportKind | None, list[ReportEntry]]:
    """The kind of a file, and its entries. The report of an empty share has no entries, and no kind in JSON."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ReportError(f"cannot read {path}: {error.strerror}; {_RUN}") from None
    start = data.lstrip()[:1]
    if not start:
        return None, []
    if start == b"<":
        return "junit", list(_suites(path, data))
    return "rows", [_entry_of_row(path, row) for row in _rows(path, data)]


def _rows(path: str, data: bytes) -> list[Any]:
    """JSON lines, or one array."""
    try:
        text = data.decode()
        if text.lstrip().startswith("["):
            rows: list[Any] = json.loads(text)
        else:
            rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{path} is neither JSON nor JUnit XML: {error}; {_RUN}") from None
    return rows


def _entry_of_row(path: str, row: Any) -> ReportEntry:
    version = row.get("row") if isinstance(row, dict) else None
    if not isinstance(version, int):
        raise ReportError(f"{path} holds JSON that is not the result of one cassette; {_RUN}")
    if version > ROW:
        raise ReportError(f"{path} was made by a newer mcp-tape (rows {version}, this one knows {ROW}); upgrade it")
    found, facts = row.get("findings"), {name: row.get(name) for name in PROPERTIES}
    if not isinstance(found, list) or not all(isinstance(finding, dict) for finding in found):
        raise ReportError(f"{path} holds a result that mcp-tape has not made: {facts}")
    content = {name: value for name, value in row.items() if name not in ("seconds", *_OF_RUN)}
    first = str(found[0].get("message", "")) if found else ""
    return _entry(path, facts, len(found), first, json.dumps(content, sort_keys=True), row)


def _suites(path: str, data: bytes) -> Iterator[ReportEntry]:
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise ReportError(f"{path} declares entities, as no JUnit report does; it was left alone")
    try:
        root = ElementTree.fromstring(data)
    except ElementTree.ParseError as error:
        raise ReportError(f"{path} is not XML: {error}") from None
    for suite in [root] if root.tag == "testsuite" else root.iterfind("testsuite"):
        known = {one.get("name", ""): one.get("value", "") for one in suite.iterfind("properties/property")}
        facts: dict[str, Any] = {name: known.get(PREFIX + name) for name in PROPERTIES}
        found = [case for case in suite.iterfind("testcase/*") if case.tag in ("failure", "error")]
        if facts["command"] is None:  # from a run without --jobs and --shard, or from another tool
            facts |= {"command": "junit", "cassette": suite.get("name", ""), "code": int(bool(found))}
        first = found[0].get("message", "") if found else ""
        yield _entry(path, facts, len(found), first, _text_without_times(suite), suite)


def _text_without_times(suite: ElementTree.Element) -> str:
    """A suite as text, without the parts that differ from run to run."""
    copy = ElementTree.fromstring(ElementTree.tostring(suite))
    for element in copy.iter():
        element.attrib.pop("time", None)
        element.tail = None
        for child in [child for child in element if child.get("name") in [PREFIX + name for name in _OF_RUN]]:
            element.remove(child)
    return ElementTree.tostring(copy, "unicode")


def _entry(path: str, facts: dict[str, Any], findings: int, first: str, content: str, payload: Any) -> ReportEntry:
    try:
        code = int(facts["code"])
        status = facts["status"] or ("failed" if code else "passed")
        shard, of = facts["shard"], facts["of"]
        if status not in CODES or (shard is not None and not parse_shard(shard)):
            raise ValueError(status)
        cassette, number = str(facts["cassette"]), None if of is None else int(of)
        return ReportEntry(
            str(facts["command"]), cassette, status, code, findings, first, shard, number, content, payload
        )
    except (TypeError, ValueError, AttributeError):
        raise ReportError(f"{path} holds a result that mcp-tape has not made: {facts}") from None


# -- writing


def render_merged(merged: MergedReport) -> bytes:
    """The merged report, in the format of the input."""
    if merged.kind == "rows":
        return b"".join(json_line(entry.payload) for entry in merged.entries)
    suites = [entry.payload for entry in merged.entries]
    numbers = {name: str(sum(_number(suite.get(name)) for suite in suites)) for name in _COUNTS}
    root = ElementTree.Element("testsuites", {"name": "mcp-tape", **numbers})
    root.extend(suites)
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, "utf-8", xml_declaration=True)) + b"\n"


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() else 0


def statuses(entries: Iterable[ReportEntry]) -> dict[str, Counter[Status]]:
    """The number of cassettes with each status, by command."""
    found: dict[str, Counter[Status]] = {}
    for entry in entries:
        found.setdefault(entry.command, Counter())[entry.status] += 1
    return found


def as_dict(merged: MergedReport) -> dict[str, Any]:
    """The summary for JSON; see docs/api.md."""
    return {
        "version": 1,
        "kind": merged.kind,
        "code": merged.code,
        "cassettes": len(merged.entries),
        "commands": {
            command: {status: counts[status] for status in CODES}
            for command, counts in statuses(merged.entries).items()
        },
        "findings": sum(entry.findings for entry in merged.entries),
        "repeats": merged.repeats,
        "differing": [{"command": entry.command, "cassette": entry.cassette} for entry in merged.differing],
        "missing": [one._asdict() for one in merged.missing],
        "not_passed": [
            {name: getattr(entry, name) for name in ("command", "cassette", "status", "code", "findings", "message")}
            for entry in merged.entries
            if entry.status != "passed"
        ],
    }
