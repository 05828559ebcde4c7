"""Unusual cassettes, and helpers for tests of export, load, edit and dump."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from hypothesis import strategies as st

from mcp_tape.cassette.reader import Cassette
from mcp_tape.cli import cli
from mcp_tape.record.tape import Tape
from mcp_tape.redaction.redactor import Redactor
from tests.support.decks import FACTS, OneSession
from tests.support.http_facts import Http, cassette

STARTED = {"started_at": "2026-01-01T00:00:00Z"}
TOKEN = "f8Jq2-Lm0zX-77pQ"
ASKS = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}\n'
TOLD = b'"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"odd","version":"1.0"}'
ODD_CLIENT = (
    ASKS
    + b'{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "sum", "arguments": '
    + b'{"a": 1E2, "b": 1.0, "c": 123456789012345678901234567890, "d": "\\u00e9\\ud800", "e": -0, "a": 3}}}\r\n'
    + b'[{"jsonrpc":"2.0","id":3,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"}]\n'
    + b'{"jsonrpc":"2.0","id":4,"method":"never/answered"}\n'
)
ODD_SERVER = (
    b"Hello \x1b[31mon\x9b stdout\n"
    b'{"jsonrpc":"2.0","id":1,"result":{' + TOLD + b"}}\n"
    b'{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"\xff bad"}],"isError":true}}\n'
    b"nul \0 here\n\n  spaces  \n@5 server\n# a remark\n```\n"
    b'{"jsonrpc":"2.0","id":3,"error":{"code":-1,"message":"```` no"}}\n'
    b'{"jsonrpc":"2.0","id":99,"result":{}}'
)


def recorded(
    path: Path, client: bytes, server: bytes, stderr: bytes = b"", *, redact: bool = False, **more: Any
) -> Path:
    """Add a session of these streams to a cassette."""
    writer = OneSession(path, STARTED | FACTS | more)
    batch: list[Any] = []
    tape = Tape(lambda frame, entries: batch.append((frame, entries)), Redactor({}) if redact else None)
    tape.feed("client", "stdio", client, 1000)
    tape.feed("server", "stderr", stderr, 1500)
    tape.feed("server", "stdio", server, 2000)
    tape.control("client", "stdio", {"event": "close"}, 2500)
    tape.end_all(3000)
    tape.control("server", "stdio", {"event": "exit", "code": 3}, 3001)
    writer.append(batch, tape.ledger.facts)
    writer.finish({"ended_at": "2026-01-01T00:00:01Z", "exit_code": 3, "incomplete": more.get("why")})
    writer.close()
    return path


def odd(path: Path) -> Path:
    """Invalid UTF-8, NUL, numbers that parsers change, noise that looks like our own marks."""
    return recorded(path, ODD_CLIENT, ODD_SERVER, b"warning \xff\nplain\n", note="it's \x07 odd")


def hidden(path: Path) -> Path:
    """A secret that appears under its name, and later without it, where it is redacted: its key is of the original."""
    call = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"login","arguments":{"%s":"%s"}}}\n'
    asked = call % (2, "password", TOKEN) + call % (3, "word", TOKEN)
    answers = '{"jsonrpc":"2.0","id":2,"result":{}}\n{"jsonrpc":"2.0","id":3,"result":{}}\n'
    return recorded(path, asked.encode(), answers.encode(), redact=True)


def over_http(path: Path) -> Path:
    """Retries, a stream with ids, a fragment, a refusal."""
    call = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}'

    def talk(http: Http) -> None:
        http.post("post-1", call)
        http.answer("post-1", "", 401)
        http.post("post-2", call)
        http.respond("post-2")
        http.event("post-2", '{"jsonrpc":"2.0","method":"notifications/message","params":{"data":1}}', "7")
        http.feed("server", "post-2", b": \xff\xfe\nid: \xff8\ndata: " + b'{"jsonrpc":"2.0","id":1,"result":{}}\n\n')
        http.end("server", "post-2")
        http.post("post-3", call.replace("1,", "2,"))
        http.answer("post-3", "go away", 400)
        http.open("get-1")
        http.respond("get-1")
        http.feed("server", "get-1", b'id: 9\ndata: {"jsonrpc":"2.0","meth')
        http.abort("client", "get-1")

    return cassette(path, talk)


def several(path: Path) -> Path:
    """Sessions of all kinds."""
    odd(path)
    hidden(path)
    recorded(path, ASKS, b"", extends=1, run="r-1", target="not JSON: {", note=None)
    over_http(path)
    return path


def table(path: Path, name: str, **where: int) -> list[tuple[Any, ...]]:
    """The rows of a table, with the type of each value; blobs and texts as bytes."""
    with Cassette(path) as cassette, closing(sqlite3.connect(cassette.source)) as db:  # in the current schema
        db.text_factory = bytes
        condition = " AND ".join(f"{column} = {value}" for column, value in where.items()) or "1"
        return db.execute(f"SELECT * FROM {name} WHERE {condition} ORDER BY 1, 2").fetchall()


def everything(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    return {name: table(path, name) for name in ("sessions", "facts", "derived", "frames", "messages")}


def tape(*words: object, stdin: bytes = b"", code: int = 0) -> Result:
    """Run a command in this process."""
    result = CliRunner().invoke(cli, [str(word) for word in words], input=stdin)
    assert result.exit_code == code, (result.stderr, result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


lone_surrogates = st.text(st.characters(min_codepoint=0xD800, max_codepoint=0xDBFF), max_size=4)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**63), max_value=2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | lone_surrogates
)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)
layouts = st.sampled_from([{"separators": (",", ":")}, {}, {"indent": 2}, {"indent": "\t"}, {"ensure_ascii": False}])
