"""Sends spans to an OpenTelemetry collector: https://opentelemetry.io/docs/specs/otlp/#otlphttp

One document at a time: the next is read from the cassette when the collector has taken this one. So at most
`spans.AT_ONCE` spans are in memory, and a slow collector slows down the reading. If a collector refuses a document
`TRIES` times, the error reports how many spans it has taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

from ..errors import ServerError, count
from ..redaction.diagnostics import hide_secrets

Json = dict[str, Any]
PATH = "/v1/traces"
TRIES = 5
_RETRIED = (429, 502, 503, 504)  # https://opentelemetry.io/docs/specs/otlp/#retryable-response-codes
_LONGEST = 30.0  # maximum seconds between two tries
_TIMEOUT = 10.0


def endpoint(url: str) -> str:
    """Return the URL to send spans to: the usual path is added to a URL without one."""
    return url if urlsplit(url).path.strip("/") else url.rstrip("/") + PATH


def send(url: str, documents: Iterable[Json], wait: Callable[[float], object] = time.sleep) -> tuple[int, int]:
    """Send documents of spans; return the number of spans sent, and the number refused. `wait` runs between tries."""
    taken = refused = 0
    try:
        for spans, without in send_each(url, documents, wait):
            taken += spans
            refused += without
    except ServerError as error:
        raise ServerError(f"{error}\n{count(taken, 'span')} had been sent before; the rest was not") from None
    return taken, refused


def send_each(url: str, documents: Iterable[Json], wait: Callable[[float], object]) -> Iterator[tuple[int, int]]:
    """Send documents of spans; yield the number of spans in each, and the number refused."""
    import httpx2

    with httpx2.Client(timeout=_TIMEOUT, follow_redirects=False) as client:
        for document in documents:
            answer = _post_document(client, endpoint(url), encode(document), wait)
            spans = sum(len(scope["spans"]) for one in document["resourceSpans"] for scope in one["scopeSpans"])
            yield spans, count_rejected(answer)


def _post_document(client: Any, url: str, body: bytes, wait: Callable[[float], object]) -> bytes:
    """Send a document until the collector takes it; return the response."""
    import httpx2

    why, delay = "", 0.0
    for number in range(TRIES):
        if number:
            wait(delay)
        delay = min(2.0**number, _LONGEST)
        try:
            response = client.post(url, content=body, headers={"content-type": "application/x-protobuf"})
        except httpx2.HTTPError as error:
            why = f"{str(error) or type(error).__name__}; check that a collector listens there"
            continue
        if response.status_code < 300:
            return bytes(response.content)
        why = f"it answered {response.status_code} {response.text[:200]}".strip()
        if response.status_code not in _RETRIED:
            break
        asked = response.headers.get("retry-after", "")
        delay = min(float(asked), _LONGEST) if asked.isdecimal() else delay
    raise ServerError(
        hide_secrets(f"cannot send spans to {url.partition('?')[0]}: {why}")
    )  # a query may hold a signature


def encode(document: Json) -> bytes:
    """Encode a document of spans as an ExportTraceServiceRequest.

    Protocol Buffers, since some collectors accept nothing else: https://protobuf.dev/programming-guides/encoding/
    Field numbers: https://github.com/open-telemetry/opentelemetry-proto
    """
    return b"".join(_message(1, _resource_spans(one)) for one in document["resourceSpans"])


def count_rejected(response: bytes) -> int:
    """The number of refused spans, from an ExportTraceServiceResponse."""
    partial = response[2:] if response[:1] == b"\x0a" else b""
    number = 0
    for place, byte in enumerate(partial[1:10] if partial[:1] == b"\x08" else b""):
        number |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            break
    return number


def _resource_spans(value: Json) -> bytes:
    scopes = (_message(2, _scope_spans(one)) for one in value["scopeSpans"])
    return _message(1, _attributes(1, value["resource"]["attributes"])) + b"".join(scopes)


def _scope_spans(value: Json) -> bytes:
    scope = _text(1, value["scope"]["name"]) + _text(2, value["scope"]["version"])
    return _message(1, scope) + b"".join(_message(2, _span(one)) for one in value["spans"])


def _span(span: Json) -> bytes:
    parts = [
        _message(1, bytes.fromhex(span["traceId"])),
        _message(2, bytes.fromhex(span["spanId"])),
        _message(4, bytes.fromhex(span["parentSpanId"])) if "parentSpanId" in span else b"",
        _text(5, span["name"]),
        _number(6, span["kind"]),
        _fixed64_field(7, int(span["startTimeUnixNano"])),
        _fixed64_field(8, int(span["endTimeUnixNano"])),
        _attributes(9, span["attributes"]),
    ]
    if status := span.get("status"):
        message = _text(2, status["message"]) if "message" in status else b""
        parts.append(_message(15, message + _number(3, status["code"])))
    return b"".join(parts)


def _attributes(field: int, attributes: Iterable[Json]) -> bytes:
    return b"".join(_message(field, _text(1, one["key"]) + _message(2, _value(one["value"]))) for one in attributes)


def _value(value: Json) -> bytes:
    return _text(1, value["stringValue"]) if "stringValue" in value else _number(3, int(value["intValue"]))


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode("utf-8", "replace"))


def _message(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _number(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number)


def _fixed64_field(field: int, number: int) -> bytes:
    return _varint(field << 3 | 1) + number.to_bytes(8, "little")


def _varint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])
