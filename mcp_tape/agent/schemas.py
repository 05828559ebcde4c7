"""Arguments and results of tools, as JSON Schema: https://json-schema.org/draft/2020-12"""

from __future__ import annotations

from typing import Any

from ..errors import count
from .answers import CURSOR, NEXT, ToolError, short

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
WHOLE: Schema = {"type": "integer"}
FLAG: Schema = {"type": "boolean"}
OPTIONAL_TEXT: Schema = {"type": ["string", "null"]}
OPTIONAL_WHOLE: Schema = {"type": ["integer", "null"]}
OPTIONAL_NUMBER: Schema = {"type": ["number", "null"]}

FILE = TEXT | {"description": "A cassette, as list_cassettes names it. Not needed where there is only one."}
FILES = TEXT | {"description": "A cassette, as list_cassettes names it. Without it: all of them."}
UNREAD = {"unread": {"type": "array", "items": TEXT, "description": "Cassettes that could not be read, and why."}}
SESSION = WHOLE | {"description": "A session of the cassette, by its number in list_sessions."}
FILTER = TEXT | {
    "description": "Only what fits all of its words; - before a word leaves out what fits. status:error, ok, "
    "tool-error, rpc-error, refused, cancelled, unanswered · tool:NAME · method:tools/* · from:client|server · "
    "kind:request, response, notification, noise, stderr, control · dur:>50 (ms) · size:>10k · id:7 · session:2 · "
    'any "text".',
    "examples": ["status:error", "tool:search -status:ok dur:>50"],
}
_CURSOR = TEXT | {"description": f"{NEXT} of the answer before, to read on."}


def takes(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    """The arguments of a tool, with the cursor that all tools take."""
    return {
        "type": "object",
        "properties": properties | {CURSOR: _CURSOR},
        "required": list(required),
        "additionalProperties": False,
    }


def gives(name: str, /, beside: dict[str, Schema] | None = None, **properties: Schema) -> Schema:
    """A list of objects, the cursor to the next ones, and other members `beside` them."""
    beside = beside or {}
    each = {"type": "object", "properties": properties, "required": list(properties)}
    following = OPTIONAL_TEXT | {"description": f'Not null: there is more. Call again with it as "{CURSOR}".'}
    return {
        "type": "object",
        "properties": {name: {"type": "array", "items": each}, NEXT: following, **beside},
        "required": [name, NEXT, *beside],
    }


def checked(arguments: dict[str, Any], schema: Schema, example: str) -> dict[str, Any]:
    """Return valid arguments, with 7.0 as 7. Refuse others in words that a model can act on."""
    from jsonschema import Draft202012Validator  # slow to import

    found = sorted(Draft202012Validator(schema).iter_errors(arguments), key=lambda error: list(error.path))
    if found:
        first, *others = found
        where = f"argument {first.path[0]}: " if first.path else ""
        rest = f" (and {count(len(others), 'more problem')})" if others else ""
        raise ToolError(f"{where}{short(first.message)}{rest}. Example: {example}")
    return {name: int(value) if isinstance(value, float) else value for name, value in arguments.items()}
