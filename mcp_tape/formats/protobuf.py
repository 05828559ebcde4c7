"""Span documents as Protocol Buffers, which every collector accepts, and some accept nothing else.

Only the messages of https://github.com/open-telemetry/opentelemetry-proto that `otlp` makes, by their field numbers.
https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]


def encode(document: Json) -> bytes:
    """An ExportTraceServiceRequest."""
    return b"".join(_message(1, _resource_spans(one)) for one in document["resourceSpans"])


def rejected(response: bytes) -> int:
    """The number of rejected spans in an ExportTraceServiceResponse."""
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
        _fixed(7, int(span["startTimeUnixNano"])),
        _fixed(8, int(span["endTimeUnixNano"])),
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


def _fixed(field: int, number: int) -> bytes:
    return _varint(field << 3 | 1) + number.to_bytes(8, "little")


def _varint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])
