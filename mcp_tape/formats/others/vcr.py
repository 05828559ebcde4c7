"""Transcripts of mcp-vcr 0.2, in YAML or as JSON lines. YAML needs a parser: pip install 'mcp-tape[yaml]'."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ...errors import CassetteError
from ...wire.frames import Side
from ..foreign import (
    RESERIALISED,
    Clock,
    Item,
    Loss,
    Reader,
    SessionStart,
    SourceFile,
    WrongError,
    command,
    cut_off_loss,
    milliseconds,
)
from ..foreign import sent_value as sent_value

_SENDERS: dict[str, Side] = {"c2s": "client", "s2c": "server"}
_DEEPEST = 200
_TOP = re.compile(r"(?:meta|messages):[ \t]*\r?\n(?:- |  ?\S|\s+\w+:)")


def _is_lines(source: SourceFile) -> bool:
    return source.first.get("_type") == "meta"


def _lines(source: SourceFile) -> Iterator[Item]:
    yield from _begin(source.first)
    for row in source.rows():
        if isinstance(row, Loss):
            yield row
        elif sender := _SENDERS.get(str(row.get("dir"))):
            yield row.sent_bytes(milliseconds(row.get("t")), sender, "payload")


def _is_yaml(source: SourceFile) -> bool:
    return _TOP.match(source.start) is not None


def _yaml(source: SourceFile) -> Iterator[Item]:
    document, is_whole = _load_document(source)
    messages = document.get("messages") if isinstance(document, dict) else None
    if not isinstance(messages, list):
        raise WrongError(f"{source.path} is YAML, but holds no messages as those of mcp-vcr")
    meta = document.get("meta")
    yield from _begin(meta if isinstance(meta, dict) else {})
    if not is_whole or meta is None:  # meta is written last
        yield cut_off_loss()
    for row in messages:
        sender = _SENDERS.get(str(row.get("dir"))) if isinstance(row, dict) else None
        if sender is not None:
            yield sent_value(milliseconds(row.get("t")), sender, row.get("payload"))


def _begin(meta: Any) -> Iterator[Item]:
    yield SessionStart(Clock(meta.get("recorded_at")).started_at, command(meta.get("server_command")))
    yield Loss(RESERIALISED)


def _load_document(source: SourceFile) -> tuple[Any, bool]:
    """The document, and whether it is complete. One that was cut off is read up to its last complete message."""
    text, is_whole = source.text, True
    while True:
        try:
            return _parse_yaml(text), is_whole
        except ValueError as error:
            shorter = text[: max(text.rfind("\n- "), 0)]
            if not is_whole or not shorter:
                raise WrongError(f"{source.path} cannot be read as YAML: {error}") from None
            text, is_whole = shorter + "\n", False


def _parse_yaml(text: str) -> Any:
    """Parse YAML to plain values. Aliases are refused: a few of them can expand beyond all memory."""
    try:
        import yaml
    except ImportError:
        raise CassetteError(
            "this is a transcript of mcp-vcr, and YAML needs a parser: pip install 'mcp-tape[yaml]'"
        ) from None
    fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        depth = 0
        for event in yaml.parse(text, fast):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST or isinstance(event, yaml.AliasEvent):
                raise CassetteError("this YAML holds aliases, or is nested too deep, as no transcript of mcp-vcr is")

        class Plain(fast):  # type: ignore[misc, valid-type]
            """A loader that keeps dates as text."""

        Plain.yaml_implicit_resolvers = {
            letter: [(tag, found) for tag, found in known if tag != "tag:yaml.org,2002:timestamp"]
            for letter, known in fast.yaml_implicit_resolvers.items()
        }
        return yaml.load(text, Plain)
    except (yaml.YAMLError, RecursionError, TypeError, OverflowError) as error:
        raise ValueError(" ".join(str(error).split())[:200]) from None


READERS = (Reader("mcp-vcr as JSON lines", _is_lines, _lines), Reader("mcp-vcr", _is_yaml, _yaml))
