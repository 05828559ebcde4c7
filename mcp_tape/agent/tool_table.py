"""The table of tools: name, description for a model, example; arguments and results as JSON Schema.

https://json-schema.org/draft/2020-12
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import count
from . import asking, reading
from .paging import CURSOR, NEXT, ToolAnswer, ToolError, short
from .places import ToolCall

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
WHOLE: Schema = {"type": "integer"}
FLAG: Schema = {"type": "boolean"}
OPTIONAL_TEXT: Schema = {"type": ["string", "null"]}
OPTIONAL_WHOLE: Schema = {"type": ["integer", "null"]}
OPTIONAL_NUMBER: Schema = {"type": ["number", "null"]}

FILE = TEXT | {"description": "The name of a cassette, from list_cassettes. Not needed if there is only one."}
FILES = TEXT | {"description": "The name of a cassette, from list_cassettes. Default: all."}
UNREAD = {"unread": {"type": "array", "items": TEXT, "description": "Unreadable cassettes, with the reasons."}}
SESSION = WHOLE | {"description": "The number of a session, from list_sessions."}
FILTER = TEXT | {
    "description": "Only messages that match every word; - before a word excludes. status:error, ok, "
    "tool-error, rpc-error, refused, cancelled, unanswered · tool:NAME · method:tools/* · from:client|server · "
    "kind:request, response, notification, noise, stderr, control · dur:>50 (ms) · size:>10k · id:7 · session:2 · "
    'any "text".',
    "examples": ["status:error", "tool:search -status:ok dur:>50"],
}
_CURSOR = TEXT | {"description": f"{NEXT} of the previous answer, to read on."}


def argument_schema(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    """The arguments of a tool, with the cursor that all tools take."""
    return {
        "type": "object",
        "properties": properties | {CURSOR: _CURSOR},
        "required": list(required),
        "additionalProperties": False,
    }


def result_schema(name: str, /, beside: dict[str, Schema] | None = None, **properties: Schema) -> Schema:
    """A list of objects, the cursor to the next ones, and the members in `beside`."""
    beside = beside or {}
    each = {"type": "object", "properties": properties, "required": list(properties)}
    following = OPTIONAL_TEXT | {"description": f'Not null: there is more. Call again with it as "{CURSOR}".'}
    return {
        "type": "object",
        "properties": {name: {"type": "array", "items": each}, NEXT: following, **beside},
        "required": [name, NEXT, *beside],
    }


def check_arguments(arguments: dict[str, Any], schema: Schema, example: str) -> dict[str, Any]:
    """Return valid arguments, with 7.0 as 7. Refuse others in words that a model can act on."""
    from jsonschema import Draft202012Validator  # slow to import

    found = sorted(Draft202012Validator(schema).iter_errors(arguments), key=lambda error: list(error.path))
    if found:
        first, *others = found
        where = f"argument {first.path[0]}: " if first.path else ""
        rest = f" (and {count(len(others), 'more problem')})" if others else ""
        raise ToolError(f"{where}{short(first.message)}{rest}. Example: {example}")
    return {name: int(value) if isinstance(value, float) else value for name, value in arguments.items()}


_MESSAGE: dict[str, Schema] = {
    "session": WHOLE, "seq": WHOLE, "seconds": NUMBER, "sender": TEXT, "kind": OPTIONAL_TEXT, "id": OPTIONAL_TEXT,
    "what": TEXT, "status": OPTIONAL_TEXT, "size": WHOLE, "odd": FLAG, "exchange": OPTIONAL_WHOLE, "detail": TEXT,
}  # fmt: skip


class Tool(NamedTuple):
    name: str
    title: str
    says: str
    example: str
    takes: Schema
    gives: Schema | None
    run: Callable[..., ToolAnswer]

    @property
    def description(self) -> str:
        return f"{self.says}\nExample: {self.example}"

    def call(self, call: ToolCall, arguments: dict[str, Any]) -> ToolAnswer:
        return self.run(call, **check_arguments(arguments, self.takes, self.example))


_ALL = (
    Tool(
        "list_cassettes", "List cassettes",
        "The readable cassettes (recordings of MCP sessions), and the newest session on each.",
        "{}", argument_schema(),
        result_schema("cassettes", file=TEXT, bytes=WHOLE, sessions=WHOLE, newest=OPTIONAL_TEXT, problem=OPTIONAL_TEXT),
        reading.list_cassettes,
    ),
    Tool(
        "list_sessions", "List the sessions on a cassette",
        "The sessions on a cassette, oldest first: time, server, client, number of exchanges and errors, and whether "
        "it is complete.",
        '{"file": "cassettes/time.db"}', argument_schema(file=FILE),
        result_schema(
            "sessions", id=WHOLE, started_at=TEXT, ended_at=OPTIONAL_TEXT, server=TEXT, client=TEXT,
            label=OPTIONAL_TEXT, protocol_version=OPTIONAL_TEXT, transport=TEXT, exchanges=WHOLE, open=WHOLE,
            errors=WHOLE, seconds=OPTIONAL_NUMBER, exit_code=OPTIONAL_WHOLE, incomplete=OPTIONAL_TEXT,
            note=OPTIONAL_TEXT,
        ),
        reading.list_sessions,
    ),
    Tool(
        "show_session", "Show the messages of a session",
        "The messages of a session, one line each; with a filter, only those that match. Default: the newest session. "
        "Begin here to see why a call failed: status:error finds it, and show_exchange with its seq shows all of it. "
        "Content is cut to 300 characters. `all` adds the HTTP requests and responses around messages.",
        '{"file": "cassettes/time.db", "filter": "status:error"}',
        argument_schema(file=FILE, session=SESSION, filter=FILTER, all=FLAG), result_schema("messages", **_MESSAGE),
        reading.show_session,
    ),
    Tool(
        "show_exchange", "Show one exchange in full",
        "One exchange in full: the request, its answer, the messages that belong to it, and the server's stderr at "
        "that time. seq is the number of any of its messages, from show_session or search.",
        '{"file": "cassettes/time.db", "session": 1, "seq": 12}',
        argument_schema(("seq",), file=FILE, session=SESSION, seq=WHOLE | {"minimum": 0}), None, reading.show_exchange,
    ),
    Tool(
        "search", "Find messages by their words",
        "Messages that have all of the given words, in params, results, errors, noise and stderr, in any case. "
        '"two words" in quotes must follow each other; tool* is any word that starts with tool. Default: all '
        "cassettes, all sessions.",
        '{"words": "timeout \\"no such\\""}',
        argument_schema(("words",), file=FILES, session=SESSION, words=TEXT | {"minLength": 1}),
        result_schema("messages", UNREAD, file=TEXT, **_MESSAGE), reading.search_words,
    ),
    Tool(
        "stats", "Count calls, errors and durations",
        "How often each tool and method was called, failed or got no answer, how long answers took (microseconds), "
        "and their bytes. Default: all cassettes together, all sessions.",
        '{"filter": "tool:* from:client"}',
        argument_schema(file=FILES, session=SESSION, filter=FILTER),
        result_schema(
            "calls", UNREAD, sender=TEXT, method=OPTIONAL_TEXT, name=OPTIONAL_TEXT, calls=WHOLE, errors=WHOLE,
            unanswered=WHOLE, bytes=WHOLE, p50_microseconds=OPTIONAL_NUMBER, p95_microseconds=OPTIONAL_NUMBER,
            max_microseconds=OPTIONAL_NUMBER,
        ),
        reading.show_stats,
    ),
    Tool(
        "why", "Find out why it hung",
        "Why a run hung or failed: calls that were answered never or too late; a server that died (exit code, last "
        "stderr), wrote something else to stdout or was slow to start; a client that left first. Each has its seq and "
        "the evidence. Default: all sessions.",
        '{"file": "cassettes/time.db"}', argument_schema(file=FILE, session=SESSION),
        result_schema(
            "reasons", rule=TEXT, what=TEXT, session=WHOLE, seq=OPTIONAL_WHOLE,
            evidence={"type": "array", "items": TEXT},
        ),
        reading.show_reasons,
    ),
    Tool(
        "diff", "Compare two recordings of a server",
        "The changes between two recordings of a server, and which of them break clients. FILE#N is one session of a "
        "cassette; FILE alone, its newest. part: surface (tools, prompts, resources, capabilities) or calls. format "
        "json cuts nothing.",
        '{"old": "cassettes/time.db#1", "new": "cassettes/time.db#2"}',
        argument_schema(
            ("old", "new"), old=TEXT, new=TEXT, part=TEXT | {"enum": ["surface", "calls"]},
            format=TEXT | {"enum": ["text", "json"]},
        ),
        None, asking.diff,
    ),
    Tool(
        "query", "Run SQL on a cassette",
        f"The rows of one read-only SQL statement (SQLite). {'; '.join(asking.TABLES)}.",
        f'{{"file": "cassettes/time.db", "sql": "{asking.SQL_EXAMPLE}"}}',
        argument_schema(
            ("sql",), file=FILE, sql=TEXT | {"minLength": 1},
            params={"type": "object", "additionalProperties": TEXT, "description": "Values of :name in the query."},
        ),
        result_schema("rows"), asking.query,
    ),
)  # fmt: skip
TOOLS = {tool.name: tool for tool in _ALL}


def find_tool(name: str) -> Tool:
    if name not in TOOLS:
        raise ToolError(f"there is no tool {name!r}; there are: {', '.join(TOOLS)}")
    return TOOLS[name]
