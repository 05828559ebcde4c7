"""The JSON that commands print in tests, validated against the schemas that mcp-tape publishes.

`run` and `invoke` hand over the output of each command with `--json`, and the reports and locks that it wrote. A
published schema allows further members, so that a release can add some. Here, an unknown member is an error: it is not
in the schema yet.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from mcp_tape.cli import cli
from mcp_tape.schemas import read_schema, schema_names

_ROWS = ("check", "redact", "diff", "breaking", "lock", "verify", "lake")
OF_COMMAND = dict.fromkeys(_ROWS, "row") | {"push": "transfer", "pull": "transfer"}


def validate_output(
    words: Sequence[str], code: int, stdout: bytes | str | None, directory: str | os.PathLike[str] = ""
) -> None:
    """Validate what `mcp-tape WORDS` wrote for programs, in a directory. Output that an error cut off is not valid."""
    name = next((word for word in words if word in cli.list_commands(None)), None)  # type: ignore[arg-type]
    own = words[: words.index("--")] if "--" in words else words
    if name and stdout and code in (0, 1) and asks_for_json(own):
        for value in values(stdout.decode() if isinstance(stdout, bytes) else stdout):
            validate(_schema_of(name, value), value)
    for path in written(own, "--report", directory):
        for line in path.read_bytes().splitlines():
            validate("report", json.loads(line))
    for path in written(own, "-o", directory) if name == "lock" else ():
        validate("lock", json.loads(path.read_bytes()))


def written(words: Sequence[str], option: str, directory: str | os.PathLike[str]) -> Iterator[Path]:
    """The file that an option names, if it was written."""
    for before, word in pairwise(words):
        path = Path(directory, os.fsdecode(word))
        if before == option and path.is_file():
            yield path


def _schema_of(command: str, value: Any) -> str:
    if command == "convert" and "file" not in value:
        return "text-cassette"  # the lines themselves, on stdout
    if command == "diff" and "row" not in value:
        return "rule"
    return OF_COMMAND.get(command, command)


def asks_for_json(words: Sequence[str]) -> bool:
    return "--json" in words or "--format=json" in words or ("--format", "json") in pairwise(words)


def values(text: str) -> list[Any]:
    """The output of a command: JSON lines, or one value on several lines."""
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


def validate(name: str, value: Any) -> None:
    error = next(validator(name).iter_errors(value), None)
    assert error is None, f"not as `mcp-tape schema {name}` has it, at {error.json_path}: {error.message}"


@functools.cache
def validator(name: str) -> Draft202012Validator:
    assert name in schema_names()
    return Draft202012Validator(_close(read_schema(name)))


def _close(schema: Any) -> Any:
    """A schema whose objects have no members but those that it names."""
    if isinstance(schema, list):
        return [_close(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {"additionalProperties": False} if isinstance(schema.get("properties"), dict) else {}
    return closed | {name: _close(value) for name, value in schema.items()}
