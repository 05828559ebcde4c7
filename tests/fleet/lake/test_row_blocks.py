"""The rows of a session: unchanged values, and parts of texts that keep their meaning."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.cassette.query.filters import EVERYTHING
from mcp_tape.cassette.reader import Cassette
from mcp_tape.fleet.lake.columns import TABLES, content
from mcp_tape.fleet.lake.row_blocks import RowSource, blocks
from mcp_tape.telemetry.spans import documents
from tests.support.decks import alter, make_cassette
from tests.support.golden import path_of
from tests.support.lakes import Row, greeting
from tests.support.messages import call, request, result, tell

SOURCE = RowSource("0" * 64, "tape.db")
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def rows_of(path: Path, source: RowSource = SOURCE) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {table: [] for table in TABLES}
    with Cassette(path) as cassette:
        for session in cassette.sessions():
            for block in blocks(cassette, session, source):
                names = [column.name for column in TABLES[block.table]]
                values = zip(*map(block.column, names), strict=True)
                found[block.table] += [dict(zip(names, row, strict=True)) for row in values]
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tape.db"


def calls_of(path: Path, *said: Any, **more: Any) -> list[Row]:
    return rows_of(make_cassette(path, said, **more))["calls"]


def answer(rpc_id: Any, text: str) -> tuple[str, str]:
    return "server", f'{{"jsonrpc":"2.0","id":{rpc_id},"result":{text}}}'


@pytest.mark.parametrize(
    "written",
    [
        '{"n": 123456789012345678901234567890}',
        '{"n": 1e2, "deep": [[1.0]]}',
        '{ "n" : 1.10 }',
    ],
)
def test_numbers_stay_as_they_were_written(path: Path, written: str) -> None:
    asked = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{written}}}}}'
    (row,) = calls_of(path, ("client", asked), answer(1, written))
    assert (row["arguments"], row["result"]) == (written, written)


def test_half_a_character_stays_an_escape(path: Path) -> None:
    asked = r'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a": "\ud800"}}}'
    (row,) = calls_of(path, ("client", asked), answer(1, r'{"b": "\udfff"}'))
    assert (row["arguments"], row["result"]) == (r'{"a": "\ud800"}', r'{"b": "\udfff"}')
    assert row["arguments"].encode()


def test_malformed_json_has_no_arguments_and_bytes_are_data(path: Path) -> None:
    make_cassette(path, [("client", call(1)), ("server", result(1)), ("server", "noise \udcff\udcfe")])
    alter(path, "UPDATE facts SET text = 'no JSON' WHERE sender = 'client'")
    found = rows_of(path)
    (row,) = found["calls"]
    assert (row["arguments"], row["status"]) == (None, "ok") and row["request_bytes"] == len("no JSON")
    noise = found["messages"][-1]
    assert (noise["kind"], noise["text"], noise["data"], noise["bytes"]) == ("noise", None, b"noise \xff\xfe", 8)


def test_the_parts_of_a_batch_are_rows_of_their_own() -> None:
    found = rows_of(path_of("batch"))
    parts = [row for row in found["messages"] if row["part"]]
    assert parts and all(row["text"].startswith("{") for row in parts)
    asked = [row for row in found["calls"] if row["part"]]
    texts = {(row["seq"], row["part"]): row["text"] for row in found["messages"]}
    assert asked and all(row["rpc_id"] in texts[row["seq"], row["part"]] for row in asked)


def test_arguments_are_those_of_a_tool_or_else_all_parameters_but_meta(path: Path) -> None:
    meta = {"_meta": {"progressToken": 7}}
    said = [call(1, token=7, a=1), request(2, "resources/read", uri="file:///x", **meta), request(3, "ping")]
    rows = calls_of(path, *(("client", text) for text in said))
    assert [row["arguments"] for row in rows] == ['{"a":1}', '{"uri":"file:///x"}', None]
    assert [(row["status"], row["answer_bytes"], row["microseconds"]) for row in rows] == [
        ("unanswered", None, None)
    ] * 3


def test_an_answer_has_a_hash_that_does_not_depend_on_its_meta_or_the_order_of_its_keys(path: Path) -> None:
    answers = ['{"a":1,"b":2}', '{"b":2, "a":1, "_meta":{"x":1}}', '{"a":1,"b":3}']
    said = [one for n, text in enumerate(answers) for one in (("client", call(n)), answer(n, text))]
    one, same, other = (row["answer_hash"] for row in calls_of(path, *said))
    assert one == same != other and len(one) == 32
    failed = ("server", '{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}')
    (row,) = calls_of(path.with_name("failed.db"), ("client", call(1)), failed)
    assert (row["status"], row["error_code"], row["result"]) == ("error", -32602, None)
    assert row["error"] == '{"code":-32602,"message":"no"}' and row["answer_hash"] not in (one, None)


def test_a_code_that_no_column_holds_is_none(path: Path) -> None:
    failed = ("server", '{"jsonrpc":"2.0","id":1,"error":{"code":99999999999999999999,"message":"no"}}')
    (row,) = calls_of(path, ("client", call(1)), failed)
    assert row["error_code"] is None and "99999999999999999999" in row["error"]


def test_ids_of_traces_are_those_that_spans_of_the_same_calls_have(path: Path) -> None:
    traced = request(2, "tools/call", name="t", arguments={}, _meta={"traceparent": PARENT})
    one, other = calls_of(path, ("client", call(1)), ("client", traced))
    with Cassette(path) as cassette:
        (sent,) = documents(cassette, cassette.sessions(), EVERYTHING, False)
    spans = [span for scope in sent["resourceSpans"][0]["scopeSpans"] for span in scope["spans"]]
    assert [(row["trace_id"], row["span_id"], row["parent_span_id"]) for row in (one, other)] == [
        (span["traceId"], span["spanId"], span.get("parentSpanId")) for span in spans
    ]
    assert (other["trace_id"], other["parent_span_id"]) == tuple(PARENT.split("-")[1:3])


def test_definitions_equal_the_items_of_lists(path: Path) -> None:
    tools = [{"name": "a", "description": "d" * 40, "inputSchema": {}}, {"name": "\ud800"}, "no tool"]
    prompts = [{"name": "p"}]
    said = [
        *greeting("s", "2"),
        ("client", request(1, "tools/list")), answer(1, json.dumps({"tools": tools})),
        ("client", request(2, "prompts/list")), answer(2, json.dumps({"prompts": prompts})),
        ("client", request(3, "resources/list")), answer(3, '{"resources": 5}'),
    ]  # fmt: skip
    found = rows_of(make_cassette(path, said))["definitions"]
    assert [(row["kind"], row["name"]) for row in found] == [
        ("tool", "a"),
        ("tool", "?"),
        ("tool", None),
        ("prompt", "p"),
    ]
    first = found[0]
    assert json.loads(first["definition"]) == tools[0]
    assert first["bytes"] == len(first["definition"]) and first["tokens"] > 10 and first["server_version"] == "2"
    assert found[3]["tokens"] is None


def test_without_content_only_texts_are_left_out() -> None:
    whole, bare = rows_of(path_of("everything")), rows_of(path_of("everything"), SOURCE._replace(with_content=False))
    left_out = 0
    for table in TABLES:
        for row, kept in zip(whole[table], bare[table], strict=True):
            assert kept == row | dict.fromkeys(content(table))
            left_out += row != kept
    assert left_out > 100
    assert "Hello from everything" not in repr(bare)


def test_a_recording_is_identified_by_its_facts_and_not_by_its_file(path: Path) -> None:
    said = [("client", call(1)), ("server", result(1))]
    start = {"started_at": "2026-11-16T10:00:00.123456Z"}
    make_cassette(path, said, **start)
    make_cassette(path.with_name("copy.db"), [*said, ("server", tell("notifications/more"))], **start)
    make_cassette(path, said, started_at="2026-11-16T10:00:00.123457Z")
    one, later = (row["recording"] for row in rows_of(path)["sessions"])
    (copy,) = (row["recording"] for row in rows_of(path.with_name("copy.db"))["sessions"])
    assert one == copy != later


def test_every_row_says_where_it_comes_from() -> None:
    digest = sha256(b"x").hexdigest()
    found = rows_of(path_of("time"), RowSource(digest, "time.db"))
    assert {row["cassette"] for table in found.values() for row in table} == {digest}
    assert [row["file"] for row in found["sessions"]] == ["time.db"]
