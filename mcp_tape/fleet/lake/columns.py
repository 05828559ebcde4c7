"""The tables of a lake and their columns: one home for the schema, its version and its names.

A change here changes other people's files: to add, rename or redefine a column needs a new version, and lakes of the
old version stay unchanged.
"""

from __future__ import annotations

from typing import NamedTuple

VERSION = 1


class Column(NamedTuple):
    """A column. `is_content`: holds message text, which a lake may leave out."""

    name: str
    type: str
    about: str
    is_content: bool = False


_OF = (
    Column("cassette", "string", "SHA-256 of the source cassette"),
    Column("session", "int64", "number of the session on the cassette"),
)
_WHO = (
    Column("client_name", "string", "name that the client gives"),
    Column("client_version", "string", "version of the client"),
    Column("server_name", "string", "name that the server gives"),
    Column("server_version", "string", "version of the server"),
    Column("protocol_version", "string", "MCP revision of the session"),
)
_PLACE = (
    Column("seq", "int64", "number of the frame in its session"),
    Column("part", "int64", "place in a batch; 0 without one"),
    Column("at", "timestamp", "time of its last byte (UTC)"),
    Column("sender", "string", "`client` or `server`"),
    Column("channel", "string", "its pipe or HTTP stream"),
)
_CALLED = (
    Column("method", "string", "the method"),
    Column("name", "string", "tool, prompt or URI"),
    Column("rpc_id", "string", "JSON-RPC id, as JSON"),
)

TABLES: dict[str, tuple[Column, ...]] = {
    "messages": (
        *_OF,
        *_PLACE,
        Column(
            "kind", "string", "`request`, `response`, `notification`; for other frames `noise`, `stderr`, `control`"
        ),
        *_CALLED,
        Column("status", "string", "of a response: `ok`, `error`, `tool-error`, `input-required`, `refused`"),
        Column("answers", "int64", "of a response: `seq` of its request"),
        Column("exchange", "int64", "`seq` of the client request that it belongs to"),
        Column("bytes", "int64", "length of the text"),
        Column("redactions", "int64", "number of redacted values in the frame"),
        Column("text", "string", "verbatim text", True),
        Column("data", "binary", "verbatim bytes, if they are not UTF-8", True),
    ),
    "calls": (
        *_OF,
        *_PLACE,
        *_WHO,
        *_CALLED,
        Column(
            "status", "string",
            "`ok`, `error`, `tool-error`, `input-required`, `refused`; `unanswered`, `cancelled`, `retry`",
        ),
        Column("microseconds", "int64", "from the request to its answer; null without one"),
        Column("request_bytes", "int64", "length of the request"),
        Column("answer_bytes", "int64", "length of the answer; null without one"),
        Column("key", "string", "match key, equal for equal requests; null if it is out of date"),
        Column("key_version", "int64", "version of the match key"),
        Column("answer_hash", "string", "equal for equal answers; ignores `_meta`"),
        Column("error_code", "int64", "JSON-RPC error code; null without an error"),
        Column("trace_id", "string", "from `_meta.traceparent`; otherwise as in `convert --to otlp`"),
        Column("span_id", "string", "as in `convert --to otlp`"),
        Column("parent_span_id", "string", "from `_meta.traceparent`"),
        Column("arguments", "string", "arguments of a tool or prompt; otherwise `params` without `_meta`; JSON", True),
        Column("result", "string", "the result; JSON", True),
        Column("error", "string", "the error; JSON", True),
    ),
    "definitions": (
        *_OF,
        Column("seq", "int64", "`seq` of the list request"),
        Column("at", "timestamp", "time of the list request (UTC)"),
        *_WHO,
        Column("kind", "string", "`tool`, `resource`, `template`, `prompt` or `skill`"),
        Column("name", "string", "name or URI"),
        Column("bytes", "int64", "length of the definition as compact JSON"),
        Column("tokens", "int64", "of a tool: estimated tokens that a model reads"),
        Column("definition_hash", "string", "equal for equal definitions"),
        Column("definition", "string", "the definition; JSON", True),
    ),
    "sessions": (
        *_OF,
        Column("file", "string", "name of the cassette's file"),
        Column("recording", "string", "equal for all copies of a session, redacted or not"),
        Column("started_at", "timestamp", "start (UTC)"),
        Column("ended_at", "timestamp", "end; null if the recorder was killed before it"),
        *_WHO,
        Column("transport", "string", "`stdio`, `http` or `sse`"),
        Column("target", "string", "command or URL of the server; JSON"),
        Column("exit_code", "int64", "exit code of the server"),
        Column("recorder", "string", "program that recorded it"),
        Column("note", "string", "note of the recording (`record --note`)"),
        Column("extends", "int64", "session that it extends"),
        Column("run", "string", "run that it belongs to"),
        Column("label", "string", "name of its server in a configuration"),
        Column("incomplete", "string", "reason why it is incomplete; null if it is complete"),
        Column("frames", "int64", "number of frames"),
        Column("redactions", "int64", "number of redacted values in its frames and its facts"),
        Column("exchanges", "int64", "number of answered requests"),
        Column("open", "int64", "number of unanswered requests"),
        Column("errors", "int64", "number of errors among the answers"),
        Column("microseconds", "int64", "from its start to its last frame"),
    ),
}  # fmt: skip
LAST = "sessions"  # table: its last file marks a source as done


def content(table: str) -> list[str]:
    """The content columns of a table."""
    return [column.name for column in TABLES[table] if column.is_content]
