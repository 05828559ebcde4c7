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
    Column("cassette", "string", "SHA-256 of the cassette it comes from"),
    Column("session", "int64", "number of the session on that cassette"),
)
_WHO = (
    Column("client_name", "string", "the client, as it calls itself"),
    Column("client_version", "string", "its version"),
    Column("server_name", "string", "the server, as it calls itself"),
    Column("server_version", "string", "its version"),
    Column("protocol_version", "string", "the revision of MCP that they speak"),
)
_PLACE = (
    Column("seq", "int64", "number of the frame in its session"),
    Column("part", "int64", "place in a batch; 0 without one"),
    Column("at", "timestamp", "when its last byte was seen (UTC)"),
    Column("sender", "string", "`client` or `server`"),
    Column("channel", "string", "the pipe or HTTP stream it travelled on"),
)
_CALLED = (
    Column("method", "string", "the method"),
    Column("name", "string", "the tool, prompt or URI that it is about"),
    Column("rpc_id", "string", "its id, as JSON"),
)

TABLES: dict[str, tuple[Column, ...]] = {
    "messages": (
        *_OF,
        *_PLACE,
        Column(
            "kind", "string", "`request`, `response`, `notification`; without a message `noise`, `stderr`, `control`"
        ),
        *_CALLED,
        Column("status", "string", "of a response: `ok`, `error`, `tool-error`, `input-required`, `refused`"),
        Column("answers", "int64", "of a response: number of the request that it answers"),
        Column("exchange", "int64", "`seq` of the client's request to which it belongs"),
        Column("bytes", "int64", "length of its text"),
        Column("redactions", "int64", "number of values in its frame that were hidden"),
        Column("text", "string", "its text, as it crossed the wire", True),
        Column("data", "binary", "the same, where it is not UTF-8", True),
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
        Column("key", "string", "match key: equal for the same question; null where it was to be made again"),
        Column("key_version", "int64", "version of the match key"),
        Column("answer_hash", "string", "equal for the same answer, but for its `_meta`"),
        Column("error_code", "int64", "of JSON-RPC; null without an error"),
        Column("trace_id", "string", "of `_meta.traceparent`; else that of `convert --to otlp`"),
        Column("span_id", "string", "that of `convert --to otlp`"),
        Column("parent_span_id", "string", "of `_meta.traceparent`"),
        Column("arguments", "string", "of a tool or prompt its arguments, else `params` without `_meta`; JSON", True),
        Column("result", "string", "the result; JSON", True),
        Column("error", "string", "the error; JSON", True),
    ),
    "definitions": (
        *_OF,
        Column("seq", "int64", "number of the frame with the request of the list"),
        Column("at", "timestamp", "when that was sent (UTC)"),
        *_WHO,
        Column("kind", "string", "`tool`, `resource`, `template`, `prompt` or `skill`"),
        Column("name", "string", "name or URI"),
        Column("bytes", "int64", "length of the definition as compact JSON"),
        Column("tokens", "int64", "of a tool: estimate of what a model reads"),
        Column("definition_hash", "string", "equal for the same definition"),
        Column("definition", "string", "the definition; JSON", True),
    ),
    "sessions": (
        *_OF,
        Column("file", "string", "name of the cassette's file"),
        Column("recording", "string", "equal for all copies of a session, also in a cassette that was redacted"),
        Column("started_at", "timestamp", "when it began (UTC)"),
        Column("ended_at", "timestamp", "when it ended; null if nobody saw that"),
        *_WHO,
        Column("transport", "string", "how they were connected"),
        Column("target", "string", "command or URL of the server; JSON"),
        Column("exit_code", "int64", "of the server"),
        Column("recorder", "string", "who recorded it"),
        Column("note", "string", "what was noted"),
        Column("extends", "int64", "the session that it adds to"),
        Column("run", "string", "the run it belongs to"),
        Column("label", "string", "what its server is called in a configuration"),
        Column("incomplete", "string", "why it is incomplete; null if it is not"),
        Column("frames", "int64", "number of its frames"),
        Column("redactions", "int64", "number of values in them, and in what is known of it, that were hidden"),
        Column("exchanges", "int64", "number of requests that were answered"),
        Column("open", "int64", "number of requests that were not"),
        Column("errors", "int64", "number of answers that are errors"),
        Column("microseconds", "int64", "from its begin to its last frame"),
    ),
}  # fmt: skip
LAST = "sessions"  # table: its last file marks a source as done


def content(table: str) -> list[str]:
    """The content columns of a table."""
    return [column.name for column in TABLES[table] if column.is_content]
