"""Spans of calls: parsed by OpenTelemetry's own classes, named by its conventions, and sent to a collector."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from mcp_tape.cassette.query.exchanges import exchanges
from mcp_tape.cassette.query.filters import EVERYTHING, parse
from mcp_tape.cassette.reader import Cassette
from mcp_tape.errors import ServerError
from mcp_tape.telemetry import spans as making
from mcp_tape.telemetry.collector import TRIES, encode, endpoint, send
from tests.support.collector import Collector, collecting
from tests.support.provision import ROOT
from tests.support.running import MCP_TAPE, record, run

EVERYTHING_DB = ROOT / "cassettes" / "everything.db"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def spans(path: Path, kept: str = "", content: bool = False) -> list[dict[str, Any]]:
    with Cassette(path) as cassette:
        found = making.documents(cassette, cassette.sessions(), parse(kept) if kept else EVERYTHING, content)
        return [one for document in found for one in document["resourceSpans"][0]["scopeSpans"][0]["spans"]]


def attributes(span: dict[str, Any]) -> dict[str, Any]:
    return {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}


def as_protobuf(document: dict[str, Any]) -> ExportTraceServiceRequest:
    """The message that a collector parses. OTLP has ids in hex where Protobuf's own JSON has base64."""
    document = json.loads(json.dumps(document))
    for one in document["resourceSpans"]:
        for span in one["scopeSpans"][0]["spans"]:
            for name in ("traceId", "spanId", "parentSpanId"):
                if name in span:
                    span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    return json_format.ParseDict(document, ExportTraceServiceRequest())


def test_requests_of_a_batch_have_spans_of_their_own() -> None:
    with Cassette(ROOT / "cassettes/batch.db") as cassette:
        document = json.loads("".join(making.dump(cassette, cassette.sessions(), EVERYTHING, True)))
        calls = len(cassette.exchanges(1))
    found = [span["spanId"] for one in document["resourceSpans"] for span in one["scopeSpans"][0]["spans"]]
    assert len(set(found)) == len(found) == calls


def test_opentelemetry_reads_all_of_it() -> None:
    with Cassette(EVERYTHING_DB) as cassette:
        document = json.loads("".join(making.dump(cassette, cassette.sessions(), EVERYTHING, True)))
        calls = len(cassette.exchanges(1))
    assert ExportTraceServiceRequest.FromString(encode(document)) == as_protobuf(document)
    (resource,) = as_protobuf(document).resource_spans
    found = resource.scope_spans[0].spans
    assert len(found) == calls > 20
    assert all(len(span.trace_id) == 16 and len(span.span_id) == 8 and span.kind == 3 for span in found)
    assert len({span.span_id for span in found}) == calls
    assert all(0 < span.start_time_unix_nano <= span.end_time_unix_nano for span in found)


def test_spans_are_named_as_the_conventions_have_it() -> None:
    (span,) = spans(EVERYTHING_DB, "tool:get-sum")
    assert span["name"] == "tools/call get-sum"
    known = attributes(span)
    assert known.pop("jsonrpc.request.id").isdecimal()
    assert known == {
        "network.transport": "pipe", "mcp.protocol.version": "2025-11-25", "mcp.method.name": "tools/call",
        "gen_ai.tool.name": "get-sum", "gen_ai.operation.name": "execute_tool",
    }  # fmt: skip
    read, *_ = spans(EVERYTHING_DB, "method:resources/read")
    assert (read["name"], attributes(read)["mcp.resource.uri"][:7]) == ("resources/read", "demo://")
    prompt, *_ = spans(EVERYTHING_DB, "method:prompts/get")
    assert attributes(prompt)["gen_ai.prompt.name"] == "simple-prompt"


def test_failures_are_distinguished() -> None:
    failed = {(attributes(s)["error.type"], s["status"]["code"]) for s in spans(EVERYTHING_DB) if "status" in s}
    assert failed == {("tool_error", 2), ("-32602", 2)}
    codes = {attributes(s).get("rpc.response.status_code") for s in spans(EVERYTHING_DB, "status:error")}
    assert codes == {None, "-32602"}  # a failed tool has no code


def test_content_is_there_only_if_it_is_asked_for() -> None:
    assert "1.5" not in json.dumps(spans(EVERYTHING_DB, "tool:get-sum"))
    known = attributes(spans(EVERYTHING_DB, "tool:get-sum", content=True)[0])
    assert json.loads(known["gen_ai.tool.call.arguments"]) == {"a": 1.5, "b": 1e21}
    assert "The sum" in known["gen_ai.tool.call.result"]


def test_a_call_that_names_its_parent_belongs_to_its_trace(tmp_path: Path) -> None:
    asked = {
        "jsonrpc": "2.0",
        "id": "x",
        "method": "tools/call",
        "params": {"name": "t", "_meta": {"traceparent": PARENT}},
    }
    tape = tmp_path / "tape.db"
    run(record(tape, ["cat"]), json.dumps(asked).encode() + b"\n")
    span = next(one for one in spans(tape) if one["name"] == "tools/call t")
    assert (span["traceId"], span["parentSpanId"]) == (PARENT[3:35], PARENT[36:52])
    assert attributes(span)["error.type"] == "no_response"


def test_over_http_the_session_and_the_server_are_named() -> None:
    with Cassette(ROOT / "tests/formats/others/recordings/mitmproxy/everything.har") as cassette:
        (document,) = making.documents(cassette, cassette.sessions(), EVERYTHING, False)
    known = attributes(document["resourceSpans"][0]["scopeSpans"][0]["spans"][-1])
    assert known["server.address"] == "127.0.0.1" and known["server.port"].isdecimal()
    assert known["network.transport"] == "tcp" and len(known["mcp.session.id"]) > 10


# Sent to a collector ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_spans_are_sent_where_collectors_listen() -> None:
    with collecting(refused=300) as collector:
        done = run([*MCP_TAPE, "convert", str(EVERYTHING_DB), collector.url])
    assert done.returncode == 0 and f"sent to {collector.url}/v1/traces, 300 refused".encode() in done.stderr
    assert collector.paths == ["/v1/traces"]
    assert len(collector.taken[0].resource_spans[0].scope_spans[0].spans) > 20


def test_a_collector_that_is_busy_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "AT_ONCE", 10)
    waits: list[float] = []
    with collecting(503, 429) as collector, Cassette(EVERYTHING_DB) as cassette:
        sent, _ = send(collector.url, making.documents(cassette, cassette.sessions(), EVERYTHING, False), waits.append)
    assert sent == sum(len(one.resource_spans[0].scope_spans[0].spans) for one in collector.taken)
    assert waits == [1.0, 2.0] and len(collector.taken) > 2


def test_a_collector_that_refuses_or_is_not_there_is_an_error() -> None:
    document = {"resourceSpans": []}
    waits: list[float] = []
    with collecting(400) as collector, pytest.raises(ServerError, match="400 later"):
        send(collector.url, [document], waits.append)
    assert waits == []
    with pytest.raises(ServerError, match="cannot send spans"):
        send(collector.url, [document], waits.append)
    assert len(waits) == TRIES - 1


def document(number: int) -> dict[str, Any]:
    """A batch of one span."""
    span = {"traceId": f"{number:032x}", "spanId": f"{number:016x}", "name": str(number), "kind": 3,
            "startTimeUnixNano": "1", "endTimeUnixNano": "2", "attributes": []}  # fmt: skip
    scope = {"scope": {"name": "t", "version": "1"}, "spans": [span]}
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [scope]}]}


def names(collector: Collector) -> list[str]:
    return [one.resource_spans[0].scope_spans[0].spans[0].name for one in collector.taken]


def test_no_batch_is_made_before_the_last_one_was_taken() -> None:
    with collecting(503, 200, 200, 504) as collector:

        def made() -> Iterator[dict[str, Any]]:
            for number in range(5):
                assert names(collector) == list(map(str, range(number)))  # however many requests it took
                yield document(number)

        assert send(collector.url, made(), lambda _: None)[0] == 5
    assert names(collector) == list("01234") and len(collector.paths) == 7


@pytest.mark.slow
def test_unsent_spans_are_reported() -> None:
    with collecting(200, 200, *[503] * TRIES) as collector:
        with pytest.raises(ServerError, match="503 later\n2 spans had been sent before; the rest was not"):
            send(collector.url, map(document, range(5)), lambda _: None)
        assert names(collector) == ["0", "1"] and len(collector.paths) == 2 + TRIES
        said = ["convert", str(EVERYTHING_DB), collector.url]
        collector.statuses.append(400)
        done = run([*MCP_TAPE, *said])
    assert done.returncode == ServerError.exit_code and b"0 spans had been sent before" in done.stderr


@pytest.mark.slow
def test_a_collector_that_is_too_slow_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_tape.telemetry.collector._TIMEOUT", 0.05)
    waits: list[float] = []
    taking = socket.create_server(("127.0.0.1", 0))  # accepts connections, never answers
    with taking as silent, pytest.raises(ServerError, match=r"cannot send spans.*timed out"):
        send(f"http://127.0.0.1:{silent.getsockname()[1]}", [document(1)], waits.append)
    assert waits == [1.0, 2.0, 4.0, 8.0]


def test_calls_are_read_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with Cassette(EVERYTHING_DB) as cassette:
        whole = cassette.exchanges(1)
        monkeypatch.setattr("mcp_tape.cassette.pages._PAGE_BYTES", 1)  # one session per page
        assert list(exchanges(cassette, 1)) == whole


def test_a_url_with_a_path_is_unchanged() -> None:
    assert endpoint("http://127.0.0.1:4318/") == "http://127.0.0.1:4318/v1/traces"
    assert endpoint("https://example.com/otel/v1/traces") == "https://example.com/otel/v1/traces"
