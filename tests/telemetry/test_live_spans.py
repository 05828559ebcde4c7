"""Live spans: the same as in an export, as many as a collector takes, without delaying anything."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.cassette.query.filters import EVERYTHING
from mcp_tape.cassette.reader import Cassette
from mcp_tape.record.rotation import CassetteSeries
from mcp_tape.telemetry import live_spans, spans
from mcp_tape.telemetry.collector import encode
from tests.support import production
from tests.support.collector import Collector, collecting, hanging, nobody
from tests.support.messages import call, request, result, tell
from tests.support.rows import EXIT, Said, cassettes
from tests.support.running import until

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "2"}}


def record(
    path: Path, said: Iterable[Said], row: CassetteSeries | None = None, *, otlp: str, **asked: Any
) -> list[str]:
    """Record, and send spans to a collector; return the warnings."""
    return production.record(path, said, row, spans=lambda warn: live_spans.LiveSpans(otlp, warn), **asked)


def client(*texts: str) -> list[Said]:
    return [("client", "stdio", text) for text in texts]


def server(*texts: str) -> list[Said]:
    return [("server", "stdio", text) for text in texts]


def answer(rpc_id: Any, **members: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": rpc_id, **members})


TALK: list[Said] = [
    *client(request(0, "initialize", protocolVersion="2025-11-25", clientInfo={"name": "me", "version": "1"})),
    *server(answer(0, result=HELLO)),
    *client(tell("notifications/initialized"), request(1, "tools/list"), call(2, "usual", q="planted")),
    *server(result(1), answer(2, result={"content": [{"type": "text", "text": "planted"}]})),
    *client(
        request(3, "tools/call", name="traced", _meta={"traceparent": PARENT}), request(4, "resources/read", uri="x:")
    ),
    *server(answer("s", method="sampling/createMessage", params={"messages": []})),
    *client(answer("s", result={"role": "assistant"})),
    *server(
        answer(3, result={"content": [], "isError": True}), answer(4, error={"code": -32002, "message": "planted"})
    ),
    *client(call(5, "never answered"), call("text id")),
    *server(result("text id")),
    EXIT,
]


def exported(path: Path) -> list[Any]:
    """The spans in an export of a cassette, in the form that a collector receives."""
    with Cassette(path) as cassette:
        found = [encode(one) for one in spans.documents(cassette, cassette.sessions(), EVERYTHING, False)]
    collector = Collector.__new__(Collector)
    collector.taken = [live_request(data) for data in found]
    return collector.spans


def live_request(data: bytes) -> Any:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    return ExportTraceServiceRequest.FromString(data)


def ordered(spans: list[Any]) -> list[Any]:
    for span in spans:
        span.attributes.sort(key=lambda one: one.key)
    return sorted(spans, key=lambda span: span.span_id)


def test_spans_are_those_of_an_export(tmp_path: Path) -> None:
    with collecting() as collector:
        said = record(tmp_path / "t.db", TALK, otlp=collector.url)
    assert said == ["8 spans sent, 0 dropped"]
    expected = ordered(exported(tmp_path / "t.db"))
    assert ordered(collector.spans) == expected and len(expected) == 8
    assert {one.resource_spans[0].resource.attributes[0].value.string_value for one in collector.taken} == {"me"}
    assert b"planted" not in b"".join(one.SerializeToString() for one in collector.taken)


@pytest.mark.slow
def test_they_are_sent_while_the_session_goes_on(tmp_path: Path) -> None:
    with collecting() as collector:

        def talk() -> Any:
            yield from TALK[:2]
            until(lambda: collector.spans, "the first span")
            yield from TALK[2:]

        record(tmp_path / "t.db", talk(), otlp=collector.url)
    assert len(collector.taken) > 1


@pytest.mark.parametrize("bodies", ["hash", "none"])
def test_without_bodies_not_even_a_uri_is_sent(tmp_path: Path, bodies: str) -> None:
    with collecting() as collector:
        record(tmp_path / "t.db", TALK, otlp=collector.url, bodies=bodies, quiet=True)
    uris = [one.value.string_value for span in collector.spans for one in span.attributes if one.key.endswith(".uri")]
    assert len(uris) == 1 and uris[0].startswith("[")


@pytest.mark.slow
def test_in_each_cassette_of_a_row_a_call_is_one_span(tmp_path: Path) -> None:
    calls = [part for n in range(60) for part in (*client(call(n, text="x" * 2000)), *server(result(n)))]
    row = CassetteSeries(str(tmp_path / "t.db"), 60_000, 20)
    with collecting() as collector:
        said = record(tmp_path / "t.db", [*calls, EXIT], row, otlp=collector.url)
    assert said == ["60 spans sent, 0 dropped"] and len(cassettes(tmp_path)) > 1
    assert ordered(collector.spans) == ordered([span for path in cassettes(tmp_path) for span in exported(path)])


@pytest.mark.slow
def test_a_collector_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    with hanging() as url:  # hangs until the recording has ended
        assert record(tmp_path / "t.db", TALK, otlp=url) == ["0 spans sent, 8 dropped"]
    assert len(exported(tmp_path / "t.db")) == 8
    assert live_spans.LAST == 2.0  # as documented


def test_a_collector_that_is_not_there_is_named_once(tmp_path: Path) -> None:
    url = nobody()
    said = record(tmp_path / "t.db", TALK, otlp=url, quiet=True)
    assert said[-1] == "0 spans sent, 8 dropped" and len(said) == 2
    assert said[0].startswith(f"cannot send spans to {url}/v1/traces: ") and said[0].endswith(
        ": such spans are dropped"
    )


def test_a_collector_that_refuses_costs_only_spans(tmp_path: Path) -> None:
    with collecting(*[403] * 100) as collector:
        said = record(tmp_path / "t.db", TALK, otlp=collector.url)
    assert "it answered 403" in said[0] and said[1:] == ["0 spans sent, 8 dropped"]


def test_spans_that_a_collector_refuses_count_as_dropped(tmp_path: Path) -> None:
    with collecting(refused=1) as collector:
        (said,) = record(tmp_path / "t.db", TALK[:2], otlp=collector.url)
    assert said == "0 spans sent, 1 dropped"


def test_the_queue_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_spans, "MOST", 10)
    monkeypatch.setattr(live_spans, "_MOST_OPEN", 20)
    monkeypatch.setattr(live_spans, "LAST", 0.0)
    with hanging() as url:
        asked = client(*(call(number) for number in range(100)))
        said = record(tmp_path / "t.db", [*asked, *server(*(result(n) for n in range(100))), EXIT], otlp=url)
    assert said == ["0 spans sent, 100 dropped"]


def test_with_nothing_to_send_no_request_is_made(tmp_path: Path) -> None:
    assert record(tmp_path / "t.db", [EXIT], otlp=nobody()) == ["0 spans sent, 0 dropped"]
    assert record(tmp_path / "t.db", [EXIT], otlp=nobody(), quiet=True) == []
